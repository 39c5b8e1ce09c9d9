// Plain TCP from one thread of this process to another, through a relay.
#include "bench/link/measure.h"

#include <sys/socket.h>

#include <algorithm>
#include <cmath>
#include <thread>
#include <vector>

#include "bench/case.h"
#include "bench/link/relay.h"

namespace warpline::bench {

namespace {

using namespace std::chrono_literals;

constexpr auto k_patience = 60s;
constexpr LinkTime k_probe_round_trip = 2ms;  // as long as most: timers are a little late, however short
constexpr int k_probe_pings = 100;

/// The other end: answers each byte, then takes a transfer. @return its rate in bits per second
Result<double> answer(net::Listener& listener, int pings, size_t bytes) {
    net::Socket socket = WL_TRY(listener.accept());
    for (int i = 0; i < pings; ++i) {
        std::byte one{};
        WL_TRY(socket.read_exact({&one, 1}, k_patience));
        WL_TRY(socket.write_all({&one, 1}, k_patience));
    }
    std::vector<std::byte> buffer(256 << 10);
    uint64_t began = 0;
    size_t after_first = 0;
    for (size_t got = 0; got < bytes;) {
        const ssize_t n = ::recv(socket.fd(), buffer.data(), buffer.size(), 0);
        if (n <= 0) return Error{Code::connection_lost, "the link broke"};
        if (got == 0)
            began = now_ns();
        else
            after_first += static_cast<size_t>(n);
        got += static_cast<size_t>(n);
    }
    if (after_first == 0) return 0.0;
    return static_cast<double>(after_first) * 8e9 / static_cast<double>(now_ns() - began);
}

struct Pings {
    LinkTime round_trip{0}, jitter{0};
};

/// Of the sum of two evenly distributed delays half lies within this share of its bounds. Losses, which are rarer, do not show
/// there.
const double k_middle_half = 2 - std::sqrt(2.0);

Result<Pings> ping(net::Socket& socket, int pings) {
    std::vector<uint64_t> samples;
    for (int i = 0; i < pings; ++i) {
        std::byte one{1};
        const uint64_t began = now_ns();
        WL_TRY(socket.write_all({&one, 1}, k_patience));
        WL_TRY(socket.read_exact({&one, 1}, k_patience));
        samples.push_back(now_ns() - began);
    }
    const auto apart = static_cast<double>(quantile(samples, 0.75) - quantile(samples, 0.25));
    return Pings{LinkTime(static_cast<int64_t>(quantile(samples, 0.5))), LinkTime(std::llround(apart / k_middle_half))};
}

Result<Pings> ping_and_send(uint16_t port, int pings, size_t bytes) {
    std::string why;
    net::Socket socket = WL_TRY(net::dial({"127.0.0.1", port}, 5s, why));
    const Pings found = WL_TRY(ping(socket, pings));
    const std::vector<std::byte> data(256 << 10, std::byte{0x5a});
    for (size_t sent = 0; sent < bytes; sent += data.size())
        WL_TRY(socket.write_all({data.data(), std::min(data.size(), bytes - sent)}, k_patience));
    // The other end closes when it has all.
    std::byte none{};
    static_cast<void>(socket.read_exact({&none, 1}, k_patience));
    return found;
}

}  // namespace

Result<LinkFigures> measure_link(const LinkProperties& link, int pings, size_t bytes) {
    std::string why;
    net::Listener listener = WL_TRY(net::Listener::open("127.0.0.1", 0, why));
    RunningRelay relay(WL_TRY(Relay::open({"127.0.0.1", 0}, {"127.0.0.1", listener.port()}, link, why)));
    Result<double> rate = 0.0;
    std::thread other([&] { rate = answer(listener, pings, bytes); });
    const Result<Pings> found = ping_and_send(relay.port(), pings, bytes);
    listener.stop();
    other.join();
    const RelayTotals totals = relay.stop();
    const uint64_t packets = 2 * static_cast<uint64_t>(pings) + bytes / k_packet_bytes;
    const Pings& both = WL_TRY(found);
    return LinkFigures{both.round_trip, both.jitter, WL_TRY(rate), packets, totals.lost_packets};
}

Result<LinkProperties> calibrated(const LinkProperties& link) {
    LinkProperties probe;
    probe.round_trip = k_probe_round_trip;
    const LinkTime own = WL_TRY(measure_link(probe, k_probe_pings, 0)).round_trip - k_probe_round_trip;
    LinkProperties shorter = link;
    shorter.round_trip -= own;
    if (link.round_trip == LinkTime{0}) shorter.round_trip = LinkTime{0};
    if (shorter.round_trip < LinkTime{0} || shorter.round_trip < link.jitter)
        return Error{Code::bad_argument, "the relay's own round trip is longer", static_cast<uint32_t>(own.count() / 1000)};
    return shorter;
}

}  // namespace warpline::bench
