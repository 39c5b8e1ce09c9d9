// One direction of a link: when it is busy.
#pragma once

#include <algorithm>
#include <iterator>
#include <map>

namespace warpline::analyze {

/// What is sent takes the first time that is free from when it is ready on, in pieces where that is needed. So it does not
/// matter in which order it is told: what is ready earlier goes into what was left free before. Times are in microseconds.
class BusyTimes {
public:
    /// @return when the last of it has left
    double take(double at_us, double us) {
        if (us <= 0) return std::max(at_us, free_at(at_us));
        double begin_us = at_us;
        auto next = m_busy.upper_bound(at_us);
        if (next != m_busy.begin() && std::prev(next)->second >= at_us) {
            const auto before = std::prev(next);
            begin_us = before->first;
            at_us = before->second;
            next = m_busy.erase(before);
        }
        for (; next != m_busy.end() && next->first - at_us < us; next = m_busy.erase(next)) {
            us -= next->first - at_us;
            at_us = next->second;
        }
        at_us += us;
        m_busy.emplace_hint(next, begin_us, at_us);
        return at_us;
    }

private:
    double free_at(double at_us) const {
        const auto next = m_busy.upper_bound(at_us);
        return next == m_busy.begin() ? at_us : std::prev(next)->second;
    }

    std::map<double, double> m_busy;  // from when until when; none overlap
};

}  // namespace warpline::analyze
