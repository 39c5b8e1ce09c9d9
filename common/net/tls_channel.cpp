// Bytes through TLS while two threads use the channel.
#include <openssl/err.h>
#include <sys/socket.h>

#include <algorithm>
#include <utility>

#include "common/net/tls_channel_state.h"

namespace warpline::net {

namespace {

constexpr size_t k_record_bytes = 16 * 1024;        // the largest record of TLS 1.3
constexpr size_t k_encrypt_step_bytes = 64 * 1024;  // plain text encrypted under one hold of the lock

}  // namespace

TlsChannel::TlsChannel(std::unique_ptr<State> state) : m_state(std::move(state)) {}
TlsChannel::~TlsChannel() = default;

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
            drained = pipes.in.size() == 0 && SSL_pending(ssl.get()) == 0;
            if (drained) break;
            continue;
        }
        int wanted = SSL_get_error(ssl.get(), outcome);
        if (wanted == SSL_ERROR_WANT_READ) {
            drained = true;
            break;
        }
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

// Takes what the socket has; false: nothing, yet. Only the reader puts bytes in, and OpenSSL takes them out in decrypt(), on
// the same thread: the part behind `end` can be filled without the lock.
Result<bool> TlsChannel::State::receive_more(int flags) WL_NO_THREAD_SAFETY_ANALYSIS {
    CipherBuffer& in = pipes.in;
    if (in.begin == in.end) {
        in.begin = in.end = 0;
    } else if (in.begin > 0) {
        std::memmove(in.memory.get(), in.data(), in.size());
        in.end -= in.begin;
        in.begin = 0;
    }
    const size_t got = WL_TRY(receive({in.room(), in.room_bytes()}, flags));
    in.end += got;
    if (got > 0) drained = false;
    return got > 0;
}

Result<size_t> TlsChannel::read(MutableBytesView into) {
    State& state = *m_state;
    if (state.read_error.code != Code::ok) return state.read_error;
    if (into.empty()) return Error{Code::bad_argument, "no room to read into"};
    for (bool received_some = false;; received_some = true) {
        size_t got = state.drained ? 0 : WL_TRY(state.decrypt(into));
        if (got > 0) return got;
        // On a slow link a record takes many ticks to arrive.
        if (received_some && state.has_tick) return size_t{0};
        const auto received = state.receive_more(0);
        if (!received.ok()) return state.read_error = received.error();
        if (!*received) return size_t{0};
    }
}

Result<size_t> TlsChannel::read_some(MutableBytesView into) {
    State& state = *m_state;
    if (state.read_error.code != Code::ok) return state.read_error;
    for (;;) {
        const size_t got = state.drained ? 0 : WL_TRY(state.decrypt(into));
        if (got > 0) return got;
        // Nothing is lost by not asking: who waits for the socket is told what it still has.
        if (state.emptied) return size_t{0};
        const auto received = state.receive_more(MSG_DONTWAIT);
        if (!received.ok()) return state.read_error = received.error();
        if (!*received) return size_t{0};
    }
}

void TlsChannel::expect_input() { m_state->emptied = false; }
bool TlsChannel::drained() const { return m_state->drained; }
bool TlsChannel::emptied() const { return m_state->emptied; }

void TlsChannel::set_read_tick(std::chrono::milliseconds tick) { m_state->set_read_tick(tick); }
uint64_t TlsChannel::wire_bytes_received() const { return m_state->wire_bytes_received; }

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
        sending.append(pipes.out.data(), pipes.out.size());
        pipes.out.begin = pipes.out.end = 0;
    }
    return {};
}

// True when nothing is left; false if the socket takes no more and `flags` says not to wait.
Result<bool> TlsChannel::State::send_pending(int flags) {
    while (sending.size() > 0) {
        const iovec part{sending.room() - sending.size(), sending.size()};
        const size_t sent = WL_TRY(send({&part, 1}, flags));
        sending.begin += sent;
        if (sent == 0 && (flags & MSG_DONTWAIT)) return false;
    }
    return true;
}

Result<void> TlsChannel::write(std::span<const BytesView> pieces, FunctionRef<void()> between) {
    State& state = *m_state;
    size_t offset = 0;
    do {
        WL_TRY(state.encrypt_pieces(pieces, offset, k_encrypt_step_bytes));
        WL_TRY(state.send_pending(0));
        between();
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
            m_state->sending.append(m_state->pipes.out.data(), m_state->pipes.out.size());
            m_state->pipes.out.begin = m_state->pipes.out.end = 0;
        }
    }
    (void)m_state->send_pending(0);
    ::shutdown(m_state->socket.fd(), SHUT_WR);
}

// --- end, and what is known ---

void TlsChannel::shutdown() { m_state->shutdown(); }

bool TlsChannel::proved_by_key() const { return m_state->proved_by_key; }
const std::string& TlsChannel::peer_name() const { return m_state->peer_name; }
const std::string& TlsChannel::peer_address() const { return m_state->peer_address; }
bool TlsChannel::ended_by_peer() const { return m_state->ended_by_peer.load(); }
int TlsChannel::fd() const { return m_state->socket.fd(); }

std::string TlsChannel::cipher() const {
    MutexLock lock(m_state->mutex);
    const char* name = SSL_get_cipher_name(m_state->ssl.get());
    return name ? name : "";
}

std::string TlsChannel::explain() const { return m_state->explain(); }
void TlsChannel::pass_descriptor(Socket descriptor) { m_state->pass(std::move(descriptor)); }
void TlsChannel::accept_descriptor() { m_state->takes_descriptor = true; }
Socket TlsChannel::take_descriptor() { return std::move(m_state->descriptor_in); }

}  // namespace warpline::net
