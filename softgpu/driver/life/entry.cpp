// What generated entry points ask before a call and after an exception.
#include "softgpu/driver/life/entry.h"

#include <new>

#include "common/log/log.h"
#include "softgpu/driver/context/context.h"
#include "softgpu/driver/process/process.h"

namespace warpline::softgpu::driver {

CUresult check_initialised() noexcept { return process().initialised() ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED; }

CUresult result_of_exception(const char* call) noexcept {
    try {
        throw;
    } catch (const std::bad_alloc&) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    } catch (const std::exception& error) {
        WL_LOG(error, "softgpu", "{}: {}", call, error.what());
    } catch (...) {
        WL_LOG(error, "softgpu", "{}: unknown exception", call);
    }
    return CUDA_ERROR_UNKNOWN;
}

PerThreadDefaultStream::PerThreadDefaultStream() noexcept { ++thread_state().per_thread_default; }
PerThreadDefaultStream::~PerThreadDefaultStream() { --thread_state().per_thread_default; }

}  // namespace warpline::softgpu::driver
