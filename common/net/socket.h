// Connected sockets, and how one gets them.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/bytes.h"
#include "common/base/result.h"

namespace warpline::net {

/// A file descriptor of a connected stream socket, closed at the end.
class Socket {
public:
    Socket() = default;
    explicit Socket(int fd) : m_fd(fd) {}
    ~Socket() { close(); }
    Socket(Socket&& other) noexcept : m_fd(other.release()) {}
    Socket& operator=(Socket&& other) noexcept;
    Socket(const Socket&) = delete;
    Socket& operator=(const Socket&) = delete;

    int fd() const { return m_fd; }
    bool valid() const { return m_fd >= 0; }
    int release();
    void close();
    /// Ends both directions and wakes whoever is blocked in them; the descriptor stays valid. Safe from any thread.
    void shutdown();

    /// Writes all, or reads exactly as many bytes as fit: for the few bytes before TLS.
    /// @errors  deadline, connection_lost, io
    Result<void> write_all(BytesView bytes, std::chrono::milliseconds timeout);
    Result<void> read_exact(MutableBytesView bytes, std::chrono::milliseconds timeout);

    /// "10.0.0.7:41234" of the other end, "user:1000:4711" (a process) on a Unix socket, "vsock:3:1024", or words that say that
    /// it has gone: for logs.
    std::string peer_address() const;

private:
    int m_fd = -1;
};

/// A server's address as users write it.
struct Endpoint {
    enum class Kind : uint8_t { tcp, unix_socket, vsock };
    std::string host;   ///< name or numeric address; what the server's certificate must carry. Of a Unix socket its path, of a
                        ///< vsock the number of the machine (CID)
    uint16_t port = 0;  ///< not of Unix sockets
    std::vector<std::string> addresses{};  ///< TCP, numeric: these are dialled; none: those of the host
    Kind kind = Kind::tcp;
    std::string to_string() const;
    /// Both ends are on one machine, and its kernel says who is who.
    bool is_local() const { return kind == Kind::unix_socket; }
};
inline constexpr uint16_t k_default_port = 14833;

/// "tcp", "unix", "vsock".
const char* to_string(Endpoint::Kind kind);

/// Reads "host", "host:port", "1.2.3.4:port", "[::1]:port", a host with its addresses: "host[1.2.3.4]:port",
/// "host[1.2.3.4 ::1]:port"; "unix:PATH"; "vsock:CID" and "vsock:CID:port".
/// @errors  bad_argument
Result<Endpoint> parse_endpoint(std::string_view text, uint16_t default_port = k_default_port);

/// Connects to a server, over TCP trying each address of the name in turn; each gets its share of the time.
///
/// @param why  set when it fails: one sentence for the user, e.g. "10.0.0.7:14833: connection refused (is gpu-server running?)"
/// @errors     connect_refused (refused, unreachable, or no such name), denied (a socket file that others may use), deadline
/// @blocks     up to the timeout
/// @thread     any; makes one for a name that is to be resolved
Result<Socket> dial(const Endpoint& endpoint, std::chrono::milliseconds timeout, std::string& why);

/// A listening Unix socket. A file that a server which has ended has left there is replaced.
/// @param mode  who may connect: of the file
/// @errors      io (detail errno; EADDRINUSE: somebody listens there), bad_argument (a path that is too long)
Result<Socket> listen_on_unix(const std::string& path, unsigned mode);
/// A listening vsock of all of this machine's numbers. @errors io (detail errno)
Result<Socket> listen_on_vsock(uint16_t port);

/// Who is at the other end of a Unix socket: of the process that connected, or that listens, when it did.
struct PeerUser {
    uint32_t user = 0;
    int process = 0;
};
/// Nothing if it is no Unix socket. @source SO_PEERCRED, unix(7)
std::optional<PeerUser> peer_user(int fd);
/// True: the other end of a Unix socket is this process, and it has ended, or does so within the time.
/// False as well where the kernel cannot say. @source SO_PEERPIDFD, Linux 6.5 @blocks for the time at most
bool peer_has_ended(int fd, int process, std::chrono::milliseconds patience);

/// Sets what both sides want of a connected socket: no Nagle, large buffers, keep-alive as a last resort; and BBR, if the
/// kernel lets this process have it, where the peer is further away than two milliseconds: a loss says little about the path
/// there, and after a pause other controls begin anew.
void tune_stream_socket(int fd);
/// Whether sockets that are tuned from now on do so (they do, unless told otherwise). @thread any
void use_bbr(bool wanted);
/// What tune_stream_socket() sets; null: what the machine has set. Pure, but for use_bbr().
/// @param round_trip_us  0: not known
const char* congestion_control_for(bool is_this_machine, uint64_t round_trip_us);

/// What the kernel knows of the way to the peer.
struct TcpPath {
    /// How long the peer's machine has owed an acknowledgement of bytes that were sent; 0: it owes none. A machine whose
    /// process is stopped acknowledges.
    std::chrono::milliseconds unacknowledged_for{0};
    /// What was under way at the best rate so far with nothing waiting in a queue: rate times least round trip. 0: not known.
    uint64_t capacity_bytes = 0;
    uint64_t round_trip_us = 0;  ///< smoothed; 0: not known
    uint64_t congestion_window_bytes = 0;
    uint64_t sent_segments = 0, repeated_segments = 0;
    uint64_t received_segments = 0, disordered_segments = 0;  ///< the latter: where one before them is missing, as a rule
    bool outlasts_losses = false;  ///< what is sent is not slowed down by losses that do not come from its load
};
/// Nothing if the kernel does not know (vsock). The way over a Unix socket is this machine's memory: what was sent has arrived.
/// @source  TCP_INFO, tcp(7) @blocks no @thread any
std::optional<TcpPath> tcp_path(int fd);

/// How many bytes the kernel takes before it has sent them; 0: as many as it has room for. What is urgent waits for them.
/// Nothing happens where the kernel has no such bound (Unix sockets, vsock). @source TCP_NOTSENT_LOWAT, tcp(7)
void bound_unsent(int fd, uint64_t bytes);

/// A listening TCP socket that does not block.
/// @param host   "0.0.0.0", "::", "127.0.0.1", a host name; "" and "*": any address of this machine
/// @param port   0: the system chooses
/// @param bound  the port that it became
/// @errors       bad_argument (no such host), io (detail errno); with `why` in plain words (port in use, not permitted)
Result<Socket> listen_on_tcp(const std::string& host, uint16_t port, uint16_t& bound, std::string& why);

/// Takes TCP connections, one after the other.
class Listener {
public:
    /// @param,@errors  as listen_on_tcp()
    static Result<Listener> open(const std::string& address, uint16_t port, std::string& why);

    Listener(Listener&&) noexcept;
    Listener& operator=(Listener&&) noexcept;
    ~Listener();

    uint16_t port() const { return m_port; }

    /// The next connection.
    /// @errors  shutting_down after stop(), io
    /// @blocks  until there is one
    Result<Socket> accept();
    /// Wakes accept() for good. @thread any
    void stop();

private:
    struct Acceptor;  // Asio's, with what it runs on
    Listener(std::unique_ptr<Acceptor> acceptor, uint16_t port);
    std::unique_ptr<Acceptor> m_acceptor;
    uint16_t m_port = 0;
};

/// Passes an open descriptor, with a few bytes, over a Unix-domain socket. The sender keeps its own copy.
/// @errors  io, connection_lost
Result<void> send_fd(int unix_socket, int fd, BytesView message);
/// @param message  filled with what came with it; at most `max_message_bytes`
/// @return         the descriptor, close-on-exec; invalid if the message came without one
/// @errors         connection_lost at the end of the stream, io
/// @blocks         until a message arrives
Result<Socket> receive_fd(int unix_socket, Bytes& message, size_t max_message_bytes);
/// Two connected Unix-domain sockets that keep the bounds of messages (SOCK_SEQPACKET).
Result<void> make_unix_pair(Socket& a, Socket& b);

}  // namespace warpline::net
