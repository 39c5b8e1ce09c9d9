// The log of errors.
#include "client/gen/logs_calls.gen.h"

#include "cuda/abi/driver_log.h"

namespace warpline::client {

CUresult hook_client_cuLogsRegisterCallback(CUlogsCallback callbackFunc, void* userData, CUlogsCallbackHandle* callback_out) {
    return cuda::abi::logs_register_callback(callbackFunc, userData, callback_out);
}

CUresult hook_client_cuLogsUnregisterCallback(CUlogsCallbackHandle callback) {
    return cuda::abi::logs_unregister_callback(callback);
}

CUresult hook_client_cuLogsCurrent(CUlogIterator* iterator_out, unsigned int flags) {
    return cuda::abi::logs_current(iterator_out, flags);
}

CUresult hook_client_cuLogsDumpToFile(CUlogIterator* iterator, const char* pathToFile, unsigned int flags) {
    return cuda::abi::logs_dump_to_file(iterator, pathToFile, flags);
}

CUresult hook_client_cuLogsDumpToMemory(CUlogIterator* iterator, char* buffer, size_t* size, unsigned int flags) {
    return cuda::abi::logs_dump_to_memory(iterator, buffer, size, flags);
}

}  // namespace warpline::client
