// Initialisation, version, entry points, error texts: everything that may be called before cuInit.
#include "client/abi/export_host.h"
#include "client/abi/process.h"
#include "client/gen/driver_calls.gen.h"
#include "cuda/abi/error_names.h"
#include "cuda/abi/export_tables.h"
#include "cuda/abi/symbols/symbols.h"

namespace warpline::client {

CUresult hook_client_cuInit(unsigned int Flags) { return Process::instance().initialise(Flags); }

CUresult hook_client_cuDriverGetVersion(int* driverVersion) {
    if (!driverVersion) return CUDA_ERROR_INVALID_VALUE;
    *driverVersion = Process::instance().driver_version();
    return CUDA_SUCCESS;
}

CUresult hook_client_cuGetProcAddress_v2(const char* symbol, void** pfn, int cudaVersion, cuuint64_t flags,
                                         CUdriverProcAddressQueryResult* symbolStatus) {
    return cuda::abi::get_proc_address(cuda::abi::driver_symbols(), Process::instance().driver_version(), symbol, pfn,
                                       cudaVersion, flags, symbolStatus);
}

CUresult hook_client_cuGetProcAddress(const char* symbol, void** pfn, int cudaVersion, cuuint64_t flags) {
    return cuda::abi::get_proc_address_v1(cuda::abi::driver_symbols(), Process::instance().driver_version(), symbol, pfn,
                                          cudaVersion, flags);
}

CUresult hook_client_cuGetExportTable(const void** ppExportTable, const CUuuid* pExportTableId) {
    serve_export_tables();
    return cuda::abi::get_export_table(ppExportTable, pExportTableId);
}

CUresult hook_client_cuGetErrorString(CUresult error, const char** pStr) { return cuda::abi::get_error_string(error, pStr); }

CUresult hook_client_cuGetErrorName(CUresult error, const char** pStr) { return cuda::abi::get_error_name(error, pStr); }

}  // namespace warpline::client
