// Looking at a server from outside, for the subcommands that tell about it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace warpline::cli {

/// One device of a server, as a program sees it.
struct SurveyedDevice {
    std::string name;
    uint64_t total_bytes = 0, free_bytes = 0;
    int major = 0, minor = 0;
    int processors = 0;
};

/// What a visit to one server found.
struct Survey {
    std::string server;
    bool reached = false;
    int cuda_error = 0;  ///< of cuInit, if not reached; the reason has been printed by the library
    int driver_version = 0;
    double connect_ms = 0;  ///< cuInit: connection, TLS, handshake
    std::vector<SurveyedDevice> devices;
    std::vector<double> round_trips_us;
};

/// Visits a server by the way that programs take: through libcuda.so.1, in a process of its own.
///
/// @param round_trips  synchronisations to time; 0: none
/// @blocks             as cuInit does, and the round trips
Survey survey(const std::string& server, int round_trips);

/// The servers to visit: those given, else the configured ones. Empty, with a line on stderr that says what to do, if there are
/// none.
std::vector<std::string> servers_to_visit(const std::vector<std::string>& given);

}  // namespace warpline::cli
