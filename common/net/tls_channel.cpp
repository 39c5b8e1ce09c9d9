#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <algorithm>
#include <atomic>
#include <cerrno>

#include "common/base/mutex.h"
#include "common/net/tls_internal.h"

namespace warpline::net {

namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t k_record_bytes = 16 * 1024;         // the largest record of TLS 1.3
constexpr size_t k_input_bytes = 256 * 1024;         // received and not yet decrypted
constexpr size_t k_encrypt_step_bytes = 128 * 1024;  // plain text encrypted under one hold of the lock
// What a refused peer may still send while we wait for it to read why.
constexpr size_t k_linger_bytes = 1u << 20;
constexpr auto k_linger_time = std::chrono::milliseconds(500);

constexpr Error k_lost{Code::connection_lost, "the connection is lost"};

/// Encrypted bytes on their way between OpenSSL and the socket.
struct CipherBuffer {
    std::vector<std::byte> bytes;
    size_t begin = 0;
    size_t end = 0;

    size_t size() const { return end - begin; }
    void append(const void* data, size_t count) {
        if (begin == end) begin = end = 0;
        if (bytes.size() - end < count) bytes.resize(std::max(bytes.size() * 2, end + count));
        std::memcpy(bytes.data() + end, data, count);
        end += count;
    }
};

struct Pipes {
    CipherBuffer in;
    CipherBuffer out;
    bool in_ended = false;
};

// A BIO that reads and writes the buffers above in place; BIO_s_mem would move every byte once more.
int pipe_read(BIO* bio, char* data, size_t size, size_t* got) {
    auto* pipes = static_cast<Pipes*>(BIO_get_data(bio));
    BIO_clear_retry_flags(bio);
    *got = std::min(size, pipes->in.size());
    if (*got == 0) {
        if (!pipes->in_ended) BIO_set_retry_read(bio);
        return 0;
    }
    std::memcpy(data, pipes->in.bytes.data() + pipes->in.begin, *got);
    pipes->in.begin += *got;
    return 1;
}

int pipe_write(BIO* bio, const char* data, size_t size, size_t* written) {
    auto* pipes = static_cast<Pipes*>(BIO_get_data(bio));
    BIO_clear_retry_flags(bio);
    pipes->out.append(data, size);
    *written = size;
    return 1;
}

long pipe_ctrl(BIO*, int command, long, void*) { return command == BIO_CTRL_FLUSH ? 1 : 0; }

BIO* new_pipe_bio(Pipes* pipes) {
    static BIO_METHOD* const method = [] {
        BIO_METHOD* made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "warpline pipe");
        BIO_meth_set_read_ex(made, pipe_read);
        BIO_meth_set_write_ex(made, pipe_write);
        BIO_meth_set_ctrl(made, pipe_ctrl);
        return made;
    }();
    BIO* bio = BIO_new(method);
    if (!bio) return nullptr;
    BIO_set_data(bio, pipes);
    BIO_set_init(bio, 1);
    return bio;
}

bool is_ip_address(const std::string& name) {
    ASN1_OCTET_STRING* address = a2i_IPADDRESS(name.c_str());
    if (!address) return false;
    ASN1_OCTET_STRING_free(address);
    return true;
}

}  // namespace

struct TlsChannel::State {
    explicit State(std::shared_ptr<const TlsContext::State> shared_context, Socket connected)
        : context(std::move(shared_context)), socket(std::move(connected)), peer_address(socket.peer_address()) {}

    // Constant after the handshake.
    const std::shared_ptr<const TlsContext::State> context;
    Socket socket;
    const std::string peer_address;
    std::string peer_name;
    std::string server_name;
    uint64_t rekey_bytes = 0;

    Mutex mutex;  // for everything that OpenSSL touches
    Pipes pipes WL_GUARDED_BY(mutex);
    VerifyReport report WL_GUARDED_BY(mutex);
    std::unique_ptr<SSL, SslDeleter> ssl WL_GUARDED_BY(mutex);

    // The writer's.
    CipherBuffer sending;
    std::vector<std::byte> gathered;
    uint64_t bytes_since_rekey = 0;

    // The reader's.
    Error read_error{Code::ok};

    std::atomic<bool> shut{false};  // only tells a wanted end from an unwanted one; nothing else depends on it
    mutable Mutex text_mutex;
    std::string text WL_GUARDED_BY(text_mutex);

    Error failed(Error error, std::string why) {
        MutexLock lock(text_mutex);
        if (text.empty()) text = std::move(why);
        return error;
    }
    Error socket_failed(int error) {
        if (shut.load()) return failed(k_lost, "the connection was closed here");
        std::string why = "the connection to " + peer_address + " is lost: ";
        return failed(Error{Code::connection_lost, "the connection is lost", static_cast<uint32_t>(error)},
                      why + std::strerror(error));
    }
    Error ended() {
        if (shut.load()) return failed(k_lost, "the connection was closed here");
        return failed(k_lost, peer_address + " has closed the connection");
    }

    Result<void> set_up(const std::string& name);
    Result<void> shake_hands(Clock::time_point deadline, std::string& why);
    void discard_input(Clock::time_point deadline);
    Result<size_t> decrypt(MutableBytesView into);
    Result<void> receive();
    Result<void> encrypt(BytesView plain) WL_REQUIRES(mutex);
    Result<void> encrypt_pieces(std::span<const BytesView>& pieces, size_t& offset, size_t limit_bytes);
    Result<bool> send_pending(int flags);
};

TlsChannel::TlsChannel(std::unique_ptr<State> state) : m_state(std::move(state)) {}
TlsChannel::~TlsChannel() = default;

Result<void> TlsChannel::State::set_up(const std::string& name) {
    MutexLock lock(mutex);
    ssl.reset(SSL_new(context->ctx.get()));
    BIO* bio = new_pipe_bio(&pipes);
    if (!ssl || !bio) {
        BIO_free(bio);
        return Error{Code::alloc_failed, "no memory for TLS"};
    }
    SSL_set_bio(ssl.get(), bio, bio);
    SSL_set_ex_data(ssl.get(), verify_report_index(), &report);
    pipes.in.bytes.resize(k_input_bytes);
    if (context->role == TlsRole::server) {
        SSL_set_accept_state(ssl.get());
        return {};
    }
    SSL_set_connect_state(ssl.get());
    server_name = name;
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

Result<void> TlsChannel::State::shake_hands(Clock::time_point deadline, std::string& why) {
    for (;;) {
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
            BytesView bytes{sending.bytes.data() + sending.begin, sending.size()};
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
        auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
        pollfd entry{socket.fd(), POLLIN, 0};
        int ready = left <= 0 ? 0 : ::poll(&entry, 1, static_cast<int>(left));
        if (ready == 0) {
            why = "the TLS handshake with " + peer_address + " took too long";
            return Error{Code::deadline, "the TLS handshake took too long"};
        }
        auto received = receive();
        if (!received.ok()) {
            MutexLock lock(text_mutex);
            why = text;
            return received;
        }
    }
}

void TlsChannel::State::discard_input(Clock::time_point deadline) {
    std::byte scratch[4096];
    for (size_t total = 0; total < k_linger_bytes;) {
        auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
        pollfd entry{socket.fd(), POLLIN, 0};
        if (left <= 0 || ::poll(&entry, 1, static_cast<int>(left)) <= 0) return;
        ssize_t got = ::recv(socket.fd(), scratch, sizeof scratch, MSG_DONTWAIT);
        if (got <= 0) return;
        total += static_cast<size_t>(got);
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
    WL_TRY(state->set_up(server_name));
    WL_TRY(state->shake_hands(Clock::now() + options.handshake_timeout, why));
    {
        MutexLock lock(state->mutex);
        X509* peer = SSL_get0_peer_certificate(state->ssl.get());
        if (peer) state->peer_name = common_name(peer);
    }
    if (state->peer_name.empty() && context.role() == TlsRole::server) {
        why = "the client's certificate names nobody (its subject has no usable CN)";
        return Error{Code::auth_failed, "the client's certificate names nobody"};
    }
    return std::unique_ptr<TlsChannel>(new TlsChannel(std::move(state)));
}

// --- reading ---

Result<size_t> TlsChannel::State::decrypt(MutableBytesView into) {
    MutexLock lock(mutex);
    size_t total = 0;
    while (total < into.size()) {
        ERR_clear_error();
        size_t got = 0;
        int outcome = SSL_read_ex(ssl.get(), into.data() + total, into.size() - total, &got);
        if (outcome == 1) {
            total += got;
            continue;
        }
        int wanted = SSL_get_error(ssl.get(), outcome);
        if (wanted == SSL_ERROR_WANT_READ) break;
        if (wanted == SSL_ERROR_ZERO_RETURN) {
            read_error = ended();
        } else {
            std::string why;
            read_error = explain_ssl_error(context->role, take_ssl_error(), report, server_name, why);
            read_error = failed(read_error, why);
        }
        break;
    }
    if (total == 0 && read_error.code != Code::ok) return read_error;
    return total;
}

// Takes what the socket has. Only the reader puts bytes in, and OpenSSL takes them out in decrypt(), on the same thread: the
// part behind `end` can be filled without the lock.
Result<void> TlsChannel::State::receive() WL_NO_THREAD_SAFETY_ANALYSIS {
    CipherBuffer& in = pipes.in;
    if (in.begin == in.end) {
        in.begin = in.end = 0;
    } else if (in.begin > 0) {
        std::memmove(in.bytes.data(), in.bytes.data() + in.begin, in.size());
        in.end -= in.begin;
        in.begin = 0;
    }
    for (;;) {
        ssize_t got = ::recv(socket.fd(), in.bytes.data() + in.end, in.bytes.size() - in.end, 0);
        if (got > 0) {
            in.end += static_cast<size_t>(got);
            return {};
        }
        if (got == 0) return ended();
        if (errno == EINTR) continue;
        if (errno == EAGAIN || errno == EWOULDBLOCK) return Error{Code::deadline, "nothing arrived"};
        return socket_failed(errno);
    }
}

Result<size_t> TlsChannel::read(MutableBytesView into) {
    State& state = *m_state;
    if (state.read_error.code != Code::ok) return state.read_error;
    if (into.empty()) return Error{Code::bad_argument, "no room to read into"};
    for (;;) {
        size_t got = WL_TRY(state.decrypt(into));
        if (got > 0) return got;
        auto received = state.receive();
        if (received.ok()) continue;
        if (received.error().code == Code::deadline) return size_t{0};
        state.read_error = received.error();
        return state.read_error;
    }
}

void TlsChannel::set_read_tick(std::chrono::milliseconds tick) {
    timeval time{};
    time.tv_sec = tick.count() / 1000;
    time.tv_usec = static_cast<suseconds_t>(tick.count() % 1000 * 1000);
    (void)::setsockopt(m_state->socket.fd(), SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time);
}

// --- writing ---

Result<void> TlsChannel::State::encrypt(BytesView plain) {
    ERR_clear_error();
    if (bytes_since_rekey >= rekey_bytes) {
        bytes_since_rekey = 0;
        (void)SSL_key_update(ssl.get(), SSL_KEY_UPDATE_NOT_REQUESTED);  // refused only while another one is under way
    }
    size_t written = 0;
    int outcome = SSL_write_ex(ssl.get(), plain.data(), plain.size(), &written);
    if (outcome != 1 || written != plain.size()) {
        std::string why;
        Error error = explain_ssl_error(context->role, take_ssl_error(), report, server_name, why);
        return failed(error, why);
    }
    bytes_since_rekey += plain.size();
    return {};
}

// Encrypts about limit_bytes of what is left of the pieces; `offset` is the place in the first one. Small pieces are gathered
// into records of full size, large ones are encrypted where they lie.
Result<void> TlsChannel::State::encrypt_pieces(std::span<const BytesView>& pieces, size_t& offset, size_t limit_bytes) {
    MutexLock lock(mutex);
    size_t done = 0;
    while (!pieces.empty() && done < limit_bytes) {
        BytesView rest = pieces.front().subspan(offset);
        if (gathered.empty() && rest.size() >= k_record_bytes) {
            size_t count = std::min(rest.size() / k_record_bytes * k_record_bytes, k_encrypt_step_bytes);
            WL_TRY(encrypt(rest.first(count)));
            offset += count;
            done += count;
        } else {
            size_t count = std::min(rest.size(), k_record_bytes - gathered.size());
            gathered.insert(gathered.end(), rest.begin(), rest.begin() + static_cast<ptrdiff_t>(count));
            offset += count;
            if (gathered.size() == k_record_bytes) {
                WL_TRY(encrypt(gathered));
                gathered.clear();
                done += k_record_bytes;
            }
        }
        if (offset == pieces.front().size()) {
            pieces = pieces.subspan(1);
            offset = 0;
        }
    }
    if (pieces.empty() && !gathered.empty()) {
        WL_TRY(encrypt(gathered));
        gathered.clear();
    }
    // What was left unsent stays in front; else the buffers change places, and nothing is copied.
    if (sending.size() == 0) {
        sending.begin = sending.end = 0;
        std::swap(sending, pipes.out);
    } else if (pipes.out.size() > 0) {
        sending.append(pipes.out.bytes.data() + pipes.out.begin, pipes.out.size());
        pipes.out.begin = pipes.out.end = 0;
    }
    return {};
}

// True when nothing is left; false if the socket takes no more and `flags` says not to wait.
Result<bool> TlsChannel::State::send_pending(int flags) {
    while (sending.size() > 0) {
        ssize_t sent = ::send(socket.fd(), sending.bytes.data() + sending.begin, sending.size(), MSG_NOSIGNAL | flags);
        if (sent > 0) {
            sending.begin += static_cast<size_t>(sent);
            continue;
        }
        if (errno == EINTR) continue;
        if (errno == EAGAIN || errno == EWOULDBLOCK) {
            if (flags & MSG_DONTWAIT) return false;
            continue;
        }
        return socket_failed(errno);
    }
    return true;
}

Result<void> TlsChannel::write(std::span<const BytesView> pieces) {
    State& state = *m_state;
    size_t offset = 0;
    do {
        WL_TRY(state.encrypt_pieces(pieces, offset, k_encrypt_step_bytes));
        WL_TRY(state.send_pending(0));
    } while (!pieces.empty());
    return {};
}

Result<bool> TlsChannel::write_some(std::span<const BytesView> pieces) {
    State& state = *m_state;
    size_t offset = 0;
    while (!pieces.empty()) WL_TRY(state.encrypt_pieces(pieces, offset, k_encrypt_step_bytes));
    return state.send_pending(MSG_DONTWAIT);
}

Result<void> TlsChannel::finish_write() {
    WL_TRY(m_state->send_pending(0));
    return {};
}

void TlsChannel::send_end() {
    {
        MutexLock lock(m_state->mutex);
        ERR_clear_error();
        (void)SSL_shutdown(m_state->ssl.get());
        ERR_clear_error();
        if (m_state->pipes.out.size() > 0) {
            m_state->sending.append(m_state->pipes.out.bytes.data() + m_state->pipes.out.begin, m_state->pipes.out.size());
            m_state->pipes.out.begin = m_state->pipes.out.end = 0;
        }
    }
    (void)m_state->send_pending(0);
    ::shutdown(m_state->socket.fd(), SHUT_WR);
}

// --- end, and what is known ---

void TlsChannel::discard_input(Clock::time_point deadline) { m_state->discard_input(deadline); }

void TlsChannel::shutdown() {
    m_state->shut.store(true);
    m_state->socket.shutdown();
}

const std::string& TlsChannel::peer_name() const { return m_state->peer_name; }
const std::string& TlsChannel::peer_address() const { return m_state->peer_address; }
int TlsChannel::fd() const { return m_state->socket.fd(); }

std::string TlsChannel::cipher() const {
    MutexLock lock(m_state->mutex);
    const char* name = SSL_get_cipher_name(m_state->ssl.get());
    return name ? name : "";
}

std::string TlsChannel::explain() const {
    MutexLock lock(m_state->text_mutex);
    return m_state->text;
}

}  // namespace warpline::net
