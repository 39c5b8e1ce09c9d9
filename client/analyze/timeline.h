// What each thread of a program did, as steps that can be taken again over another link.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "client/analyze/trace_file.h"

namespace warpline::analyze {

/// One step of a thread.
struct Step {
    enum class Kind : uint8_t {
        own,          ///< the program's own time, and that of calls that wait for nothing
        issue,        ///< sends call `number`
        wait,         ///< until the reply to call `number` is there
        send,         ///< until a payload is handed on: that of call `number`
        round_trips,  ///< `number` of them, for the session itself
        begin,        ///< thread `number` of the timeline's begins here
        join          ///< until thread `number` of the timeline's has ended
    };
    Kind kind = Kind::own;
    double us = 0;  ///< that it took
    uint64_t number = 0;
};

struct ThreadSteps {
    uint32_t thread = 0;
    Span span;  ///< from its first event to its last
    std::vector<Step> steps;
};

/// What travelled for a call, and what became of it.
struct CallFacts {
    double bytes_up = 0;       ///< with its batch
    double payload_up = 0;     ///< in parts, which others may pass
    double bytes_down = 0;     ///< with its reply, or with the news that a copy is complete
    double payload_down = 0;   ///< in parts, which others may pass
    size_t owner = SIZE_MAX;   ///< index of the thread that sent it; SIZE_MAX: not known
    bool awaited = false;      ///< a thread waited for the reply
    bool is_executed = false;  ///< the next one is known
    Span executed;
    double reply_us = 0;    ///< when the reply was there; 0: none came
    double brought_us = 0;  ///< when the last of what it brought beside the reply was there; 0: nothing
};

/// A program's threads, the first one first, and the calls that they sent.
struct Timeline {
    std::vector<ThreadSteps> threads;
    std::unordered_map<uint64_t, CallFacts> calls;
    std::vector<double> host_calls_us;  ///< when the server asked for functions of the program's, which it waits for
    Span whole;
};

/// How many bytes travel for each call over a link of this rate; 0: as many as did.
void count_bytes(const Trace& trace, double bytes_per_us, Timeline& timeline);

/// Takes a trace apart, with its bytes as they travelled. Threads that a thread seems to have waited for, because they ended
/// while it did nothing and did nothing any more, are joined by it.
Timeline make_timeline(const Trace& trace);

}  // namespace warpline::analyze
