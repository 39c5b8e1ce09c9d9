// TLS and the first frame.
#include "server/control/greeting.h"

#include <chrono>
#include <cstring>

#include "common/log/log.h"
#include "protocol/codec/preamble.h"

namespace warpline::server {

namespace {

/// For TLS, and again for what a lane says first.
constexpr std::chrono::milliseconds k_greeting_timeout{5000};
/// How long a client that is sent away has for reading why.
constexpr std::chrono::milliseconds k_last_frame_patience{1000};

}  // namespace

Result<std::unique_ptr<net::TlsChannel>> greet(const net::TlsContext& tls, net::Socket socket,
                                               std::optional<net::PresharedKey> key, std::string& why) {
    net::TlsChannel::Options options;
    options.handshake_timeout = k_greeting_timeout;
    options.key = std::move(key);
    return net::TlsChannel::handshake(tls, std::move(socket), "", options, why);
}

Bytes lane_identity(const TakeMessage& take) {
    protocol::Preamble preamble{protocol::Preamble::Kind::lane, {}, take.lane, take.epoch};
    std::memcpy(preamble.session.data(), take.session_id, sizeof take.session_id);
    const auto bytes = protocol::encode_preamble(preamble);
    return {bytes.begin(), bytes.end()};
}

std::optional<protocol::ResumeRequest> read_resume(net::TlsChannel& channel) {
    const auto deadline = std::chrono::steady_clock::now() + k_greeting_timeout;
    const auto frame = protocol::read_resume_frame([&](MutableBytesView bytes) { return channel.read_exact(bytes, deadline); });
    const auto wanted = frame.ok() ? protocol::decode_resume(*frame) : Result<protocol::ResumeRequest>(frame.error());
    if (wanted.ok()) return *wanted;
    WL_LOG(warn, "session", "{}: a connection that wants to continue a session is refused: {}", channel.peer_address(),
           wanted.error().what);
    return std::nullopt;
}

void send_and_end(net::TlsChannel& channel, BytesView frame) {
    const BytesView pieces[] = {frame};
    if (!channel.write(pieces).ok()) return;
    channel.send_end();
    channel.discard_input(std::chrono::steady_clock::now() + k_last_frame_patience);
}

}  // namespace warpline::server
