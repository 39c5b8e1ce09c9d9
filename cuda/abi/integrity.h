// The answer to libcudart's question whether the driver is a genuine one.
#pragma once

#include <cstdint>
#include <span>

#include "cuda/abi/export_tables.h"

namespace warpline::cuda::abi {

/// What libcudart's validity check covers; all of it is what this process itself reports and where the tables lie in it.
struct IntegrityInput {
    uint32_t driver_version = 0;
    uint32_t version = 0;  ///< as asked: 13000, 13001, 13002 by a runtime 13.0
    uint32_t process_id = 0;
    uint32_t thread_id = 0;  ///< the lower half of pthread_self()
    uint64_t cudart_table = 0;
    uint64_t integrity_table = 0;
    uint64_t integrity_function = 0;
    uint64_t unix_seconds = 0;
    std::span<const DeviceIdentity> devices;
};

/// The answer, as two numbers. Another answer makes cudart fail with cudaErrorSoftwareValidityNotEstablished.
void integrity_answer(const IntegrityInput& input, uint64_t answer[2]);

}  // namespace warpline::cuda::abi
