#include "client/abi/refuse.h"

#include "client/abi/process.h"
#include "client/abi/shim.h"
#include "common/log/log.h"

namespace warpline::client {

int refuse(const char* function, const char* reason, std::atomic<bool>& told) noexcept {
    count_call(CallClass::unsupported);
    if (CUresult status = Process::instance().status(); status != CUDA_SUCCESS) return status;
    if (!told.exchange(true)) {
        // A log line is not worth the program's life.
        try {
            WL_LOG(warn, "client", "{} is not supported: {}", function, reason);
        } catch (...) {
            return CUDA_ERROR_NOT_SUPPORTED;
        }
    }
    return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult result_of_exception() noexcept {
    try {
        throw;
    } catch (const std::bad_alloc&) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    } catch (const std::exception& exception) {
        try {
            WL_LOG(error, "client", "a call failed inside of Warpline: {}", exception.what());
        } catch (...) {
            return CUDA_ERROR_UNKNOWN;
        }
        return CUDA_ERROR_UNKNOWN;
    } catch (...) {
        return CUDA_ERROR_UNKNOWN;
    }
}

}  // namespace warpline::client
