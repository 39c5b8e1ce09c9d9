// Initialisation, version, errors, lookup of functions and tables.
#include <cstring>

#include "cuda/abi/error_names.h"
#include "cuda/abi/export_tables.h"
#include "cuda/abi/symbols/symbols.h"
#include "softgpu/driver/config/version.h"
#include "softgpu/driver/context/context.h"
#include "softgpu/driver/life/start.h"
#include "softgpu/driver/life/table_host.h"
#include "softgpu/driver/process/process.h"

namespace warpline::softgpu::driver {

CUresult cuInit(unsigned int Flags) {
    provide_export_tables();
    return start(Flags);
}

CUresult cuDriverGetVersion(int* driverVersion) {
    if (driverVersion == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *driverVersion = driver_version();
    return CUDA_SUCCESS;
}

CUresult cuGetErrorName(CUresult error, const char** pStr) { return cuda::abi::get_error_name(error, pStr); }
CUresult cuGetErrorString(CUresult error, const char** pStr) { return cuda::abi::get_error_string(error, pStr); }

CUresult cuGetProcAddress_v2(const char* symbol, void** pfn, int cudaVersion, cuuint64_t flags,
                             CUdriverProcAddressQueryResult* symbolStatus) {
    const auto unknown = process().config().profile.unknown_symbol_fails ? cuda::abi::UnknownSymbol::not_found
                                                                         : cuda::abi::UnknownSymbol::success;
    return cuda::abi::get_proc_address(cuda::abi::driver_symbols(), driver_version(), symbol, pfn, cudaVersion, flags,
                                       symbolStatus, unknown);
}
CUresult cuGetProcAddress(const char* symbol, void** pfn, int cudaVersion, cuuint64_t flags) {
    return cuda::abi::get_proc_address_v1(cuda::abi::driver_symbols(), driver_version(), symbol, pfn, cudaVersion, flags);
}

CUresult cuGetExportTable(const void** ppExportTable, const CUuuid* pExportTableId) {
    provide_export_tables();
    return cuda::abi::get_export_table(ppExportTable, pExportTableId);
}

}  // namespace warpline::softgpu::driver
