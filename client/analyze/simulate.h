// How long a traced program would take over another link.
#pragma once

#include "client/analyze/timeline.h"

namespace warpline::analyze {

/// A network, as far as it matters: the same in both directions.
struct Link {
    double round_trip_us = 0;
    double bytes_per_us = 0;  ///< 0: as many as the machines can
};

/// What holds of the machines whatever the link is, as the trace shows it.
struct Machines {
    double round_trip_us = 0;  ///< of the link that was traced, and the machines' own part
    double arrival_us = 0;     ///< from when a call is sent until the server begins it, if it has nothing else to do
};
Machines measure_machines(const Trace& trace, const Timeline& timeline);

struct Simulated {
    double us = 0;          ///< from the first event to the last
    double waiting_us = 0;  ///< of all threads
};

/// Takes the steps of all threads again: their own time, and what the server takes to execute each call, are as they were;
/// what travels takes the link's time, in the order in which it is sent. Deterministic.
Simulated simulate(const Timeline& timeline, const Machines& machines, const Link& link);

struct Prediction {
    Link link;
    double us = 0;
    double waiting_us = 0;
};
/// How long the program takes there. What the model makes of the link that was traced is compared to what was; the difference,
/// which has nothing to do with links, stays.
/// @param timeline  of the trace; with the bytes of that link afterwards
Prediction predict(const Trace& trace, Timeline& timeline, const Link& link);

}  // namespace warpline::analyze
