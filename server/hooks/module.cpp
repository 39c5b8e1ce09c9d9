// Variables, which become memory that the client may name.
#include "server/gen/library_calls.gen.h"
#include "server/gen/managed_calls.gen.h"
#include "server/gen/module_calls.gen.h"
#include "server/hooks/common.h"

namespace warpline::server {

namespace {

/// Variables of modules lie outside of the window: copies may name them from here on.
template <typename Get, typename Owner, typename Values>
CUresult find_variable(ServerCall& call, Get get, Owner owner, uint64_t owner_token, std::string_view name, Values& values) {
    CUdeviceptr address = 0;
    size_t bytes = 0;
    WL_CUDA(get(&address, &bytes, owner, std::string(name).c_str()));
    call.session().memory().add_range(address, bytes, owner_token);
    values.dptr = address;
    values.bytes = bytes;
    return CUDA_SUCCESS;
}

}  // namespace

CUresult hook_server_cuModuleGetGlobal_v2(ServerCall& call, const CuModuleGetGlobalV2Args& args,
                                          CuModuleGetGlobalV2Values& values) {
    const auto get = WL_DRIVER(call, cuModuleGetGlobal_v2);
    return find_variable(call, get, WL_FIND(call, CUmodule, module, args.hmod), args.hmod, args.name, values);
}

CUresult hook_server_cuLibraryGetGlobal(ServerCall& call, const CuLibraryGetGlobalArgs& args,
                                        CuLibraryGetGlobalValues& values) {
    const auto get = WL_DRIVER(call, cuLibraryGetGlobal);
    return find_variable(call, get, WL_FIND(call, CUlibrary, library, args.library), args.library, args.name, values);
}

CUresult hook_server_cuLibraryGetManaged(ServerCall& call, const CuLibraryGetManagedArgs& args,
                                         CuLibraryGetManagedValues& values) {
    const auto get = WL_DRIVER(call, cuLibraryGetManaged);
    return find_variable(call, get, WL_FIND(call, CUlibrary, library, args.library), args.library, args.name, values);
}

}  // namespace warpline::server
