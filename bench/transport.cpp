// Ping-pong and bulk over loopback, by plain TCP and by TLS.
#include "bench/transport.h"

#include <sched.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <functional>
#include <memory>
#include <thread>

#include "bench/case.h"
#include "bench/connections.h"

namespace warpline::bench {

namespace {

using Transfer = std::function<bool(std::byte* data, size_t size)>;

constexpr size_t k_step = size_t{1} << 20;  // that one connection sends at a time

/// The connections that are tried for the best rate.
constexpr std::array<size_t, 3> k_tries = {1, 2, 4};

/// The four things that two ends do.
struct Ends {
    Transfer send, receive, echo_receive, echo_send;
};

bool whole(int fd, std::byte* data, size_t size, bool receive) {
    while (size > 0) {
        ssize_t n = receive ? ::recv(fd, data, size, 0) : ::send(fd, data, size, MSG_NOSIGNAL);
        if (n <= 0) return false;
        data += n;
        size -= static_cast<size_t>(n);
    }
    return true;
}

bool read_whole(net::TlsChannel& channel, std::byte* data, size_t size) {
    while (size > 0) {
        auto n = channel.read({data, size});
        if (!n.ok()) return false;
        data += *n;
        size -= *n;
    }
    return true;
}

bool write_whole(net::TlsChannel& channel, const std::byte* data, size_t size) {
    BytesView view{data, size};
    return channel.write({&view, 1}).ok();
}

/// Ties a ping-pong's threads to cores; the calling one is free again at the end.
class Cores {
public:
    explicit Cores(Placement placement) : m_placement(placement) { ::sched_getaffinity(0, sizeof m_allowed, &m_allowed); }
    ~Cores() {
        if (m_placement != Placement::anywhere) ::sched_setaffinity(0, sizeof m_allowed, &m_allowed);
    }
    Cores(const Cores&) = delete;
    Cores& operator=(const Cores&) = delete;

    void caller() { tie(0); }
    void echo() { tie(m_placement == Placement::two_cores ? 1 : 0); }

private:
    void tie(int which) {
        if (m_placement == Placement::anywhere) return;
        for (int core = 0; core < CPU_SETSIZE; ++core) {
            if (!CPU_ISSET(core, &m_allowed) || which-- > 0) continue;
            cpu_set_t one;
            CPU_ZERO(&one);
            CPU_SET(core, &one);
            ::sched_setaffinity(0, sizeof one, &one);  // of the calling thread
            return;
        }
    }
    Placement m_placement;
    cpu_set_t m_allowed{};
};

/// One byte there and back, many times.
Result<std::vector<uint64_t>> ping_pong(const Ends& ends, int rounds, Placement placement) {
    Cores cores(placement);
    cores.caller();
    std::thread echo([&] {
        cores.echo();
        std::byte b{};
        for (int i = 0; i < rounds; ++i)
            if (!ends.echo_receive(&b, 1) || !ends.echo_send(&b, 1)) return;
    });
    std::vector<uint64_t> samples;
    bool good = true;
    for (int i = 0; i < rounds && good; ++i) {
        std::byte sent{static_cast<unsigned char>(i)}, got{};
        const uint64_t began = now_ns();
        good = ends.send(&sent, 1) && ends.receive(&got, 1) && got == sent;
        samples.push_back(now_ns() - began);
    }
    echo.join();
    if (!good) return Error{Code::connection_lost, "the connection broke"};
    return samples;
}

Result<double> one_way(const Ends& ends, size_t count) {
    constexpr size_t k_chunk = 1 << 20;
    std::vector<std::byte> out(k_chunk), in(k_chunk);
    bool good = true;
    const uint64_t began = now_ns();
    std::thread receiver([&] {
        for (size_t i = 0; i < count && good; ++i)
            good =
                ends.echo_receive(in.data(), k_chunk) && in[0] == std::byte(i) && in[k_chunk - 1] == std::byte(255 - i % 256);
    });
    for (size_t i = 0; i < count; ++i) {
        out[0] = std::byte(i);
        out[k_chunk - 1] = std::byte(255 - i % 256);
        if (!ends.send(out.data(), k_chunk)) break;
    }
    receiver.join();
    if (!good) return Error{Code::connection_lost, "what arrived is not what was sent"};
    return static_cast<double>(k_chunk * count) / static_cast<double>(now_ns() - began);
}

/// Does `work` with the ends of two connected sockets.
template <typename Work>
auto over_tcp(const Work& work) -> decltype(work(Ends{})) {
    auto sockets = WL_TRY(tcp_pair());
    const auto end = [](int fd, bool receive) { return [=](std::byte* d, size_t n) { return whole(fd, d, n, receive); }; };
    const int a = sockets.first.fd(), b = sockets.second.fd();
    return work(Ends{end(a, false), end(a, true), end(b, true), end(b, false)});
}

template <typename Work>
auto over_unix(const Work& work) -> decltype(work(Ends{})) {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        return Error{Code::io, "no pair of Unix sockets", static_cast<uint32_t>(errno)};
    const net::Socket a(ends[0]), b(ends[1]);
    const auto end = [](int fd, bool receive) { return [=](std::byte* d, size_t n) { return whole(fd, d, n, receive); }; };
    return work(Ends{end(a.fd(), false), end(a.fd(), true), end(b.fd(), true), end(b.fd(), false)});
}

template <typename Work>
auto over_tls(const Work& work) -> decltype(work(Ends{})) {
    TlsPair pair = WL_TRY(tls_pair());
    const auto sender = [](net::TlsChannel& c) { return [&c](std::byte* d, size_t n) { return write_whole(c, d, n); }; };
    const auto receiver = [](net::TlsChannel& c) { return [&c](std::byte* d, size_t n) { return read_whole(c, d, n); }; };
    return work(Ends{sender(*pair.client), receiver(*pair.client), receiver(*pair.server), sender(*pair.server)});
}

template <typename Work>
auto over(Wiring wiring, const Work& work) -> decltype(work(Ends{})) {
    switch (wiring) {
        case Wiring::tls: return over_tls(work);
        case Wiring::unix_socket: return over_unix(work);
        default: return over_tcp(work);
    }
}

/// What comes is copied once, to where it belongs.
bool receive_into(net::TlsChannel& channel, std::byte* target, size_t bytes) {
    const auto buffer = std::make_unique_for_overwrite<std::byte[]>(k_step);
    for (size_t at = 0; at < bytes;) {
        const auto got = channel.read({buffer.get(), std::min(k_step, bytes - at)});
        if (!got.ok()) return false;
        std::memcpy(target + at, buffer.get(), *got);
        at += *got;
    }
    return true;
}

bool send_all(net::TlsChannel& channel, const std::byte* source, size_t bytes) {
    for (size_t at = 0; at < bytes; at += k_step) {
        const BytesView piece{source + at, std::min(k_step, bytes - at)};
        if (!channel.write({&piece, 1}).ok()) return false;
    }
    return true;
}

}  // namespace

int usable_cores() {
    cpu_set_t allowed{};
    ::sched_getaffinity(0, sizeof allowed, &allowed);
    return CPU_COUNT(&allowed);
}

Result<std::vector<uint64_t>> round_trips(Wiring wiring, int count, Placement placement) {
    if (placement == Placement::two_cores && usable_cores() < 2) return Error{Code::unsupported, "there is one core only"};
    return over(wiring, [&](const Ends& ends) { return ping_pong(ends, count, placement); });
}

Result<double> rate(Wiring wiring, size_t mebibytes) {
    return over(wiring, [&](const Ends& ends) { return one_way(ends, mebibytes); });
}

Result<double> tls_rate(size_t connections, const std::vector<uint32_t>& source, std::vector<uint32_t>& target) {
    std::vector<TlsPair> pairs;
    for (size_t i = 0; i < connections; ++i) pairs.push_back(WL_TRY(tls_pair()));
    const size_t share = source.size() * sizeof(uint32_t) / connections;
    const auto* from = reinterpret_cast<const std::byte*>(source.data());
    auto* to = reinterpret_cast<std::byte*>(target.data());
    std::vector<char> good(connections * 2);
    std::vector<std::thread> threads;
    const uint64_t began = now_ns();
    for (size_t i = 0; i < connections; ++i) {
        threads.emplace_back([&, i] { good[i] = send_all(*pairs[i].client, from + i * share, share); });
        threads.emplace_back([&, i] { good[connections + i] = receive_into(*pairs[i].server, to + i * share, share); });
    }
    for (std::thread& thread : threads) thread.join();
    const double bytes_per_ns = static_cast<double>(share * connections) / static_cast<double>(now_ns() - began);
    if (std::find(good.begin(), good.end(), 0) != good.end()) return Error{Code::connection_lost, "the connection broke"};
    if (source != target) return Error{Code::internal, "what arrived is not what was sent"};
    return bytes_per_ns;
}

Result<double> best_tls_rate(const std::vector<uint32_t>& source) {
    std::vector<uint32_t> target(source.size());
    double best = 0;
    for (const size_t connections : k_tries) best = std::max(best, WL_TRY(tls_rate(connections, source, target)));
    return best;
}

std::vector<uint32_t> random_words(size_t bytes, uint32_t seed) {
    std::vector<uint32_t> words(bytes / sizeof(uint32_t));
    uint64_t state = 0x9e3779b97f4a7c15u + seed;
    for (uint32_t& word : words) {
        state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        word = static_cast<uint32_t>(state >> 32);
    }
    return words;
}

}  // namespace warpline::bench
