// What the generated entry points need from the driver layer, apart from the implementations themselves, which are functions
// of this namespace with the name and the parameters of the exported symbol: `CUresult cuMemAlloc_v2(CUdeviceptr*, size_t)`.
#pragma once

#include "cuda/abi/cuda_types.h"

namespace warpline::softgpu::driver {

/// Success if cuInit has succeeded in this process, else CUDA_ERROR_NOT_INITIALIZED (also in the child of a fork, whose device
/// threads do not exist). Asked first by every entry except those that are legal before cuInit: cuInit, cuDriverGetVersion,
/// cuGetErrorName, cuGetErrorString, cuGetProcAddress, cuGetProcAddress_v2, cuGetExportTable, cuModuleGetLoadingMode.
///
/// @thread  any; does not block
CUresult check_initialised() noexcept;

/// The result of an entry whose implementation threw, to be called in a handler: out of memory for std::bad_alloc, else
/// unknown, logged with the name of the call.
CUresult result_of_exception(const char* call) noexcept;

/// While one lives, stream 0 means the calling thread's own default stream. For the `_ptsz` and `_ptds` twins.
class PerThreadDefaultStream {
public:
    PerThreadDefaultStream() noexcept;
    ~PerThreadDefaultStream();
    PerThreadDefaultStream(const PerThreadDefaultStream&) = delete;
    PerThreadDefaultStream& operator=(const PerThreadDefaultStream&) = delete;
};

}  // namespace warpline::softgpu::driver
