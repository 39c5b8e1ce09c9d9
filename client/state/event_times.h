// Times between events that a program is going to ask for: those of others that lie as far apart.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <unordered_map>
#include <vector>

#include "common/base/function_ref.h"
#include "common/base/mutex.h"

namespace warpline::client {

/// Programs that measure record event after event, wait once, and ask for the time between each event and the next, or some
/// other one; or they measure each step with new events. Whoever has asked for two times between events that were recorded
/// equally far apart is expected to ask for more of them: those come with the next question, and with the next wait. It knows
/// no connection.
///
/// @thread any
class EventTimes {
public:
    static constexpr size_t k_most_pairs = 63;  ///< that come along with one question or wait
    static constexpr size_t k_most_records = 256, k_most_held = 1024;

    /// A record of an event that measures: the event's token, and the record's number.
    struct Record {
        uint64_t event = 0, number = 0;
        bool operator==(const Record&) const = default;
    };
    struct Pair {
        Record start, end;
        bool operator==(const Pair&) const = default;
    };
    /// True if the record is the event's newest, and no capture's.
    using IsNewest = FunctionRef<bool(const Record&)>;

    void recorded(const Record& record) WL_EXCLUDES(m_mutex);

    /// The time, if it has come along with something.
    std::optional<float> take(const Pair& asked) WL_EXCLUDES(m_mutex);
    /// The program asks for this, and it has to be sent. Returns what to ask along with it.
    std::vector<Pair> expect(const Pair& asked, IsNewest is_newest) WL_EXCLUDES(m_mutex);
    /// The program waits for something. Returns what to ask along with it: times that end with a record since the last wait.
    std::vector<Pair> expect_behind_wait(IsNewest is_newest) WL_EXCLUDES(m_mutex);
    /// What came along.
    void keep(const Pair& pair, float milliseconds) WL_EXCLUDES(m_mutex);

private:
    struct Hash {
        size_t operator()(const Pair& pair) const;
    };
    struct Held {
        float milliseconds = 0;
        bool used = false;
    };
    static constexpr int k_trusted = 2, k_most_trust = 3;  // one question of another kind unlearns nothing

    /// If less than half of what came along last was asked for, the program has to show anew what it asks for.
    void judge() WL_REQUIRES(m_mutex);
    std::vector<Pair> pairs_behind(uint64_t number) WL_REQUIRES(m_mutex);

    mutable Mutex m_mutex;
    std::deque<Record> m_records WL_GUARDED_BY(m_mutex);
    std::unordered_map<Pair, Held, Hash> m_held WL_GUARDED_BY(m_mutex);
    ptrdiff_t m_distance WL_GUARDED_BY(m_mutex) = 0;                                 // from start to end, in records
    int m_trust WL_GUARDED_BY(m_mutex) = 0;                                          // how often it was that
    size_t m_brought WL_GUARDED_BY(m_mutex) = 0, m_used WL_GUARDED_BY(m_mutex) = 0;  // the last time
    uint64_t m_waited WL_GUARDED_BY(m_mutex) = 0;                                    // the newest record at the last wait
};

}  // namespace warpline::client
