// The log line of what is refused, and the results of what went wrong inside of Warpline.
#include "client/call/refuse.h"

#include "client/abi/process.h"
#include "client/call/refuse_newer.h"
#include "client/call/shim.h"
#include "common/log/log.h"

namespace warpline::client {

namespace {

// One line for each function. A log line is not worth the program's life.
template <typename Say>
int refuse_once(std::atomic<bool>& told, Say say) noexcept {
    count_call(CallClass::unsupported);
    if (CUresult status = Process::instance().status(); status != CUDA_SUCCESS) return status;
    if (!told.exchange(true)) {
        try {
            say();
        } catch (...) {
            return CUDA_ERROR_NOT_SUPPORTED;
        }
    }
    return CUDA_ERROR_NOT_SUPPORTED;
}

}  // namespace

int refuse(const char* function, const char* reason, std::atomic<bool>& told) noexcept {
    return refuse_once(told, [&] { WL_LOG(warn, "client", "{} is not supported: {}", function, reason); });
}

int refuse_symbol(const char* function, const char* reason, std::atomic<bool>& told) noexcept {
    return cuda::abi::noted(function, static_cast<CUresult>(refuse(function, reason, told)));
}

int refuse_newer(const char* function, int since, std::atomic<bool>& told) noexcept {
    return refuse_once(told, [&] {
        const int version = Process::instance().driver_version();
        WL_LOG(warn, "client", "{} is not supported: it came with CUDA {}.{}, and the server's driver is of {}.{}", function,
               since / 1000, since % 1000 / 10, version / 1000, version % 1000 / 10);
    });
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
