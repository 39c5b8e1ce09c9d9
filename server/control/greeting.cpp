// TLS and the first frame.
#include "server/control/greeting.h"

#include <chrono>
#include <cstring>

#include "common/log/log.h"

namespace warpline::server {

namespace {

/// How long who wants to continue a session has for TLS, and again for proving that it is his: the session waits meanwhile.
constexpr std::chrono::milliseconds k_resume_timeout{5000};
/// How long a client that is sent away has for reading why.
constexpr std::chrono::milliseconds k_last_frame_patience{1000};

}  // namespace

Result<net::TlsContext> server_tls(const config::Settings& settings, std::string& problem) {
    const auto credentials =
        WL_TRY(net::load_credentials(settings.path("ca"), settings.path("certificate"), settings.path("key"), problem));
    return net::TlsContext::create(net::TlsRole::server, credentials, problem);
}

std::unique_ptr<net::TlsChannel> greet_again(const net::TlsContext& tls, const TakeMessage& take, net::Socket socket,
                                             protocol::ResumeRequest& request) {
    std::string why;
    net::TlsChannel::Options options;
    options.handshake_timeout = k_resume_timeout;
    auto channel = net::TlsChannel::handshake(tls, std::move(socket), "", options, why);
    if (!channel.ok()) {
        WL_LOG(warn, "session", "a connection that wants to continue a session is refused: {}", why);
        return nullptr;
    }
    const auto deadline = std::chrono::steady_clock::now() + k_resume_timeout;
    const auto frame =
        protocol::read_resume_frame([&](MutableBytesView bytes) { return (*channel)->read_exact(bytes, deadline); });
    const auto wanted = frame.ok() ? protocol::decode_resume(*frame) : Result<protocol::ResumeRequest>(frame.error());
    if (!wanted.ok()) {
        WL_LOG(warn, "session", "a connection that wants to continue a session is refused: {}", wanted.error().what);
        return nullptr;
    }
    request = *wanted;
    // The preamble is not protected: a session that it names by damage is nobody's, and the client shall try again.
    if (std::memcmp(take.session_id, request.session.data(), sizeof take.session_id) != 0) {
        WL_LOG(warn, "session",
               "a connection that wants to continue a session is refused: its preamble was changed on the way");
        return nullptr;
    }
    return std::move(*channel);
}

void send_and_end(net::TlsChannel& channel, BytesView frame) {
    const BytesView pieces[] = {frame};
    if (!channel.write(pieces).ok()) return;
    channel.send_end();
    channel.discard_input(std::chrono::steady_clock::now() + k_last_frame_patience);
}

}  // namespace warpline::server
