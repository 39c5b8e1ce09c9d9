// The driver's functions as cuGetProcAddress finds them.
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
    void* address;     ///< null: newer toolkits have it, and it is not served
};

/// The functions of the driver library that this code is linked into, sorted by name, then by default stream, then by version.
/// Generated from cuda/api/symbols.txt.
std::span<const Symbol> driver_symbols() noexcept;

/// The newest CUDA version whose functions the table knows by name. A driver library never says that it is newer: programs
/// would look for forms of functions that it cannot tell from the ones it has.
constexpr int k_newest_version = 13050;

/// What cuGetProcAddress of a driver of version `driver_version` answers: the form of `name` with the highest version that is
/// not above `version`. With `per_thread` the per-thread form if there is one, else the ordinary one. Forms newer than the
/// driver do not exist.
///
/// @return  nullptr if there is none; `status` says whether the name is unknown or the version too old
/// @thread  any; does not block
const Symbol* find_symbol(std::span<const Symbol> symbols, int driver_version, const char* name, int version, bool per_thread,
                          CUdriverProcAddressQueryResult* status) noexcept;

/// What is answered for a name that is not there. Sources conflict about NVIDIA's driver (docs/driver-behaviour.md).
enum class UnknownSymbol : uint8_t { success, not_found };

/// The body of cuGetProcAddress_v2. The empty name, with which libcudart probes for the function, is an unknown name. What is
/// not found is a success with *function = nullptr and a status that says why; with UnknownSymbol::not_found it is
/// CUDA_ERROR_NOT_FOUND.
///
/// @param driver_version  as cuDriverGetVersion
/// @errors  invalid value (null name or result, unknown flags, a version above the driver's)
/// @thread  any, also before cuInit; does not block
/// @source  CUDA Driver API 13.0, Driver Entry Point Access, cuGetProcAddress
CUresult get_proc_address(std::span<const Symbol> symbols, int driver_version, const char* name, void** function, int version,
                          cuuint64_t flags, CUdriverProcAddressQueryResult* status,
                          UnknownSymbol unknown = UnknownSymbol::success) noexcept;

/// The body of cuGetProcAddress, before CUDA 12: what is not found is CUDA_ERROR_NOT_FOUND, and *function stays as it is.
CUresult get_proc_address_v1(std::span<const Symbol> symbols, int driver_version, const char* name, void** function,
                             int version, cuuint64_t flags) noexcept;

}  // namespace warpline::cuda::abi
