// TLS, or what the kernel says of a user, and the first frame.
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

Result<std::unique_ptr<net::Channel>> greet(const net::TlsContext& tls, net::Socket socket, std::string& why) {
    net::TlsChannel::Options options;
    options.handshake_timeout = k_greeting_timeout;
    return std::unique_ptr<net::Channel>(WL_TRY(net::TlsChannel::handshake(tls, std::move(socket), "", options, why)));
}

Result<std::unique_ptr<net::Channel>> greet_by_key(const net::TlsContext& tls, const TakeMessage& take, net::Socket socket,
                                                   const net::PresharedKey& key, std::string& why) {
    if (take.plain != 0) return net::PlainChannel::accept_key(std::move(socket), key, k_greeting_timeout, why);
    net::TlsChannel::Options options;
    options.handshake_timeout = k_greeting_timeout;
    options.key = key;
    return std::unique_ptr<net::Channel>(WL_TRY(net::TlsChannel::handshake(tls, std::move(socket), "", options, why)));
}

Result<std::unique_ptr<net::Channel>> greet_user(const TakeMessage& take, net::Socket socket,
                                                 const net::PlainChannel::WhoIs& who_is, std::string& why) {
    const bool gone = take.preamble_kind == static_cast<uint16_t>(protocol::Preamble::Kind::lane);
    return net::PlainChannel::accept_user(std::move(socket), who_is, gone, k_greeting_timeout, why);
}

Bytes lane_identity(const TakeMessage& take) {
    protocol::Preamble preamble{protocol::Preamble::Kind::lane, {}, take.lane, take.epoch};
    std::memcpy(preamble.session.data(), take.session_id, sizeof take.session_id);
    const auto bytes = protocol::encode_preamble(preamble);
    return {bytes.begin(), bytes.end()};
}

std::optional<protocol::ResumeRequest> read_resume(net::Channel& channel) {
    const auto deadline = std::chrono::steady_clock::now() + k_greeting_timeout;
    const auto frame = protocol::read_resume_frame([&](MutableBytesView bytes) { return channel.read_exact(bytes, deadline); });
    const auto wanted = frame.ok() ? protocol::decode_resume(*frame) : Result<protocol::ResumeRequest>(frame.error());
    if (wanted.ok()) return *wanted;
    WL_LOG(warn, "session", "{}: a connection that wants to continue a session is refused: {}", channel.peer_address(),
           wanted.error().what);
    return std::nullopt;
}

void send_and_end(net::Channel& channel, BytesView frame) {
    const BytesView pieces[] = {frame};
    if (!channel.write(pieces).ok()) return;
    channel.send_end();
    channel.discard_input(std::chrono::steady_clock::now() + k_last_frame_patience);
}

}  // namespace warpline::server
