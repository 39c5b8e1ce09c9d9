// How the software GPU behaves where drivers and machines differ.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace warpline::softgpu::driver {

/// Where the software GPU may be more forgiving than NVIDIA's driver, and how forgiving it is. Rows: docs/driver-behaviour.md.
struct Profile {
    enum class ComputeMode : uint8_t { shared, exclusive, prohibited };
    enum class Hints : uint8_t { honoured, ignored, refused };
    /// Loads wait for nothing; or code is loaded at its first use; or with its module.
    enum class Loading : uint8_t { free, lazy, eager };
    static constexpr uint64_t k_usual_context_bytes = UINT64_MAX;

    // What differs between machines. Neither profile changes these: a machine is asked for by switch.
    bool vmm = true;                                 ///< vmm: virtual memory management is there (DB-20)
    bool peers = true;                               ///< peers: devices reach each other's memory (DB-21)
    ComputeMode compute_mode = ComputeMode::shared;  ///< compute_mode: who may have contexts on a device (DB-22)
    bool stream_values = true;                       ///< stream_values: streams wait for values in memory (DB-24)
    bool mig = false;                                ///< mig: devices are instances of a partitioned GPU (DB-23)

    // What NVIDIA's driver does on every machine. Here: the generous profile.
    Hints hints = Hints::honoured;       ///< hints: what cuMemAddressReserve makes of a hint (DB-10)
    bool called_after_error = false;     ///< after_error=called: host functions run in a failed context (DB-01)
    bool serial_host_functions = false;  ///< host_functions=serial: one thread runs those of all streams (DB-02)
    uint64_t launch_queue = 0;           ///< launch_queue: how much a stream takes before its calls wait; 0: no limit (DB-03)
    bool calls_hold_context = false;     ///< context_calls=held: what waits holds up other threads' calls (DB-50)
    /// synchronise_in_capture: cuCtxSynchronize breaks captures of any mode (DB-04)
    bool synchronise_breaks_captures = false;
    bool host_allocations_wait = false;  ///< host_allocations=wait: cuMemHostAlloc waits for the context (DB-06)
    /// pageable_staging: asynchronous copies of pageable memory to a device return once it has been staged, up to this size;
    /// larger ones wait for the stream (DB-11)
    uint64_t pageable_staging_bytes = uint64_t{4} << 20;
    bool small_copies_staged = false;  ///< small_copies=staged: so do synchronous ones of up to 64 KiB (DB-12)
    bool pageable_landed = true;       ///< pageable_async=landed: copies to pageable memory have landed on return (DB-13)
    bool foreign_copies = true;        ///< foreign_copies: copies and fills reach other devices' mapped and pool memory (DB-14)
    Loading loading = Loading::free;   ///< loading: when code is loaded, and what waits for that (DB-15)
    /// context_bytes: device memory that a context takes; k_usual_context_bytes: what is usual, less on small devices (DB-16)
    uint64_t context_bytes = 0;
    uint64_t context_ms = 0;            ///< context_ms: how long it takes to make one (DB-16)
    bool unknown_symbol_fails = false;  ///< unknown_symbol=not_found: cuGetProcAddress_v2 fails for unknown names (DB-17)
    bool memory_before = true;          ///< before_memory=mapped: kernels reach 2 MiB before allocations (DB-18)
    /// lost_events=told: who waits for work of a process that has ended gets an error, and does not wait for ever (DB-73)
    bool lost_events_told = true;
    bool free_synchronises = false;  ///< free_synchronises: cuMemFree, cuMemUnmap and such break captures in any mode (DB-05)
};

/// Reads "generous" or "strict", then switches "name=value", separated by commas. False, and `mistake` says what is wrong in
/// words for a log, if a word is unknown or a value is none of its switch's.
bool parse_profile(std::string_view text, Profile& profile, std::string& mistake);

}  // namespace warpline::softgpu::driver
