// The sockets at which clients arrive.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "common/net/socket.h"

namespace warpline::server {

/// A non-blocking listening socket: TCP, Unix or vsock.
class ListenSocket {
public:
    /// @param address    "host:port", "[v6]:port", "host" or ":port"; TCP port 0 takes a free one. "unix:PATH"; "vsock:PORT"
    /// @param unix_mode  of a Unix socket's file
    /// @errors bad_argument (no such host, or no address at all), io (detail errno)
    static Result<ListenSocket> open(const std::string& address, unsigned unix_mode);
    ListenSocket(ListenSocket&&) noexcept = default;
    ListenSocket& operator=(ListenSocket&&) noexcept = default;
    /// The file of a Unix socket goes with it, unless it is another one's by now.
    ~ListenSocket();

    int fd() const { return m_socket.fd(); }
    bool is_unix() const { return m_file != 0; }
    /// As clients write it: with the port that was taken.
    const std::string& address() const { return m_address; }

private:
    ListenSocket(net::Socket socket, std::string address) : m_socket(std::move(socket)), m_address(std::move(address)) {}
    net::Socket m_socket;
    std::string m_address;
    uint64_t m_file = 0;  // number of the Unix socket's file; 0: it has none
};

/// True if ListenSocket::open() could make sense of it.
bool is_listen_address(const std::string& text);
/// What ListenSocket::address() says of it, as far as that is known before; "" if it is not (a port that the system chooses).
std::string operator_address(const std::string& text);
/// "0660" and the like. Nothing: it is no mode.
std::optional<unsigned> unix_mode_of(const std::string& text);

}  // namespace warpline::server
