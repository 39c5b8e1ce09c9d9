#pragma once

// What both stand-in drivers tell of calls: the driver's log of errors (cuLogs*), in NVIDIA's form, and a line for each call on
// the level "trace".

#include "common/log/log.h"
#include "cuda/abi/cuda_types.h"

namespace warpline::cuda::abi {

/// Notes that a call returns an error, and tells the callbacks that are registered. Success, and 'not ready', which is an
/// answer, are no errors. Allocates nothing unless there is a callback.
///
/// @thread  any; a callback may call the driver
void note_error(const char* call, CUresult result) noexcept;

/// Writes the line of a call: "cuMemAlloc_v2: 1 (CUDA_ERROR_INVALID_VALUE)".
void tell_call(const char* call, CUresult result) noexcept;

/// The result of a call on its way out.
inline CUresult noted(const char* call, CUresult result) noexcept {
    if (log::enabled(log::Level::trace, "calls")) [[unlikely]]
        tell_call(call, result);
    if (result != CUDA_SUCCESS && result != CUDA_ERROR_NOT_READY) [[unlikely]]
        note_error(call, result);
    return result;
}

/// The five functions themselves. @source CUDA Driver API 13.0, Error Log Management Functions
CUresult logs_register_callback(CUlogsCallback function, void* user, CUlogsCallbackHandle* out);
CUresult logs_unregister_callback(CUlogsCallbackHandle callback);
CUresult logs_current(CUlogIterator* out, unsigned flags);
/// @errors  invalid value (no path, unknown flags, a file that cannot be written)
CUresult logs_dump_to_file(CUlogIterator* iterator, const char* path, unsigned flags);
/// @errors  invalid value (no buffer, one without room for a line, unknown flags)
CUresult logs_dump_to_memory(CUlogIterator* iterator, char* buffer, size_t* size, unsigned flags);

}  // namespace warpline::cuda::abi
