// Bytes through a Unix socket, and who is at its other end.
#include "common/net/plain_channel.h"

#include <fcntl.h>
#include <openssl/crypto.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>
#include <vector>

#include "common/net/channel_socket.h"

namespace warpline::net {

namespace {

/// What the server's first byte says. Behind a refusal: how many bytes of text follow.
enum class Verdict : uint8_t { known = 1, key_is_right = 2, refused = 3 };
constexpr size_t k_most_text_bytes = 255;
/// Sent in one system call.
constexpr size_t k_most_pieces = 64;
constexpr size_t k_step_bytes = 64 * 1024;
constexpr auto k_refusal_read = std::chrono::milliseconds(500);

Result<void> set_blocking(const Socket& socket) {
    const int flags = ::fcntl(socket.fd(), F_GETFL);
    if (flags < 0 || !peer_user(socket.fd())) return Error{Code::bad_argument, "not a connected Unix socket"};
    (void)::fcntl(socket.fd(), F_SETFL, flags & ~O_NONBLOCK);
    return {};
}

Result<void> say(Socket& socket, Verdict verdict, const std::string& text, std::chrono::milliseconds timeout) {
    Bytes message{static_cast<std::byte>(verdict)};
    if (verdict == Verdict::refused) {
        const size_t size = std::min(text.size(), k_most_text_bytes);
        message.push_back(static_cast<std::byte>(size));
        const BytesView bytes = as_bytes(text.data(), size);
        message.insert(message.end(), bytes.begin(), bytes.end());
    }
    return socket.write_all(message, timeout);
}

/// The client reads why before the connection is gone.
Error refuse(Socket& socket, const std::string& why, std::chrono::milliseconds timeout) {
    if (say(socket, Verdict::refused, why, timeout).ok()) {
        ::shutdown(socket.fd(), SHUT_WR);
        ChannelSocket last(std::move(socket));
        last.discard_input(std::chrono::steady_clock::now() + k_refusal_read);
    }
    return Error{Code::auth_failed, "the peer is not let in"};
}

}  // namespace

struct PlainChannel::State : ChannelSocket {
    explicit State(Socket connected) : ChannelSocket(std::move(connected)) {}

    std::string peer_name;  // constant, these two
    bool proved_by_key = false;
    Bytes unsent;             // the writer's
    bool is_drained = false;  // the reader's, these two
    Error read_error{Code::ok};

    Result<bool> send_views(std::span<const BytesView> pieces, int flags, FunctionRef<void()> between);
    Result<bool> send_unsent(int flags);
};

PlainChannel::PlainChannel(std::unique_ptr<State> state) : m_state(std::move(state)) {}
PlainChannel::~PlainChannel() = default;

Result<std::unique_ptr<Channel>> PlainChannel::connect(Socket socket, const std::optional<PresharedKey>& key,
                                                       std::chrono::milliseconds timeout, std::string& why) {
    WL_TRY(set_blocking(socket));
    if (key) WL_TRY(socket.write_all(key->key, timeout));
    std::array<std::byte, 1> verdict{};
    WL_TRY(socket.read_exact(verdict, timeout));
    auto state = std::make_unique<State>(std::move(socket));
    switch (static_cast<Verdict>(verdict[0])) {
        case Verdict::known: break;
        case Verdict::key_is_right:
            if (!key) return Error{Code::malformed, "a server takes a key that was not offered"};
            state->proved_by_key = true;
            break;
        case Verdict::refused: {
            std::array<std::byte, 1> size{};
            WL_TRY(state->socket.read_exact(size, timeout));
            std::string text(static_cast<size_t>(size[0]), '\0');
            WL_TRY(state->socket.read_exact({reinterpret_cast<std::byte*>(text.data()), text.size()}, timeout));
            for (char& c : text)
                if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
            why = "the server refuses: " + text;
            return Error{Code::auth_failed, "the server does not let this user in"};
        }
        default: return Error{Code::malformed, "what answers is no server of Warpline's"};
    }
    return std::unique_ptr<Channel>(new PlainChannel(std::move(state)));
}

Result<std::unique_ptr<Channel>> PlainChannel::accept_user(Socket socket, const WhoIs& who_is, bool gone,
                                                           std::chrono::milliseconds timeout, std::string& why) {
    WL_TRY(set_blocking(socket));
    std::array<std::byte, sizeof PresharedKey::key> of_nobody;
    if (gone) WL_TRY(socket.read_exact(of_nobody, timeout));
    const auto user = peer_user(socket.fd());
    auto name = who_is(*user, why);
    if (!name.ok()) return refuse(socket, why, timeout);
    WL_TRY(say(socket, Verdict::known, "", timeout));
    auto state = std::make_unique<State>(std::move(socket));
    state->peer_name = std::move(*name);
    return std::unique_ptr<Channel>(new PlainChannel(std::move(state)));
}

Result<std::unique_ptr<Channel>> PlainChannel::accept_key(Socket socket, const PresharedKey& key,
                                                          std::chrono::milliseconds timeout, std::string& why) {
    WL_TRY(set_blocking(socket));
    std::array<std::byte, sizeof key.key> offered;
    WL_TRY(socket.read_exact(offered, timeout));
    if (CRYPTO_memcmp(offered.data(), key.key.data(), offered.size()) != 0) {
        why = "the client does not have the session's key";
        return refuse(socket, why, timeout);
    }
    WL_TRY(say(socket, Verdict::key_is_right, "", timeout));
    auto state = std::make_unique<State>(std::move(socket));
    state->proved_by_key = true;
    return std::unique_ptr<Channel>(new PlainChannel(std::move(state)));
}

// --- reading ---

Result<size_t> PlainChannel::read(MutableBytesView into) {
    State& state = *m_state;
    if (state.read_error.code != Code::ok) return state.read_error;
    if (into.empty()) return Error{Code::bad_argument, "no room to read into"};
    for (;;) {
        const auto got = state.receive(into, 0);
        if (!got.ok()) return state.read_error = got.error();
        state.is_drained = *got == 0 || state.emptied;
        if (*got > 0 || state.has_tick) return *got;
    }
}

Result<size_t> PlainChannel::read_some(MutableBytesView into) {
    State& state = *m_state;
    if (state.read_error.code != Code::ok) return state.read_error;
    // Nothing is lost by not asking: who waits for the socket is told what it still has.
    if (state.emptied) {
        state.is_drained = true;
        return size_t{0};
    }
    const auto got = state.receive(into, MSG_DONTWAIT);
    if (!got.ok()) return state.read_error = got.error();
    state.is_drained = *got == 0 || state.emptied;
    return *got;
}

void PlainChannel::expect_input() { m_state->emptied = false; }
bool PlainChannel::drained() const { return m_state->is_drained; }
bool PlainChannel::emptied() const { return m_state->emptied; }
void PlainChannel::set_read_tick(std::chrono::milliseconds tick) { m_state->set_read_tick(tick); }
uint64_t PlainChannel::wire_bytes_received() const { return m_state->wire_bytes_received; }

// --- writing ---

/// False: the socket takes no more now; the rest is kept.
Result<bool> PlainChannel::State::send_views(std::span<const BytesView> pieces, int flags, FunctionRef<void()> between) {
    size_t offset = 0;  // in the first piece
    std::array<iovec, k_most_pieces> parts;
    while (!pieces.empty()) {
        size_t count = 0, bytes = 0;
        for (const BytesView& piece : pieces.first(std::min(pieces.size(), k_most_pieces))) {
            const BytesView rest = piece.subspan(count == 0 ? offset : 0);
            parts[count++] = {const_cast<std::byte*>(rest.data()), rest.size()};
            bytes += rest.size();
            if (bytes >= k_step_bytes) break;
        }
        size_t sent = WL_TRY(send({parts.data(), count}, flags));
        if (sent == 0 && (flags & MSG_DONTWAIT)) {
            for (const BytesView& piece : pieces) {
                unsent.insert(unsent.end(), piece.begin() + static_cast<std::ptrdiff_t>(offset), piece.end());
                offset = 0;
            }
            return false;
        }
        while (!pieces.empty() && sent >= pieces.front().size() - offset) {
            sent -= pieces.front().size() - offset;
            offset = 0;
            pieces = pieces.subspan(1);
        }
        offset += sent;
        between();
    }
    return true;
}

Result<bool> PlainChannel::State::send_unsent(int flags) {
    while (!unsent.empty()) {
        const iovec part{unsent.data(), unsent.size()};
        const size_t sent = WL_TRY(send({&part, 1}, flags));
        unsent.erase(unsent.begin(), unsent.begin() + static_cast<std::ptrdiff_t>(sent));
        if (sent == 0 && (flags & MSG_DONTWAIT)) return false;
    }
    return true;
}

Result<void> PlainChannel::write(std::span<const BytesView> pieces, FunctionRef<void()> between) {
    WL_TRY(finish_write());
    WL_TRY(m_state->send_views(pieces, 0, between));
    return {};
}

Result<bool> PlainChannel::write_some(std::span<const BytesView> pieces) {
    if (!WL_TRY(m_state->send_unsent(MSG_DONTWAIT))) {
        for (const BytesView& piece : pieces) m_state->unsent.insert(m_state->unsent.end(), piece.begin(), piece.end());
        return false;
    }
    return m_state->send_views(pieces, MSG_DONTWAIT, [] {});
}

Result<void> PlainChannel::finish_write() {
    WL_TRY(m_state->send_unsent(0));
    return {};
}

void PlainChannel::shutdown() { m_state->shutdown(); }

void PlainChannel::send_end() {
    (void)finish_write();
    ::shutdown(m_state->socket.fd(), SHUT_WR);
}

// --- what is known ---

bool PlainChannel::proved_by_key() const { return m_state->proved_by_key; }
const std::string& PlainChannel::peer_name() const { return m_state->peer_name; }
const std::string& PlainChannel::peer_address() const { return m_state->peer_address; }
std::string PlainChannel::explain() const { return m_state->explain(); }
bool PlainChannel::ended_by_peer() const { return m_state->ended_by_peer.load(); }
int PlainChannel::fd() const { return m_state->socket.fd(); }
void PlainChannel::pass_descriptor(Socket descriptor) { m_state->pass(std::move(descriptor)); }
void PlainChannel::accept_descriptor() { m_state->takes_descriptor = true; }
Socket PlainChannel::take_descriptor() { return std::move(m_state->descriptor_in); }

}  // namespace warpline::net
