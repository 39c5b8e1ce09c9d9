#pragma once

#include <cstdint>
#include <span>

#include "cuda/abi/cuda_types.h"

namespace warpline::cuda::abi {

/// A function of the driver as cuGetProcAddress knows it.
struct Symbol {
    const char* name;  ///< without suffix: "cuMemAlloc"
    int version;       ///< the CUDA version from which on this form is the one
    bool per_thread;   ///< its stream 0 is the calling thread's (_ptsz, _ptds)
    void* address;
};

/// The functions of the driver library that this code is linked into, sorted by name, then by default stream, then by version.
/// Generated from cuda/api/symbols.txt.
std::span<const Symbol> driver_symbols() noexcept;

/// What cuGetProcAddress answers: the form of `name` with the highest version that is not above `version`. With `per_thread`
/// the per-thread form if there is one, else the ordinary one.
///
/// @return  nullptr if there is none; `status` says whether the name is unknown or the version too old
/// @thread  any; does not block
const Symbol* find_symbol(std::span<const Symbol> symbols, const char* name, int version, bool per_thread,
                          CUdriverProcAddressQueryResult* status) noexcept;

/// The body of cuGetProcAddress_v2, and of cuGetProcAddress with a null `status`. The empty name, with which libcudart probes
/// for the function, is an unknown name.
///
/// @errors  invalid value (null name or result, unknown flags), not found (*function = nullptr)
/// @thread  any, also before cuInit; does not block
/// @source  CUDA Driver API 13.0, Driver Entry Point Access, cuGetProcAddress
CUresult get_proc_address(std::span<const Symbol> symbols, const char* name, void** function, int version, cuuint64_t flags,
                          CUdriverProcAddressQueryResult* status) noexcept;

}  // namespace warpline::cuda::abi
