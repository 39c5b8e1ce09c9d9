// Costs from acknowledgements.
#include "protocol/codec/delivery_meter.h"

#include <utility>

namespace warpline::protocol {

namespace {

constexpr double k_weight_of_old = 0.9;
constexpr double k_late = 3;  // times as long as it took before
constexpr unsigned k_most_late = 8;

}  // namespace

void DeliveryMeter::frame(uint8_t way, uint64_t bytes) {
    if (m_bytes != 0 && way != m_way) m_mixed = true;
    m_way = way;
    m_bytes += bytes;
}

void DeliveryMeter::acknowledged(Clock::time_point now) {
    const uint64_t bytes = std::exchange(m_bytes, 0);
    const bool mixed = std::exchange(m_mixed, false);
    if (bytes == 0) return;
    const auto took = std::chrono::duration<double, std::nano>(now - std::exchange(m_last_at, now)).count();
    if (mixed || m_way >= k_ways || came_late(bytes, took)) return;
    Cost& cost = m_costs[m_way];
    cost.nanoseconds = cost.nanoseconds * k_weight_of_old + took;
    cost.bytes = cost.bytes * k_weight_of_old + static_cast<double>(bytes);
    ++cost.samples;
    ++cost.in_all;
}

/// True of an acknowledgement of little that seems to have waited for whatever the peer had to say next: the link is not that
/// much slower than it was, unless several say so.
bool DeliveryMeter::came_late(uint64_t bytes, double nanoseconds) {
    const double known = costs()[m_way];
    const bool is_late = bytes < k_acknowledged_bytes && known > 0 && nanoseconds > k_late * known * static_cast<double>(bytes);
    m_late = is_late ? m_late + 1 : 0;
    return is_late && m_late <= k_most_late;
}

void DeliveryMeter::renew(uint8_t way) {
    Cost& cost = m_costs[way];
    cost = {.before = costs()[way], .in_all = cost.in_all};
}

DeliveryCosts DeliveryMeter::costs() const {
    DeliveryCosts costs{};
    for (size_t way = 0; way < k_ways; ++way)
        costs[way] =
            m_costs[way].samples < k_least_samples ? m_costs[way].before : m_costs[way].nanoseconds / m_costs[way].bytes;
    return costs;
}

Deliveries DeliveryMeter::deliveries() const {
    Deliveries known{.costs = costs()};
    for (size_t way = 0; way < k_ways; ++way) known.samples[way] = m_costs[way].in_all;
    return known;
}

}  // namespace warpline::protocol
