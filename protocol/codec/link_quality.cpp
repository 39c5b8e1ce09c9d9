// Round trips and rates of a connection, computed from what others measured.
#include "protocol/codec/link_quality.h"

#include <algorithm>

#include "common/base/distance.h"

namespace warpline::protocol {

namespace {

constexpr std::chrono::seconds k_rate_window{2};
constexpr size_t k_most_points = 64;  // however often somebody looks
constexpr uint64_t k_first_timeout_us = 1'000'000;

uint64_t difference(uint64_t a, uint64_t b) { return a > b ? a - b : b - a; }

}  // namespace

const char* to_string(LinkLevel level) {
    switch (level) {
        case LinkLevel::up: return "up";
        case LinkLevel::slow: return "slow";
        case LinkLevel::suspect: return "suspect";
        case LinkLevel::lost: return "lost";
    }
    return "unknown";
}

bool KernelPath::suffers_from_losses() const {
    // Nearer, a loss is over before anybody waits for it. Few of many may have been one full queue.
    constexpr uint64_t k_several = 8, k_one_of = 2000;
    const auto many = [](uint64_t losses, uint64_t of) { return losses >= k_several && losses >= of / k_one_of; };
    if (round_trip_us < k_far_round_trip_us) return false;
    return (!outlasts_losses && many(repeated_segments, sent_segments)) || many(disordered_segments, received_segments);
}

void RoundTrips::add(uint64_t sample_us) {
    if (m_count++ == 0) {
        m_smoothed_us = m_minimum_us = sample_us;
        m_variation_us = sample_us / 2;
    } else {
        m_jitter_us = (m_jitter_us * 15 + difference(sample_us, m_last_us)) / 16;
        m_variation_us = (m_variation_us * 3 + difference(sample_us, m_smoothed_us)) / 4;
        m_smoothed_us = (m_smoothed_us * 7 + sample_us) / 8;
        m_minimum_us = std::min(m_minimum_us, sample_us);
    }
    m_last_us = sample_us;
}

uint64_t RoundTrips::timeout_us(uint64_t granularity_us) const {
    if (m_count == 0) return k_first_timeout_us;
    return m_smoothed_us + std::max(granularity_us, m_variation_us * 4);
}

void RateWindow::add(Clock::time_point now, Totals totals) {
    m_points.push_back({now, totals});
    while (m_points.size() > 2 && (now - m_points[1].at >= k_rate_window || m_points.size() > k_most_points))
        m_points.pop_front();
}

RateWindow::Totals RateWindow::rate(Clock::time_point now, Totals totals) const {
    const Point& first = m_points.front();
    const double seconds = std::chrono::duration<double>(now - first.at).count();
    if (seconds < 0.001) return {};
    auto per_second = [seconds](uint64_t before, uint64_t after) {
        return after < before ? uint64_t{0} : static_cast<uint64_t>(static_cast<double>(after - before) / seconds);
    };
    return {per_second(first.totals.sent_bytes, totals.sent_bytes),
            per_second(first.totals.received_bytes, totals.received_bytes)};
}

}  // namespace warpline::protocol
