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
constexpr double k_check_seconds = 1;    // of the transfer
constexpr double k_jitter_seconds = 10;  // of round trips
constexpr int k_most_jitter_pings = 1000;
constexpr double k_chance = 3.5;  // times what one sample's chance is, over the root of their number: seldom is it more

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

/// @param chance  by how much of it chance moves what so few samples show
/// @return        true if it is as exact as promised, but for that
bool print_deviation(const char* what, double wanted, double got, const char* unit, double chance = 0) {
    const double off = got / wanted - 1;
    std::printf("%-10s  wanted %10.4g %s  measured %10.4g %s  %+.1f %%", what, wanted, unit, got, unit, off * 100);
    if (chance > k_exact) std::printf(" (of so few, within %.0f %%)", chance * 100);
    std::printf("\n");
    return std::abs(off) <= std::max(k_exact, chance);
}

/// Round trips enough to show jitter, in a few seconds.
int check_pings(const LinkOptions& options) {
    if (options.jitter_ms <= 0) return k_check_pings;
    return std::clamp(static_cast<int>(k_jitter_seconds * 1e3 / options.round_trip_ms), k_check_pings, k_most_jitter_pings);
}

int check(const LinkOptions& options) {
    const auto link = exact(options);
    if (!link.ok()) return 2;
    const size_t bytes = static_cast<size_t>(link->bits_per_s / 8 * k_check_seconds);
    const int pings = check_pings(options);
    const auto figures = measure_link(*link, pings, bytes);
    if (!figures.ok()) {
        std::fprintf(stderr, "warpline-bench: %s\n", figures.error().what);
        return 2;
    }
    const auto ms = [](LinkTime time) { return static_cast<double>(time.count()) * 1e-6; };
    const double by_chance = k_chance / std::sqrt(pings);
    bool good = true;
    if (options.round_trip_ms > 0)
        good &= print_deviation("round trip", options.round_trip_ms, ms(figures->round_trip), "ms",
                                by_chance * options.jitter_ms / options.round_trip_ms);
    if (options.jitter_ms > 0) good &= print_deviation("jitter", options.jitter_ms, ms(figures->jitter), "ms", by_chance);
    if (options.loss_percent > 0) {
        const double lost = static_cast<double>(figures->lost_packets) / static_cast<double>(figures->packets);
        const double expected = options.loss_percent / 100 * static_cast<double>(figures->packets);
        good &= print_deviation("loss", options.loss_percent, lost * 100, "% ", k_chance / std::sqrt(expected));
        // A window that losses keep small does not fill the link: there is no rate to expect.
        if (options.rate_mbit > 0) std::printf("%-10s  measured %10.4g Mb/s, under loss\n", "rate", figures->bits_per_s * 1e-6);
    } else if (options.rate_mbit > 0) {
        good &= print_deviation("rate", options.rate_mbit, figures->bits_per_s * 1e-6, "Mb/s");
    }
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
