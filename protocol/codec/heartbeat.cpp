// The heartbeat's decisions: limits from the measured round trip, what time counts as silence, what is worth a line.
#include "protocol/codec/heartbeat.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <utility>

namespace warpline::protocol {

namespace {

using std::chrono::duration_cast;
using std::chrono::microseconds;
using std::chrono::milliseconds;

constexpr int k_looks_per_interval = 4;
constexpr int k_intervals_between_measurements = 5;  // under steady traffic, which needs no Pings otherwise
constexpr size_t k_most_asked = 64;
constexpr unsigned k_told_per_minute = 3;

uint64_t as_us(Clock::time_point at) {
    return static_cast<uint64_t>(duration_cast<microseconds>(at.time_since_epoch()).count());
}
double seconds(Clock::duration time) { return std::chrono::duration<double>(time).count(); }

[[gnu::format(printf, 1, 2)]] std::string printed(const char* format, ...) {
    char text[256];
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return text;
}

}  // namespace

HeartbeatOptions HeartbeatOptions::of(milliseconds interval, milliseconds lost_after, milliseconds stopped_after) {
    HeartbeatOptions options;
    options.lost_after = lost_after.count() > 0 ? lost_after : interval * 8;
    options.lost_after_at_most = options.lost_after * 4;
    options.interval = std::min(interval, options.lost_after / 2);
    options.stopped_after = std::max(stopped_after, options.lost_after);
    return options;
}

Heartbeat::Heartbeat(HeartbeatOptions options, Clock::time_point now)
    : m_options(options), m_last_look(now), m_last_received(now), m_last_sent(now), m_last_ping(now), m_level_since(now) {
    for (Budget& budget : m_budgets) budget = {k_told_per_minute, now};
}

void Heartbeat::restart(Clock::time_point now) {
    m_silence = {};
    m_incomplete_for.reset();
    m_last_look = m_last_received = m_last_sent = m_last_ping = now;
    m_asked.clear();
    m_peer_stopped = false;
    // Not worth a line: who connects again tells that.
    m_told = false;
    m_change.reset();
    if (m_level == LinkLevel::up) return;
    m_level = LinkLevel::up;
    m_level_since = now;
    ++m_level_changes;
}

// --- time ---

void Heartbeat::look(Clock::time_point now) {
    Clock::duration gap = std::max<Clock::duration>(now - m_last_look, {});
    m_last_look = std::max(now, m_last_look);
    if (gap > m_options.interval) {
        // This process did not run, or did not listen. One look's time counts, so that who is always late finds the dead, too.
        gap = m_options.interval / k_looks_per_interval;
        m_asked.clear();  // their answers would measure the stop
    }
    m_silence += gap;
    if (m_incomplete_for) *m_incomplete_for += gap;
}

Clock::duration Heartbeat::answer_time() const {
    const auto granularity = duration_cast<microseconds>(m_options.interval) / k_looks_per_interval;
    const auto measured = microseconds(m_round_trips.timeout_us(static_cast<uint64_t>(granularity.count())));
    return std::min<Clock::duration>(measured, (m_options.lost_after_at_most - m_options.interval) / 4);
}

Heartbeat::Limits Heartbeat::limits() const {
    const Clock::duration answer = answer_time();
    Limits limits{};
    limits.lost = std::max<Clock::duration>(m_options.lost_after, m_options.interval + answer * 4);
    // Somebody silent is asked after an interval, and the answer takes its time.
    limits.slow = std::min(m_options.interval + answer, limits.lost);
    limits.suspect = limits.slow + (limits.lost - limits.slow) / 2;
    return limits;
}

// --- events ---

void Heartbeat::received(Clock::time_point now, Came came) {
    look(now);
    if (came == Came::whole) {
        m_incomplete_for.reset();
    } else if (!m_incomplete_for) {
        m_incomplete_for.emplace();
    }
    const Clock::duration silence = m_silence;
    m_silence = {};
    m_last_received = m_last_look;
    if (m_level == LinkLevel::up) return;
    // What was asked meanwhile measures the trouble that is over, not the link (unless there is nothing better).
    if (m_level == LinkLevel::suspect && m_round_trips.count() > 0) m_asked.clear();
    m_peer_stopped = false;
    change_level(LinkLevel::up, now, printed("answers again after %.1f s", seconds(silence)));
}

void Heartbeat::asked(Clock::time_point at) {
    if (m_asked.empty() || at < m_asked.front().at) m_asked.push_front({at});
    ++m_pings;
}

void Heartbeat::pong(uint64_t echo_us, Clock::time_point now) {
    // A Ping is stamped when it leaves, which is after it was decided on; one Pong may answer several.
    if (echo_us > as_us(now) || m_asked.empty() || echo_us < as_us(m_asked.front().at)) return;
    while (!m_asked.empty() && as_us(m_asked.front().at) <= echo_us) m_asked.pop_front();
    m_round_trips.add(as_us(now) - echo_us);
}

Heartbeat::Action Heartbeat::tick(Clock::time_point now, std::optional<milliseconds> unacknowledged_for) {
    look(now);
    count_missed(now);
    const Limits limits = this->limits();
    if (m_incomplete_for && *m_incomplete_for >= limits.lost) {
        change_level(LinkLevel::lost, now,
                     printed("what it has begun to send has not been completed for %.1f s", seconds(*m_incomplete_for)));
        return Action::lost;
    }
    if (m_silence >= limits.lost) {
        const bool machine_answers = unacknowledged_for && *unacknowledged_for < limits.lost;
        if (!machine_answers || m_silence >= std::max<Clock::duration>(m_options.stopped_after, limits.lost)) {
            change_level(LinkLevel::lost, now, printed("nothing received for %.1f s", seconds(m_silence)));
            return Action::lost;
        }
        if (m_level == LinkLevel::suspect && !std::exchange(m_peer_stopped, true)) {
            report({m_level, m_level, true,
                    printed("nothing received for %.1f s, but its machine acknowledges: the process seems to be stopped; "
                            "it is given up after %.1f s",
                            seconds(m_silence), seconds(m_options.stopped_after))},
                   now);
        }
    }
    if (m_silence >= limits.suspect) {
        change_level(LinkLevel::suspect, now,
                     printed("nothing received for %.1f s; without a sign of life it is given up after %.1f s",
                             seconds(m_silence), seconds(limits.lost)));
    } else if (m_silence >= limits.slow) {
        change_level(
            LinkLevel::slow, now,
            printed("nothing received for %.1f s; an answer was due within %.2f s", seconds(m_silence), seconds(limits.slow)));
    }
    if (!ping_is_due(now)) return Action::none;
    m_last_ping = now;
    ++m_pings;
    m_asked.push_back({now});
    if (m_asked.size() > k_most_asked) m_asked.pop_front();
    return Action::ping;
}

bool Heartbeat::ping_is_due(Clock::time_point now) const {
    if (m_pings == 0) return true;  // the limits need a first measurement
    const Clock::duration since_ping = now - m_last_ping;
    if (since_ping < m_options.interval) return false;
    // The peer is asked, too, when we talk and it does not: else a peer that only receives would look dead.
    return now - m_last_sent >= m_options.interval || now - m_last_received >= m_options.interval ||
           since_ping >= m_options.interval * k_intervals_between_measurements;
}

void Heartbeat::count_missed(Clock::time_point now) {
    const Clock::duration answer = answer_time();
    for (Asked& asked : m_asked) {
        if (asked.missed || m_last_received > asked.at || now - asked.at < answer) continue;
        asked.missed = true;
        ++m_missed_pings;
    }
}

// --- levels ---

void Heartbeat::change_level(LinkLevel level, Clock::time_point now, std::string reason) {
    if (level == m_level) return;
    LinkLevelChange change{m_level, level, false, {}};
    change.serious = std::max(m_level, level) >= LinkLevel::suspect;
    change.text = printed("%s -> %s: ", to_string(m_level), to_string(level)) + std::move(reason);
    m_level = level;
    m_level_since = now;
    ++m_level_changes;
    report(std::move(change), now);
}

void Heartbeat::report(LinkLevelChange change, Clock::time_point now) {
    if (change.to == LinkLevel::lost) return;  // the end of the connection tells it
    if (change.to == LinkLevel::up) {
        if (!std::exchange(m_told, false)) {
            ++m_untold;
            return;
        }
    } else if (change.from != change.to) {
        Budget& budget = m_budgets[change.serious ? 1 : 0];
        if (now - budget.renewed >= std::chrono::minutes(1)) budget = {k_told_per_minute, now};
        if (budget.left == 0) {
            ++m_untold;
            return;
        }
        --budget.left;
        m_told = true;
    } else if (!m_told) {
        ++m_untold;
        return;
    }
    if (const unsigned untold = std::exchange(m_untold, 0); untold > 0)
        change.text += printed(" (%u earlier changes were not told)", untold);
    m_change = std::move(change);
}

std::optional<LinkLevelChange> Heartbeat::take_change() { return std::exchange(m_change, std::nullopt); }

void Heartbeat::describe(LinkQuality& quality) const {
    quality.level = m_level;
    quality.level_since = m_level_since;
    quality.level_changes = m_level_changes;
    quality.round_trips = m_round_trips.count();
    quality.round_trip_us = m_round_trips.last_us();
    quality.smoothed_round_trip_us = m_round_trips.smoothed_us();
    quality.round_trip_variation_us = m_round_trips.variation_us();
    quality.minimum_round_trip_us = m_round_trips.minimum_us();
    quality.jitter_us = m_round_trips.jitter_us();
    quality.pings = m_pings;
    quality.missed_pings = m_missed_pings;
}

}  // namespace warpline::protocol
