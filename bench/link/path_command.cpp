// A program in a network namespace of its own, and the path from there to this machine: packets go from one TUN interface to
// the other when the model says so.
#include "bench/link/path_command.h"

#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fstream>

#include "bench/link/packet_wire.h"
#include "bench/link/tun.h"
#include "common/net/socket.h"

namespace warpline::bench {

namespace {

constexpr size_t k_most_packet_bytes = 65536;
constexpr int k_packets_in_turn = 64;  // of one direction, before the other one is looked at
constexpr LinkTime k_at_most = std::chrono::milliseconds(50);
// A sleep takes longer than that.
constexpr LinkTime k_too_short = std::chrono::microseconds(60);

LinkTime now() { return std::chrono::steady_clock::now().time_since_epoch(); }

struct Packet {
    LinkTime arrives;
    Bytes bytes;
};

/// One direction: from an interface to the other.
class Way {
public:
    Way(int from, int to, const LinkProperties& link, uint64_t number) : m_from(from), m_to(to), m_wire(link, number) {}

    /// What the kernel has sent goes onto the path.
    void take(LinkTime at) {
        std::array<std::byte, k_most_packet_bytes> packet;
        for (int i = 0; i < k_packets_in_turn; ++i) {
            const ssize_t bytes = ::read(m_from, packet.data(), packet.size());
            if (bytes <= 0) return;
            if (const auto arrives = m_wire.send(at, static_cast<size_t>(bytes)))
                m_packets.push_back({*arrives, Bytes(packet.begin(), packet.begin() + bytes)});
        }
    }
    void deliver(LinkTime at) {
        for (; !m_packets.empty() && m_packets.front().arrives <= at; m_packets.pop_front())
            (void)::write(m_to, m_packets.front().bytes.data(), m_packets.front().bytes.size());
    }
    LinkTime next() const { return m_packets.empty() ? LinkTime::max() : m_packets.front().arrives; }
    void print(const char* name) const {
        std::fprintf(stderr, "%s: %llu packets, %llu lost, %llu dropped for want of room\n", name,
                     static_cast<unsigned long long>(m_wire.passed()), static_cast<unsigned long long>(m_wire.lost()),
                     static_cast<unsigned long long>(m_wire.dropped()));
    }

private:
    int m_from, m_to;
    PacketWire m_wire;
    std::deque<Packet> m_packets;
};

/// Moves packets until the program has ended. @return what waitpid() says of it
int carry(int near, int far, pid_t program, const PathCommandOptions& options) {
    (void)::prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
    const LinkProperties link = options.link.properties();
    Way there(near, far, link, 0), back(far, near, link, 1);
    std::array<pollfd, 2> ready{{{near, POLLIN, 0}, {far, POLLIN, 0}}};
    for (int status = 0;;) {
        LinkTime at = now();
        for (Way* way : {&there, &back}) {
            way->deliver(at);
            way->take(at);
        }
        at = now();
        const LinkTime wait =
            std::min(std::min(there.next(), back.next()) - std::min(at, std::min(there.next(), back.next())), k_at_most);
        const timespec time{0, wait < k_too_short ? 0 : wait.count()};
        if (::ppoll(ready.data(), ready.size(), &time, nullptr) != 0 || wait < k_at_most) continue;
        if (::waitpid(program, &status, WNOHANG) != program) continue;
        there.print("there");
        back.print("back");
        return status;
    }
}

/// In the program's process: its network, which it hands the other end of, and itself. Returns only if it fails.
std::string become(const PathCommandOptions& options, const net::Socket& parent) {
    std::string why;
    if (::unshare(CLONE_NEWNET) != 0) return std::string("a network of its own needs CAP_SYS_ADMIN: ") + std::strerror(errno);
    auto tun = open_tun(options.near, options.far, options.mtu, why);
    if (!tun.ok()) return why;
    if (!options.congestion.empty()) {
        std::ofstream control("/proc/sys/net/ipv4/tcp_congestion_control");
        if (!(control << options.congestion << std::flush))
            return "the kernel has no congestion control '" + options.congestion + "'";
    }
    if (!net::send_fd(parent.fd(), tun->fd(), as_bytes("", 1)).ok()) return "the interface cannot be handed over";
    char go = 0;
    if (::recv(parent.fd(), &go, 1, 0) != 1) return "the path's other end is gone";
    std::vector<char*> arguments;
    for (const std::string& argument : options.command) arguments.push_back(const_cast<char*>(argument.c_str()));
    arguments.push_back(nullptr);
    ::execvp(arguments[0], arguments.data());
    return options.command[0] + ": " + std::strerror(errno);
}

}  // namespace

int path(const PathCommandOptions& options) {
    net::Socket parent_end, child_end;
    if (!net::make_unix_pair(parent_end, child_end).ok()) return 2;
    const pid_t program = ::fork();
    if (program < 0) return 2;
    if (program == 0) {
        (void)::prctl(PR_SET_PDEATHSIG, SIGKILL);
        parent_end.close();
        std::fprintf(stderr, "warpline-bench: %s\n", become(options, child_end).c_str());
        ::_exit(2);
    }
    child_end.close();
    Bytes message;
    const auto near = net::receive_fd(parent_end.fd(), message, 1);
    std::string why = "the program's network was not made";
    const auto far = near.ok() ? open_tun(options.far, options.near, options.mtu, why) : Result<net::Socket>(near.error());
    if (!far.ok()) {
        std::fprintf(stderr, "warpline-bench: %s\n", why.c_str());
        ::kill(program, SIGKILL);
        (void)::waitpid(program, nullptr, 0);
        return 2;
    }
    std::fprintf(stderr, "path of %s; this machine is %s there\n", options.link.to_string().c_str(), options.far.c_str());
    (void)::send(parent_end.fd(), "", 1, MSG_NOSIGNAL);
    const int status = carry(near->fd(), far->fd(), program, options);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace warpline::bench
