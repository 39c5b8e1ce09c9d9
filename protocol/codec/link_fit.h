// How large the parts of long payloads are, and how many of them may be under way, on a link of this speed.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "protocol/codec/delivery_meter.h"

namespace warpline::protocol {

/// What suits a lane.
struct LinkFit {
    uint32_t part_bytes = 0;
    uint64_t least_window_bytes = 0;  ///< beside what the path holds: both ends are busy
    uint64_t unsent_bytes = 0;        ///< that the socket may have, and not have sent yet; 0: as many as it likes
};

/// What is there to choose from.
struct PartRange {
    uint32_t least_bytes = 0, most_bytes = 0;
    std::chrono::microseconds time{0};  ///< that a part shall take on the link
    unsigned in_window = 0;             ///< parts that a path which holds nothing needs under way
};
/// Where calls wait for the end of a part.
inline constexpr PartRange k_command_parts{64 * 1024, 256 * 1024, std::chrono::microseconds(2000), 4};
/// Where nothing waits but what comes behind in the same payload, and what a call's answer waits for.
inline constexpr PartRange k_bulk_parts{256 * 1024, 1024 * 1024, std::chrono::microseconds(8000), 3};

/// A faster socket has sent what it is given before anybody waits for it; then a bound only costs changes of threads.
inline constexpr double k_bounded_ns_per_byte = 8;

/// What the lane's connection takes for a byte, the way that is the fastest. 0: not known.
inline double least_cost(const DeliveryCosts& costs) {
    double least = 0;
    for (const double cost : costs)
        if (cost > 0 && (least == 0 || cost < least)) least = cost;
    return least;
}

/// Parts take a certain time, between bounds: so a call waits as long behind one on a slow link as on a fast one, as far as
/// that goes, and what a reply waits for is not much more than the path holds. Pure.
/// @param most_bytes   of a part, if that is less than the range's
/// @param ns_per_byte  0: not known; then parts are the largest
inline LinkFit fit_to_link(const PartRange& range, uint32_t most_bytes, double ns_per_byte) {
    constexpr uint32_t k_step = 64 * 1024;  // so that chunks of the upload cache are whole numbers of parts
    const uint32_t most = std::min(most_bytes, range.most_bytes), least = std::min(range.least_bytes, most);
    LinkFit fit;
    fit.part_bytes = most;
    if (ns_per_byte > 0) {
        const double wanted = std::chrono::duration<double, std::nano>(range.time).count() / ns_per_byte;
        const auto bytes = static_cast<uint32_t>(std::min<double>(wanted, most));
        fit.part_bytes = std::clamp(bytes / k_step * k_step, least, most);
        if (ns_per_byte > k_bounded_ns_per_byte) fit.unsent_bytes = fit.part_bytes;
    }
    fit.least_window_bytes = uint64_t{fit.part_bytes} * range.in_window;
    // Less than the peer acknowledges would wait for its heartbeat.
    if (fit.part_bytes < most) fit.least_window_bytes = std::max(fit.least_window_bytes, k_acknowledged_bytes + fit.part_bytes);
    return fit;
}

}  // namespace warpline::protocol
