// What a link looks like to its users, measured; and made right by that.
#pragma once

#include "bench/link/link_model.h"
#include "common/base/result.h"

namespace warpline::bench {

/// What a round trip of one byte and a large transfer take by plain TCP.
struct LinkFigures {
    LinkTime round_trip{0};                  ///< median
    LinkTime jitter{0};                      ///< by how far the middle half of them are apart
    double bits_per_s = 0;                   ///< 0: was not asked for
    uint64_t packets = 0, lost_packets = 0;  ///< of the transfer and the round trips
};

/// Measures a link as its users see it: plain TCP through a relay of its own, to a thread of this process.
/// @param pings  round trips; more than 0
/// @param bytes  of the transfer, whose time begins with the arrival of its first byte; 0: none
/// @blocks       for as long as that takes @errors io, connection_lost
Result<LinkFigures> measure_link(const LinkProperties& link, int pings, size_t bytes);

/// The same link with a shorter delay, so that a round trip by TCP through a relay on this machine takes as long as was asked
/// for, the machine's own part (measured here) included.
/// @errors bad_argument: that part is longer than the round trip alone; `detail` is its microseconds. io, connection_lost
Result<LinkProperties> calibrated(const LinkProperties& link);

}  // namespace warpline::bench
