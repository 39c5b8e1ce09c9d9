// Looking at a server from outside, for the subcommands that tell about it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace warpline::cli {

/// One device of a server, as a program sees it.
struct SurveyedDevice {
    std::string name, uuid;  ///< the latter as in CUDA_VISIBLE_DEVICES
    uint64_t total_bytes = 0, free_bytes = 0;
    int major = 0, minor = 0;
    int processors = 0;
};

/// The connection's quality, as the library saw it (protocol/codec/link_quality.h).
struct SurveyedLink {
    std::string level;
    double level_seconds = 0;
    uint64_t round_trips = 0;  ///< of the heartbeat; without one, the three below mean nothing
    double smoothed_us = 0, variation_us = 0, jitter_us = 0;
    uint64_t pings = 0, missed_pings = 0;
    double sent_bytes_per_s = 0, received_bytes_per_s = 0;
};

/// What a visit to one server found.
struct Survey {
    std::string server;
    bool reached = false;
    int cuda_error = 0;  ///< of cuInit, if not reached; the reason has been printed by the library
    int driver_version = 0;
    double connect_ms = 0;  ///< cuInit: connection, TLS, handshake
    std::vector<SurveyedDevice> devices;
    int probes_sent = 0;
    std::vector<double> round_trips_us;                                    ///< of those that were answered
    std::optional<double> to_device_bytes_per_s, from_device_bytes_per_s;  ///< of Probes::copy_bytes
    int copy_error = 0;                                                    ///< CUDA's
    std::optional<SurveyedLink> link;                                      ///< when the session had ended
    std::map<int, SurveyedLink> bulk_links;                                ///< likewise, by the lanes' numbers
};

/// Synchronisations to time, and copies.
struct Probes {
    int count = 0;
    uint64_t copy_bytes = 0;  ///< to the first device and back, over all connections; 0: no copies
    double interval_s = 0;    ///< from the start of one to the start of the next, if that is longer than it takes
    std::function<void(const Survey&)> connected;            ///< before the first one
    std::function<void(int number, double us)> answered;     ///< each, as it comes; numbers begin with 1
    std::function<void(int number, int cuda_error)> failed;  ///< the last one, then
};

/// Visits a server by the way that programs take: through libcuda.so.1, in a process of its own.
///
/// While probes are sent, an interrupt (SIGINT) ends them, and not this process: what was found so far is returned.
///
/// @blocks  as cuInit does, and the probes
Survey survey(const std::string& server, const Probes& probes = {});

/// A server to visit.
struct ServerToVisit {
    std::string address;
    std::string problem;  ///< why there is nothing to visit; `address` is then what the user wrote
};

/// The servers to visit: those given, else the configured ones; names of DNS that stand for several are asked for, at the same
/// time. Empty, with a line on stderr that says what to do, if there are none.
///
/// @blocks  until DNS has answered, at most half of `connect_timeout`
std::vector<ServerToVisit> servers_to_visit(const std::vector<std::string>& given);

}  // namespace warpline::cli
