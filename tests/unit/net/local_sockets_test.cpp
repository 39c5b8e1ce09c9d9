// Addresses on one machine: Unix sockets and vsock.
#include <gtest/gtest.h>
#include <linux/vm_sockets.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include "common/net/socket.h"

namespace warpline::net {
namespace {

using namespace std::chrono_literals;

struct Folder {
    Folder() {
        char name[] = "/tmp/wl-unix-XXXXXX";
        path = ::mkdtemp(name);
    }
    ~Folder() { std::filesystem::remove_all(path); }
    std::string path;
};

unsigned mode_of(const std::string& path) {
    struct stat found {};
    return ::lstat(path.c_str(), &found) == 0 ? found.st_mode & 0777 : ~0u;
}

Socket accept_one(const Socket& listener) {
    pollfd incoming{listener.fd(), POLLIN, 0};
    EXPECT_EQ(::poll(&incoming, 1, 10'000), 1);
    return Socket(::accept4(listener.fd(), nullptr, nullptr, SOCK_CLOEXEC));
}

TEST(LocalSockets, AddressesAreReadAndWritten_B9) {
    const auto local = parse_endpoint("unix:/run/warpline/server");
    ASSERT_TRUE(local.ok());
    EXPECT_EQ(local->kind, Endpoint::Kind::unix_socket);
    EXPECT_EQ(local->host, "/run/warpline/server");
    EXPECT_EQ(local->to_string(), "unix:/run/warpline/server");
    const auto machine = parse_endpoint("vsock:3:9000");
    ASSERT_TRUE(machine.ok());
    EXPECT_EQ(machine->kind, Endpoint::Kind::vsock);
    EXPECT_EQ(machine->port, 9000);
    EXPECT_EQ(machine->to_string(), "vsock:3:9000");
    EXPECT_EQ(parse_endpoint("vsock:2")->port, k_default_port);
    const std::string too_long = "unix:/" + std::string(107, 'a');
    for (const std::string& bad : {std::string("unix:"), too_long, std::string("vsock:"), std::string("vsock:host:1"),
                                   std::string("vsock:3:0"), std::string("vsock:3:70000"), std::string("vsock:3:")})
        EXPECT_EQ(parse_endpoint(bad).error().code, Code::bad_argument) << bad;
}

TEST(LocalSockets, TheKernelSaysWhoConnects_B9) {
    const Folder folder;
    const std::string path = folder.path + "/s";
    const auto listener = listen_on_unix(path, 0660);
    ASSERT_TRUE(listener.ok()) << listener.error().what;
    EXPECT_EQ(mode_of(path), 0660u);
    std::string why;
    const auto client = dial(*parse_endpoint("unix:" + path), 5s, why);
    ASSERT_TRUE(client.ok()) << why;
    const Socket server = accept_one(*listener);
    const auto user = peer_user(server.fd());
    ASSERT_TRUE(user);
    EXPECT_EQ(user->user, ::getuid());
    EXPECT_EQ(user->process, ::getpid());
    EXPECT_EQ(peer_user(client->fd())->user, ::getuid()) << "of who listens";
    EXPECT_EQ(server.peer_address(), "user:" + std::to_string(::getuid()) + ":" + std::to_string(::getpid()));
}

TEST(LocalSockets, TheKernelSaysThatWhoConnectedHasEnded_C2) {
    const Folder folder;
    const std::string path = folder.path + "/s";
    const auto listener = listen_on_unix(path, 0660);
    ASSERT_TRUE(listener.ok()) << listener.error().what;
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    const pid_t child = ::fork();
    if (child == 0) {
        std::string why;
        const auto client = dial(*parse_endpoint("unix:" + path), 5s, why);
        char byte = 0;
        ::close(ends[1]);
        ::_exit(client.ok() && ::read(ends[0], &byte, 1) == 0 ? 0 : 1);
    }
    const Socket server = accept_one(*listener);
    int found = -1;
    socklen_t length = sizeof found;
    constexpr int k_peer_pidfd = 77;
    const bool can_say = ::getsockopt(server.fd(), SOL_SOCKET, k_peer_pidfd, &found, &length) == 0;
    if (can_say) ::close(found);
    EXPECT_FALSE(peer_has_ended(server.fd(), child, 10ms)) << "it lives";
    ::close(ends[0]);
    ::close(ends[1]);
    EXPECT_EQ(peer_has_ended(server.fd(), child, 5s), can_say);
    EXPECT_EQ(::waitpid(child, nullptr, 0), child);
    EXPECT_EQ(peer_has_ended(server.fd(), child, 0ms), can_say) << "nobody is left to ask about";
    EXPECT_FALSE(peer_has_ended(server.fd(), ::getpid(), 0ms)) << "another one than it said";
}

TEST(LocalSockets, OnlyWhatNobodyListensAtIsReplaced_B9) {
    const Folder folder;
    const std::string path = folder.path + "/s";
    {
        const auto gone = listen_on_unix(path, 0600);
        ASSERT_TRUE(gone.ok());
    }
    ASSERT_TRUE(std::filesystem::exists(path)) << "as after a server that was killed";
    const auto first = listen_on_unix(path, 0600);
    ASSERT_TRUE(first.ok()) << first.error().what;
    const auto second = listen_on_unix(path, 0600);
    ASSERT_FALSE(second.ok());
    EXPECT_EQ(second.error().detail, static_cast<uint32_t>(EADDRINUSE));
    const std::string file = folder.path + "/file";
    std::ofstream(file) << "somebody's";
    EXPECT_FALSE(listen_on_unix(file, 0600).ok());
    EXPECT_TRUE(std::filesystem::is_regular_file(file));
    EXPECT_EQ(listen_on_unix("/" + std::string(120, 'a'), 0600).error().code, Code::bad_argument);
}

TEST(LocalSockets, WhyThereIsNoConnectionIsSaid_B9) {
    const Folder folder;
    std::string why;
    EXPECT_EQ(dial(*parse_endpoint("unix:" + folder.path + "/none"), 1s, why).error().code, Code::connect_refused);
    EXPECT_EQ(why, "unix:" + folder.path + "/none: there is no such socket (is gpu-server running?)");
    const std::string path = folder.path + "/s";
    { const auto gone = listen_on_unix(path, 0600); }
    EXPECT_EQ(dial(*parse_endpoint("unix:" + path), 1s, why).error().code, Code::connect_refused);
    EXPECT_NE(why.find("connection refused"), std::string::npos) << why;
}

TEST(LocalSockets, VsockReachesThisMachine_B9) {
    const auto port = static_cast<uint16_t>(20'000 + ::getpid() % 40'000);
    auto listener = listen_on_vsock(port);
    if (!listener.ok())
        GTEST_SKIP() << "this kernel has no vsock: " << std::strerror(static_cast<int>(listener.error().detail));
    std::string why;
    const auto client = dial({"1", port, {}, Endpoint::Kind::vsock}, 2s, why);
    if (!client.ok()) GTEST_SKIP() << "this kernel has no loopback of vsock (vsock_loopback): " << why;
    const Socket server = accept_one(*listener);
    EXPECT_TRUE(server.peer_address().starts_with("vsock:1:")) << server.peer_address();
    EXPECT_FALSE(peer_user(server.fd())) << "nobody says who that is";
}

}  // namespace
}  // namespace warpline::net
