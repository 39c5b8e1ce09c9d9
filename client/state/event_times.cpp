// Which records lie as far apart as those that the program has asked about.
#include "client/state/event_times.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

namespace warpline::client {

size_t EventTimes::Hash::operator()(const Pair& pair) const {
    uint64_t hash = 0;
    for (const uint64_t word : {pair.start.event, pair.start.number, pair.end.event, pair.end.number})
        hash = (hash ^ word) * 0x9E3779B97F4A7C15ull;
    return hash ^ (hash >> 32);
}

void EventTimes::recorded(const Record& record) {
    MutexLock lock(m_mutex);
    m_records.push_back(record);
    if (m_records.size() > k_most_records) m_records.pop_front();
}

std::optional<float> EventTimes::take(const Pair& asked) {
    MutexLock lock(m_mutex);
    const auto held = m_held.find(asked);
    if (held == m_held.end()) return std::nullopt;
    if (!std::exchange(held->second.used, true)) ++m_used;
    return held->second.milliseconds;
}

std::vector<EventTimes::Pair> EventTimes::expect(const Pair& asked, IsNewest is_newest) {
    MutexLock lock(m_mutex);
    judge();
    std::erase_if(m_records, [&](const Record& record) { return !is_newest(record); });
    const auto start = std::find(m_records.begin(), m_records.end(), asked.start);
    const auto end = std::find(m_records.begin(), m_records.end(), asked.end);
    if (start == m_records.end() || end == m_records.end() || start == end) return {};
    if (m_distance == end - start) {
        m_trust = std::min(m_trust + 1, k_most_trust);
    } else if (--m_trust <= 0) {
        m_distance = end - start;
        m_trust = 1;
    }
    if (m_trust < k_trusted) return {};
    std::vector<Pair> pairs = pairs_behind(std::max(start, end)->number);
    std::erase(pairs, asked);
    m_brought = pairs.size();
    return pairs;
}

std::vector<EventTimes::Pair> EventTimes::expect_behind_wait(IsNewest is_newest) {
    MutexLock lock(m_mutex);
    const uint64_t waited = m_waited;
    if (!m_records.empty()) m_waited = m_records.back().number;
    if (m_trust < k_trusted || waited == m_waited) return {};
    judge();
    if (m_trust < k_trusted) return {};
    std::erase_if(m_records, [&](const Record& record) { return !is_newest(record); });
    std::vector<Pair> pairs = pairs_behind(waited);
    m_brought = pairs.size();
    return pairs;
}

void EventTimes::keep(const Pair& pair, float milliseconds) {
    MutexLock lock(m_mutex);
    if (m_held.size() >= k_most_held) m_held.clear();
    m_held.insert_or_assign(pair, Held{milliseconds, false});
}

void EventTimes::judge() {
    if (m_brought != 0) m_trust = m_used * 2 < m_brought ? 0 : k_most_trust;
    m_brought = m_used = 0;
}

std::vector<EventTimes::Pair> EventTimes::pairs_behind(uint64_t number) {
    std::vector<Pair> pairs;
    const size_t apart = static_cast<size_t>(std::abs(m_distance));
    for (size_t i = apart; i < m_records.size() && pairs.size() < k_most_pairs; ++i) {
        const Record &earlier = m_records[i - apart], &later = m_records[i];
        if (later.number <= number) continue;
        pairs.push_back(m_distance > 0 ? Pair{earlier, later} : Pair{later, earlier});
    }
    return pairs;
}

}  // namespace warpline::client
