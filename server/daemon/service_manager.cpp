// A datagram to the socket that NOTIFY_SOCKET names.
#include "server/daemon/service_manager.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "common/base/scope_guard.h"
#include "common/log/log.h"

namespace warpline::server {

void tell_service_manager(const char* state) {
    const char* named = std::getenv("NOTIFY_SOCKET");
    if (named == nullptr || *named == 0) return;
    const std::string_view path = named;
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.size() >= sizeof address.sun_path) {
        WL_LOG(warn, "server", "NOTIFY_SOCKET is no path of a socket: {}", path);
        return;
    }
    std::memcpy(address.sun_path, path.data(), path.size());
    if (address.sun_path[0] == '@') address.sun_path[0] = 0;  // a name that is in no folder
    const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    const ScopeGuard close_it([fd] {
        if (fd >= 0) close(fd);
    });
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size());
    if (fd < 0 || sendto(fd, state, std::strlen(state), MSG_NOSIGNAL, reinterpret_cast<const sockaddr*>(&address), size) < 0)
        WL_LOG(warn, "server", "the service manager cannot be told {} (errno {})", state, errno);
}

}  // namespace warpline::server
