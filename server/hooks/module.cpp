// Variables, which become memory that the client may name.
#include "server/gen/library_calls.gen.h"
#include "server/gen/managed_calls.gen.h"
#include "server/gen/module_calls.gen.h"
#include "server/hooks/common.h"

namespace warpline::server {

// Variables of modules lie outside of the window: copies may name them from here on.

CUresult hook_server_cuModuleGetGlobal_v2(ServerCall& call, const CuModuleGetGlobalV2Args& args,
                                          CuModuleGetGlobalV2Values& values) {
    const auto get = WL_DRIVER(call, cuModuleGetGlobal_v2);
    const auto module = WL_FIND(call, CUmodule, module, args.hmod);
    CUdeviceptr address = 0;
    size_t bytes = 0;
    WL_CUDA(get(&address, &bytes, module, std::string(args.name).c_str()));
    call.session().memory().add_range(address, bytes, args.hmod);
    values.dptr = address;
    values.bytes = bytes;
    return CUDA_SUCCESS;
}

CUresult hook_server_cuLibraryGetGlobal(ServerCall& call, const CuLibraryGetGlobalArgs& args,
                                        CuLibraryGetGlobalValues& values) {
    const auto get = WL_DRIVER(call, cuLibraryGetGlobal);
    const auto library = WL_FIND(call, CUlibrary, library, args.library);
    CUdeviceptr address = 0;
    size_t bytes = 0;
    WL_CUDA(get(&address, &bytes, library, std::string(args.name).c_str()));
    call.session().memory().add_range(address, bytes, args.library);
    values.dptr = address;
    values.bytes = bytes;
    return CUDA_SUCCESS;
}

CUresult hook_server_cuLibraryGetManaged(ServerCall& call, const CuLibraryGetManagedArgs& args,
                                         CuLibraryGetManagedValues& values) {
    const auto get = WL_DRIVER(call, cuLibraryGetManaged);
    const auto library = WL_FIND(call, CUlibrary, library, args.library);
    CUdeviceptr address = 0;
    size_t bytes = 0;
    WL_CUDA(get(&address, &bytes, library, std::string(args.name).c_str()));
    call.session().memory().add_range(address, bytes, args.library);
    values.dptr = address;
    values.bytes = bytes;
    return CUDA_SUCCESS;
}

}  // namespace warpline::server
