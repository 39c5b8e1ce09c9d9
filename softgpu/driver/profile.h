#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace warpline::softgpu::driver {

/// Where the software GPU may be more forgiving than NVIDIA's driver, and how forgiving it is. Rows: docs/driver-behaviour.md.
struct Profile {
    enum class ComputeMode : uint8_t { shared, exclusive, prohibited };
    enum class Hints : uint8_t { honoured, ignored, refused };

    // What differs between machines. Neither profile changes these: a machine is asked for by switch.
    bool vmm = true;                                 ///< vmm: virtual memory management is there (DB-20)
    bool peers = true;                               ///< peers: devices reach each other's memory (DB-21)
    ComputeMode compute_mode = ComputeMode::shared;  ///< compute_mode: who may have contexts on a device (DB-22)
    bool mig = false;                                ///< mig: devices are instances of a partitioned GPU (DB-23)

    // What NVIDIA's driver does on every machine. Here: the generous profile.
    Hints hints = Hints::honoured;       ///< hints: what cuMemAddressReserve makes of a hint (DB-10)
    bool called_after_error = false;     ///< after_error=called: host functions run in a failed context (DB-01)
    bool serial_host_functions = false;  ///< host_functions=serial: one thread runs those of all streams (DB-02)
    uint64_t launch_queue = 0;           ///< launch_queue: how much a stream takes before its calls wait; 0: no limit (DB-03)
    /// synchronise_in_capture: cuCtxSynchronize breaks captures of any mode (DB-04)
    bool synchronise_breaks_captures = false;
    bool free_synchronises = false;  ///< free_synchronises: cuMemFree, cuMemUnmap and such break captures (DB-05)
};

/// Reads "generous" or "strict", then switches "name=value", separated by commas. False, and `mistake` says what is wrong in
/// words for a log, if a word is unknown or a value is none of its switch's.
bool parse_profile(std::string_view text, Profile& profile, std::string& mistake);

}  // namespace warpline::softgpu::driver
