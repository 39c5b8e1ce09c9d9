// Which sessions are served, while more are at work than processors do well at a time.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "common/base/run_queue.h"
#include "server/control/control.h"

namespace warpline::server {

/// Lets sessions take turns. Of many programs that launch and wait on few processors, each finds its caches emptied by all the
/// others whenever its moment comes: 64 at a time do half as many short steps as 4. So once more than a few for each processor
/// are at work, and processors are scarce, a few of them at a time are served, for some milliseconds each; the others' calls
/// wait. Whoever was served least comes first, so that one who asks for little now and then hardly waits.
///
/// Who waits for a device, or does nothing, has no turn: nothing is left idle for somebody's sake.
///
/// @thread  one
class Turns {
public:
    using Clock = std::chrono::steady_clock;
    struct Options {
        unsigned processors = processor_count();
        unsigned crowd_per_processor = 4;            ///< so many sessions at work need no turns
        unsigned served_per_processor = 2;           ///< at a time
        std::chrono::milliseconds tick{15};          ///< between two looks, while there are turns
        std::chrono::milliseconds rare_tick{100};    ///< while there are none, and sessions enough to need some
        std::chrono::milliseconds round{480};        ///< until everybody was served; turns are as long as that allows
        std::chrono::milliseconds shortest_turn{5};  ///< but for these bounds
        std::chrono::milliseconds longest_turn{30};
        std::chrono::milliseconds remembered{1'000};  ///< who has done nothing for so long is not at work
        bool (*processors_scarce)() = &processors_are_scarce;
    };
    /// What is known of one session. It stays where it is.
    struct Session {
        explicit Session(SessionCounters& shared) : counters(shared) {}
        SessionCounters& counters;
        uint64_t calls = 0;               ///< at the last look
        Clock::time_point last_active{};  ///< zero: never
        Clock::time_point turn_began{};
        Clock::duration served{};  ///< time of its turns in which it did something
        bool is_served = true;
    };

    Turns() : Turns(Options{}) {}
    explicit Turns(const Options& options) : m_options(options) {}

    /// Looks at all sessions that there are, and says whose turn it is. @blocks no
    void look(const std::vector<Session*>& sessions, Clock::time_point now);
    /// When it is to be called again; max: not before there are more sessions.
    Clock::time_point next_look(size_t sessions) const;

    bool are_taken() const { return m_taken; }
    size_t served_at_a_time() const { return size_t{m_options.processors} * m_options.served_per_processor; }
    uint64_t given() const { return m_given; }  ///< turns, since the start

private:
    size_t crowd_bound() const { return size_t{m_options.processors} * m_options.crowd_per_processor; }
    size_t count_active(const std::vector<Session*>& sessions, Clock::time_point now);
    void begin(const std::vector<Session*>& sessions, Clock::time_point now);
    void end(const std::vector<Session*>& sessions);
    void take_from(const std::vector<Session*>& sessions, size_t active, size_t wanted, Clock::time_point now);
    void give(Session& session, Clock::time_point now);

    const Options m_options;
    bool m_taken = false;
    uint64_t m_given = 0;
    Clock::duration m_least_served{};  // of those who are at work
    Clock::time_point m_last_look{};
};

}  // namespace warpline::server
