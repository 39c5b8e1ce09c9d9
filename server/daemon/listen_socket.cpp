// Addresses to listen on, read and written.
#include "server/daemon/listen_socket.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <string_view>

#include "server/control/operator_socket.h"

namespace warpline::server {

namespace {

/// Splits "host:port", "[v6]:port", "host" or ":port". False if the text is none of them.
bool split_address(const std::string& text, std::string& host, uint16_t& port) {
    std::string port_text;
    if (!text.empty() && text.front() == '[') {
        const size_t end = text.find(']');
        if (end == std::string::npos) return false;
        host = text.substr(1, end - 1);
        if (end + 1 == text.size()) return true;
        if (text[end + 1] != ':') return false;
        port_text = text.substr(end + 2);
    } else {
        const size_t colon = text.rfind(':');
        if (colon == std::string::npos || text.find(':') != colon) {  // no port, or a bare IPv6 address
            host = text;
            return !text.empty();
        }
        host = text.substr(0, colon);
        port_text = text.substr(colon + 1);
    }
    const auto [end, error] = std::from_chars(port_text.data(), port_text.data() + port_text.size(), port);
    return error == std::errc{} && end == port_text.data() + port_text.size();
}

uint64_t file_number(const std::string& path) {
    struct stat found {};
    return ::lstat(path.c_str(), &found) == 0 && S_ISSOCK(found.st_mode) ? found.st_ino : 0;
}

constexpr std::string_view k_unix = "unix:", k_vsock = "vsock:";

/// A port behind "vsock:".
std::optional<uint16_t> vsock_port(std::string_view address) {
    const std::string_view number = address.substr(k_vsock.size());
    uint16_t port = 0;
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), port);
    if (port == 0 || error != std::errc{} || end != number.data() + number.size()) return std::nullopt;
    return port;
}

}  // namespace

Result<ListenSocket> ListenSocket::open(const std::string& address, unsigned unix_mode) {
    if (address.starts_with(k_unix)) {
        const std::string path = address.substr(k_unix.size());
        ListenSocket listening(WL_TRY(net::listen_on_unix(path, unix_mode)), address);
        listening.m_file = file_number(path);
        return listening;
    }
    if (address.starts_with(k_vsock)) {
        const auto port = vsock_port(address);
        if (!port) return Error{Code::bad_argument, "not a port of vsock"};
        return ListenSocket(WL_TRY(net::listen_on_vsock(*port)), address);
    }
    std::string host, why;
    uint16_t port = net::k_default_port, bound = 0;
    if (!split_address(address, host, port)) return Error{Code::bad_argument, "not an address to listen on"};
    auto socket = WL_TRY(net::listen_on_tcp(host, port, bound, why));
    return ListenSocket(std::move(socket), listen_address(host, bound));
}

ListenSocket::~ListenSocket() {
    if (!m_socket.valid() || m_file == 0) return;
    const std::string path = m_address.substr(k_unix.size());
    if (file_number(path) == m_file) ::unlink(path.c_str());
}

bool is_listen_address(const std::string& text) {
    std::string host;
    uint16_t port = 0;
    if (text.starts_with(k_unix)) return net::parse_endpoint(text).ok();
    return text.starts_with(k_vsock) ? vsock_port(text).has_value() : split_address(text, host, port);
}

std::string operator_address(const std::string& text) {
    std::string host;
    uint16_t port = net::k_default_port;
    if (!is_listen_address(text)) return "";
    if (text.starts_with(k_unix) || text.starts_with(k_vsock)) return text;
    split_address(text, host, port);
    return port != 0 ? listen_address(host, port) : "";
}

std::optional<unsigned> unix_mode_of(const std::string& text) {
    unsigned mode = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), mode, 8);
    if (text.empty() || error != std::errc{} || end != text.data() + text.size() || mode > 0777) return std::nullopt;
    return mode;
}

}  // namespace warpline::server
