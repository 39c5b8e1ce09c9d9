// The options of the software GPU, which all come from the environment.
#pragma once

#include <cstdint>
#include <string>

#include "softgpu/driver/config/profile.h"

namespace warpline::softgpu::driver {

/// What the environment says, read once at cuInit.
struct Config {
    uint32_t devices = 1;              ///< SOFTGPU_DEVICES, 1 … 16
    uint32_t compute_capability = 89;  ///< SOFTGPU_COMPUTE_CAPABILITY, 7.5 … 12.1, as 10 × major + minor
    uint64_t memory_bytes = 0;         ///< SOFTGPU_MEMORY per device, such as 2GiB; bounded by the machine's memory
    uint32_t workers = 0;              ///< SOFTGPU_WORKERS: threads that execute kernels; 0: as many as cores
    uint64_t watchdog_ms = 0;          ///< SOFTGPU_WATCHDOG_MS: a longer kernel ends with error 702; 0: none
    bool execute = true;               ///< SOFTGPU_EXECUTE=0: dry mode, accepts every image and executes nothing
    uint32_t checks = 0;               ///< SOFTGPU_CHECK: check::Check
    std::string unknown_check;         ///< a word of SOFTGPU_CHECK that names no check: cuInit refuses
    bool exact_bounds = false;         ///< SOFTGPU_CHECK contains "memory": the granule of validity is a byte, not 2 MiB
    Profile profile;                   ///< SOFTGPU_PROFILE: how close it keeps to NVIDIA's driver
    std::string profile_mistake;       ///< what is wrong with SOFTGPU_PROFILE: cuInit refuses
    uint64_t schedule_seed = 0;        ///< SOFTGPU_SCHEDULE_SEED: run threads in a random order; 0: in the usual one

    /// Kernels reach what lies before allocations (DB-18).
    bool reach_before() const { return profile.memory_before && !exact_bounds; }
};

/// Values that make no sense are reported on stderr and replaced by the default.
Config read_config();

/// SOFTGPU_EXECUTE, alone.
bool read_execute();

/// The cores of the machine that this process may use.
uint32_t host_cores();

}  // namespace warpline::softgpu::driver
