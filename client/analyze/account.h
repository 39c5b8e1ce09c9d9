// Where the time of a traced program went, and what might be changed.
#pragma once

#include <string>
#include <vector>

#include "client/analyze/trace_file.h"

namespace warpline::analyze {

/// The time of the program's threads, added up: each from its first event to its last. Microseconds.
struct Shares {
    double all_us = 0;
    double own_us = 0;        ///< the program's, outside of calls
    double calls_us = 0;      ///< in calls, and neither waiting nor kept from sending
    double executing_us = 0;  ///< waiting while the server executed what was waited for
    double link_us = 0;       ///< waiting else: the way there and back, and for calls before
    double credit_us = 0;     ///< kept from sending: too much was under way
    double payload_us = 0;    ///< while a long payload was being sent
    double session_us = 0;    ///< connecting, and the goodbye
};

/// All waits for calls of one name, made in calls of one name.
struct WaitRow {
    std::string call;  ///< as the program calls it; empty: in none
    std::string sent;  ///< whose reply was waited for
    uint64_t count = 0;
    double us = 0;
    double executing_us = 0;     ///< of it: the server executed
    uint64_t bytes_down = 0;     ///< that the replies brought, as they travelled
    uint64_t payload_bytes = 0;  ///< of memory, of it
    bool brings_more = false;    ///< some of it the program has not asked for
};

struct CallRow {
    std::string name;
    uint64_t count = 0;
    double us = 0;  ///< as the program sees it
    double worst_us = 0;
    uint64_t sent = 0;  ///< calls that travelled for them
};

struct ServerRow {
    std::string name;
    uint64_t count = 0;
    double us = 0;
    double worst_us = 0;
};

/// One direction of a lane.
struct LaneRow {
    unsigned lane = 0;
    bool received = false;
    uint64_t frames = 0, calls = 0, bytes = 0, wire_bytes = 0;
    double busy_us = 0;  ///< handing them to the socket; not known of what was received
};

struct Account {
    Span whole;
    size_t threads = 0;
    Shares shares;
    std::vector<WaitRow> waits;     ///< the longest first
    std::vector<CallRow> calls;     ///< likewise
    std::vector<ServerRow> server;  ///< likewise
    std::vector<LaneRow> lanes;
    uint64_t wait_count = 0;
    double round_trip_us = 0;
    std::vector<std::string> advice;  ///< what might be changed, in plain words; what costs most first
};

Account make_account(const Trace& trace);

/// What in these figures could be otherwise. Pure. @param account  all but its advice
std::vector<std::string> advise(const Account& account);

}  // namespace warpline::analyze
