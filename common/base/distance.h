// From where on a peer is far away.
#pragma once

#include <cstdint>

namespace warpline {

/// A round trip in microseconds. From there on a loss, or a copy that begins again, costs time that a program notices.
inline constexpr uint64_t k_far_round_trip_us = 2000;

}  // namespace warpline
