// A trace, read back.
#pragma once

#include <array>
#include <cstdint>
#include <istream>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"

namespace warpline::analyze {

/// Something that took time. Microseconds of the program's machine, as everywhere here.
struct Span {
    double begin_us = 0;
    double end_us = 0;
    double us() const { return end_us - begin_us; }
};

/// A call of the program's.
struct Call : Span {
    uint32_t thread = 0;
    std::string_view name;
    uint64_t first = 0;  ///< number of the first call that was sent for it
    uint32_t count = 0;  ///< how many were, other threads' in between included
    int result = 0;
    uint64_t answered_by = 0;  ///< nothing was asked for: known from the reply to this call, of which the server was to tell
};

/// A thread waited for the reply to a call.
struct Wait : Span {
    uint32_t thread = 0;
    std::string_view name;  ///< of the call that was sent
    uint64_t number = 0;
    uint64_t bytes = 0;  ///< of the reply's payload
};

/// A thread could not send.
struct Block : Span {
    uint32_t thread = 0;
    bool by_credit = false;  ///< else: for as long as a long payload was being sent
};

/// Connecting, or the goodbye.
struct Part : Span {
    uint32_t thread = 0;
    std::string_view name;
    uint32_t round_trips = 0;
};

struct Frame : Span {
    bool received = false;
    std::string_view kind;
    unsigned lane = 0;
    uint64_t call = 0;  ///< the first; 0: none
    uint32_t calls = 0;
    uint64_t bytes = 0;  ///< before they were encoded
    uint64_t wire_bytes = 0;
    bool encoded = false;               ///< it was compressed
    std::array<unsigned, 3> percent{};  ///< that it would travel as at 10, 100 and 1,000 Mb/s; 0: not known
    /// As it would travel over a link of this rate; 0: as it did.
    double bytes_at(double bytes_per_us) const;
    /// All zeros, or any other constant: packed on any link, from the first byte on.
    bool is_constant() const { return encoded && wire_bytes < bytes / 100; }
};

/// A call as the server executed it.
struct Executed : Span {
    std::string_view name;
    uint64_t number = 0;
};

/// What a file says. Each list in the order of its begin.
struct Trace {
    std::vector<Call> calls;
    std::vector<Wait> waits;
    std::vector<Block> blocks;
    std::vector<Part> parts;
    std::vector<Frame> frames;
    std::vector<Executed> executed;
    std::vector<double> round_trips_us;  ///< of Pings
    std::string program, server, address;
    double clock_error_us = 0;                 ///< at most, of `executed`
    uint64_t dropped = 0;                      ///< calls that the server did not tell of
    uint64_t left_out = 0;                     ///< events beyond the file's limit
    bool complete = false;                     ///< the process wrote the end
    std::set<std::string, std::less<>> names;  ///< what the views above point into

    Trace() = default;
    Trace(const Trace&) = delete;
    Trace& operator=(const Trace&) = delete;
    Trace(Trace&&) = default;  // a set's elements stay where they are
    Trace& operator=(Trace&&) = default;

    /// Of the program's threads: what they did first and last. Zeros if they did nothing.
    Span whole() const;
    /// By thread, from its first event to its last one.
    std::map<uint32_t, Span> threads() const;
    /// The shortest round trip that was measured; 0: none was.
    double least_round_trip_us() const;
};

/// Reads a trace, whole or cut off anywhere: what is not a whole line is left out.
/// @errors  malformed: no trace of ours, with the reason in `problem`
Result<Trace> read_trace(std::istream& in, std::string& problem);

}  // namespace warpline::analyze
