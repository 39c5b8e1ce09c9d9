// The link emulator's command: opens the relay, says where it listens, and what has passed.
#include "bench/link/link_command.h"

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdio>

#include "bench/link/measure.h"
#include "bench/link/relay.h"

namespace warpline::bench {

namespace {

constexpr double k_exact = 0.05;
constexpr int k_check_pings = 30;
constexpr double k_check_seconds = 1;  // of the transfer

LinkTime milliseconds(double ms) { return LinkTime(std::llround(ms * 1e6)); }

std::string number(double value, const char* unit) {
    char text[64];
    std::snprintf(text, sizeof text, "%g %s", value, unit);
    return text;
}

/// The link as it has to be for what was asked; says why not.
Result<LinkProperties> exact(const LinkOptions& options) {
    auto link = calibrated(options.properties());
    if (link.ok()) return link;
    if (link.error().code == Code::bad_argument) {
        std::fprintf(stderr,
                     "warpline-bench: on this machine the relay alone takes %.3f ms there and back: the link needs a "
                     "longer round trip, and less jitter than what is left\n",
                     link.error().detail / 1e3);
    } else {
        std::fprintf(stderr, "warpline-bench: the relay cannot be measured: %s\n", link.error().what);
    }
    return link;
}

/// @return true if it is as exact as promised
bool print_deviation(const char* what, double wanted, double got, const char* unit) {
    const double off = got / wanted - 1;
    std::printf("%-10s  wanted %10.4g %s  measured %10.4g %s  %+.1f %%\n", what, wanted, unit, got, unit, off * 100);
    return std::abs(off) <= k_exact;
}

int check(const LinkOptions& options) {
    const auto link = exact(options);
    if (!link.ok()) return 2;
    const size_t bytes = static_cast<size_t>(link->bits_per_s / 8 * k_check_seconds);
    const auto figures = measure_link(*link, k_check_pings, bytes);
    if (!figures.ok()) {
        std::fprintf(stderr, "warpline-bench: %s\n", figures.error().what);
        return 2;
    }
    bool good = true;
    if (options.round_trip_ms > 0)
        good &=
            print_deviation("round trip", options.round_trip_ms, static_cast<double>(figures->round_trip.count()) * 1e-6, "ms");
    if (options.rate_mbit > 0) good &= print_deviation("rate", options.rate_mbit, figures->bits_per_s * 1e-6, "Mb/s");
    return good ? 0 : 1;
}

}  // namespace

LinkProperties LinkOptions::properties() const {
    return {milliseconds(round_trip_ms), milliseconds(jitter_ms), rate_mbit * 1e6,
            loss_percent / 100,          milliseconds(queue_ms),  seed};
}

std::string LinkOptions::to_string() const {
    std::string text = number(round_trip_ms, "ms") + ", " + (rate_mbit > 0 ? number(rate_mbit, "Mb/s") : "any rate");
    if (loss_percent > 0) text += ", " + number(loss_percent, "% loss");
    if (jitter_ms > 0) text += ", " + number(jitter_ms, "ms jitter");
    return text;
}

int link(const LinkCommandOptions& options) {
    if (options.link.jitter_ms > options.link.round_trip_ms) {
        std::fprintf(stderr, "warpline-bench: --jitter is at most --rtt: a round trip takes no less than nothing\n");
        return 2;
    }
    if (options.check) return check(options.link);
    const auto target = net::parse_endpoint(options.to);
    const auto listen = net::parse_endpoint(options.listen, 0);
    if (!target.ok() || !listen.ok()) {
        std::fprintf(stderr, "warpline-bench: '%s' is not HOST:PORT\n", (target.ok() ? options.listen : options.to).c_str());
        return 2;
    }
    // Before there are threads: they are for this one.
    sigset_t ends;
    sigemptyset(&ends);
    sigaddset(&ends, SIGINT);
    sigaddset(&ends, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &ends, nullptr);
    const auto properties = exact(options.link);
    if (!properties.ok()) return 2;
    std::string why;
    auto relay = Relay::open(*listen, *target, *properties, why);
    if (!relay.ok()) {
        std::fprintf(stderr, "warpline-bench: %s\n", why.c_str());
        return 2;
    }
    RunningRelay running(std::move(*relay));
    // A program may dial the server's name, which its certificate carries, at the relay's address.
    std::printf("link to %s: %s; WARPLINE_SERVERS=%s[%s]:%u\n", target->to_string().c_str(), options.link.to_string().c_str(),
                target->host.c_str(), listen->host.c_str(), running.port());
    std::fflush(stdout);
    int signal = 0;
    sigwait(&ends, &signal);
    const RelayTotals totals = running.stop();
    std::printf("%llu connections, %llu bytes there, %llu bytes back, %llu packets lost\n",
                static_cast<unsigned long long>(totals.connections), static_cast<unsigned long long>(totals.bytes_up),
                static_cast<unsigned long long>(totals.bytes_down), static_cast<unsigned long long>(totals.lost_packets));
    return 0;
}

}  // namespace warpline::bench
