// What a service manager is told, received as it would receive it.
#include "server/daemon/service_manager.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string>

#include "common/base/scope_guard.h"

namespace warpline::server {
namespace {

/// A socket of a service manager's, at a path or, beginning with a zero, under a name in no folder.
int manager_at(const std::string& name) {
    const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, name.data(), name.size());
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
    EXPECT_EQ(bind(fd, reinterpret_cast<const sockaddr*>(&address), size), 0);
    return fd;
}

std::string received(int fd) {
    char text[64];
    const ssize_t size = recv(fd, text, sizeof text, 0);
    return size < 0 ? "nothing" : std::string(text, static_cast<size_t>(size));
}

TEST(ServiceManager, IsToldAtItsPath) {
    const std::string path = testing::TempDir() + "manager-" + std::to_string(getpid());
    const int fd = manager_at(path);
    const ScopeGuard end([&] {
        close(fd);
        unlink(path.c_str());
        unsetenv("NOTIFY_SOCKET");
    });
    setenv("NOTIFY_SOCKET", path.c_str(), 1);
    tell_service_manager("READY=1");
    EXPECT_EQ(received(fd), "READY=1");
}

TEST(ServiceManager, IsToldUnderAnAbstractName) {
    const std::string name = "warpline-manager-" + std::to_string(getpid());
    const int fd = manager_at(std::string(1, '\0') + name);
    const ScopeGuard end([&] {
        close(fd);
        unsetenv("NOTIFY_SOCKET");
    });
    setenv("NOTIFY_SOCKET", ("@" + name).c_str(), 1);
    tell_service_manager("STATUS=draining");
    EXPECT_EQ(received(fd), "STATUS=draining");
}

TEST(ServiceManager, NobodyAskedOrNobodyIsThere) {
    unsetenv("NOTIFY_SOCKET");
    tell_service_manager("READY=1");
    const ScopeGuard end([] { unsetenv("NOTIFY_SOCKET"); });
    setenv("NOTIFY_SOCKET", "/nowhere/at/all", 1);
    tell_service_manager("READY=1");
    setenv("NOTIFY_SOCKET", std::string(500, 'x').c_str(), 1);
    tell_service_manager("READY=1");
}

}  // namespace
}  // namespace warpline::server
