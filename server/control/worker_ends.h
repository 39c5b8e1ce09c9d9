// Where a worker, the door, the gauge or the keeper finds what its supervisor has given it.
#pragma once

#include <string_view>

namespace warpline::server {

/// Descriptors at which a worker finds its ends, and the argument that makes gpu-server a worker.
constexpr int k_worker_control_fd = 3;
constexpr int k_worker_counters_fd = 4;
constexpr int k_worker_log_fd = 5;        ///< the server's standard error: a worker's own is a pipe, for its client
constexpr int k_worker_messages_fd = 6;   ///< the reading end of that pipe
constexpr int k_worker_inventory_fd = 7;  ///< what another worker has found out about the devices; nothing to be read: take it
constexpr std::string_view k_worker_argument = "--worker-of=";

/// Likewise for the door, the gauge and the keeper.
constexpr int k_helper_control_fd = 3;
constexpr std::string_view k_door_argument = "--door-of=";
constexpr std::string_view k_gauge_argument = "--gauge-of=";
constexpr std::string_view k_keeper_argument = "--keeper-of=";

}  // namespace warpline::server
