// The start and the end of a TLS channel.
#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>

#include "common/net/tls_channel_state.h"

namespace warpline::net {

namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t k_input_bytes = 256 * 1024;  // received and not yet decrypted
// For a refused peer to read why.
constexpr auto k_linger_time = std::chrono::milliseconds(500);

bool is_ip_address(const std::string& name) {
    ASN1_OCTET_STRING* address = a2i_IPADDRESS(name.c_str());
    if (!address) return false;
    ASN1_OCTET_STRING_free(address);
    return true;
}

}  // namespace

Result<void> TlsChannel::State::set_up(const std::string& name, const Options& options) {
    MutexLock lock(mutex);
    ssl.reset(SSL_new(context->ctx.get()));
    BIO* bio = new_pipe_bio(&pipes);
    if (!ssl || !bio) {
        BIO_free(bio);
        return Error{Code::alloc_failed, "no memory for TLS"};
    }
    SSL_set_bio(ssl.get(), bio, bio);
    SSL_set_ex_data(ssl.get(), verify_report_index(), &report);
    pipes.in.reserve(k_input_bytes);
    report.by_key = options.key.has_value();
    if (options.key) WL_TRY(use_key(ssl.get(), context->role, *options.key));
    if (context->role == TlsRole::server) {
        SSL_set_accept_state(ssl.get());
        return {};
    }
    SSL_set_connect_state(ssl.get());
    server_name = name;
    if (options.any_server_of_ca) return {};
    bool set;
    if (is_ip_address(name)) {
        set = X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl.get()), name.c_str()) == 1;
    } else {
        SSL_set_hostflags(ssl.get(), X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
        set = !name.empty() && SSL_set1_host(ssl.get(), name.c_str()) == 1 &&
              SSL_set_tlsext_host_name(ssl.get(), name.c_str()) == 1;
    }
    if (!set) return Error{Code::bad_argument, "the server's name cannot be checked"};
    return {};
}

Result<void> TlsChannel::State::show_certificate(std::string& why) {
    MutexLock lock(mutex);
    WL_TRY(context->decode(why));
    return context->use_own(ssl.get());
}

Result<void> TlsChannel::State::shake_hands(Clock::time_point deadline, std::string& why) {
    if (context->role == TlsRole::server) WL_TRY(show_certificate(why));
    for (bool first = true;; first = false) {
        int outcome, wanted;
        Error failure{Code::ok};
        {
            MutexLock lock(mutex);
            ERR_clear_error();
            outcome = SSL_do_handshake(ssl.get());
            wanted = SSL_get_error(ssl.get(), outcome);
            if (outcome != 1 && wanted != SSL_ERROR_WANT_READ)
                failure = explain_ssl_error(context->role, take_ssl_error(), report, server_name, why);
            std::swap(sending, pipes.out);
        }
        if (sending.size() > 0) {
            auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
            BytesView bytes{sending.data(), sending.size()};
            auto sent = socket.write_all(bytes, std::max(left, std::chrono::milliseconds(1)));
            sending.begin = sending.end = 0;
            if (!sent.ok() && failure.code == Code::ok && outcome == 1) return sent;
        }
        if (failure.code != Code::ok) {
            // Lets the other side read why it is refused.
            ::shutdown(socket.fd(), SHUT_WR);
            discard_input(Clock::now() + k_linger_time);
            return failure;
        }
        if (outcome == 1) return {};
        // A client is not asked for it before the server's answer, and has the time meanwhile.
        if (first && context->role == TlsRole::client) WL_TRY(show_certificate(why));
        auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
        pollfd entry{socket.fd(), POLLIN, 0};
        int ready = left <= 0 ? 0 : ::poll(&entry, 1, static_cast<int>(left));
        if (ready == 0) {
            why = "the TLS handshake with " + peer_address + " took too long";
            return Error{Code::deadline, "the TLS handshake took too long"};
        }
        auto received = receive_more(0);
        if (!received.ok()) {
            why = explain();
            return received.error();
        }
    }
}

Result<std::unique_ptr<TlsChannel>> TlsChannel::handshake(const TlsContext& context, Socket socket,
                                                          const std::string& server_name, const Options& options,
                                                          std::string& why) {
    int flags = ::fcntl(socket.fd(), F_GETFL);
    if (flags < 0) return Error{Code::bad_argument, "not an open socket"};
    (void)::fcntl(socket.fd(), F_SETFL, flags & ~O_NONBLOCK);
    tune_stream_socket(socket.fd());
    auto state = std::make_unique<State>(context.shared_state(), std::move(socket));
    state->rekey_bytes = std::max<uint64_t>(options.rekey_bytes, 1);
    WL_TRY(state->set_up(server_name, options));
    WL_TRY(state->shake_hands(Clock::now() + options.handshake_timeout, why));
    {
        MutexLock lock(state->mutex);
        X509* peer = SSL_get0_peer_certificate(state->ssl.get());
        if (peer) state->peer_name = common_name(peer);
        // There are no sessions of old and no tickets: what is taken up can only be the key.
        state->proved_by_key = options.key.has_value() && SSL_session_reused(state->ssl.get()) == 1;
        state->report.key_is_proved = state->proved_by_key;
    }
    if (state->proved_by_key) return std::unique_ptr<TlsChannel>(new TlsChannel(std::move(state)));
    if (state->peer_name.empty() && context.role() == TlsRole::server) {
        why = "the client's certificate names nobody (its subject has no usable CN)";
        return Error{Code::auth_failed, "the client's certificate names nobody"};
    }
    return std::unique_ptr<TlsChannel>(new TlsChannel(std::move(state)));
}

}  // namespace warpline::net
