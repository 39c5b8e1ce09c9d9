// Modules.
#include <cstdlib>
#include <string_view>

#include "client/abi/process.h"
#include "client/call/shim.h"
#include "client/code/images.h"
#include "client/gen/module_calls.gen.h"
#include "client/session/environment.h"
#include "cuda/abi/newer_values.h"

namespace warpline::client {

namespace {

/// A texture or surface reference of a module. `ask(token)` asks the server for it.
template <HandleKind kind, typename Handle, typename Ask>
CUresult get_reference(Call& call, CUmodule handle, Handle* reference, Ask ask) {
    const Module* module = call.state.modules.find(to_token(handle));
    if (!module) return CUDA_ERROR_INVALID_HANDLE;
    if (CUresult result = ensure_uploaded(call, *module->code); result != CUDA_SUCCESS) return result;
    auto made = make_object<kind>(call);
    if (!made) return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = ask(made.token);
    if (result == CUDA_SUCCESS) {
        *reference = to_handle<Handle>(made.token);
    } else {
        call.state.table<kind>().remove(made.token);
    }
    return result;
}

CUresult load(Call& call, const LoadRequest& request, CUmodule* module) {
    if (Process::instance().driver_version() < cuda::abi::k_loads_in_captures_driver) {
        if (CUresult refused = check_unsafe_call(call); refused != CUDA_SUCCESS) return refused;
    }
    return load_code<HandleKind::module>(call, request, module);
}

}  // namespace

CUresult hook_client_cuModuleLoad(Call& call, CUmodule* module, const char* fname) {
    Bytes bytes;
    if (CUresult result = read_file(fname, bytes); result != CUDA_SUCCESS) return result;
    return load(call, {bytes.data()}, module);
}

CUresult hook_client_cuModuleLoadData(Call& call, CUmodule* module, const void* image) { return load(call, {image}, module); }

CUresult hook_client_cuModuleLoadDataEx(Call& call, CUmodule* module, const void* image, unsigned int numOptions,
                                        CUjit_option* options, void** optionValues) {
    return load(call, {image, numOptions, options, optionValues}, module);
}

CUresult hook_client_cuModuleLoadFatBinary(Call& call, CUmodule* module, const void* fatCubin) {
    return load(call, {fatCubin}, module);
}

CUresult hook_client_cuModuleUnload(Call& call, CUmodule hmod) {
    Module* module = call.state.modules.find(to_token(hmod));
    if (!module) return CUDA_ERROR_INVALID_HANDLE;
    if (module->library != 0) return CUDA_ERROR_NOT_PERMITTED;  // it ends with its library
    const bool known = forget_code(call, *module->code);
    call.context = module->context;
    CUresult result = known ? gen::issue_cuModuleUnload(call, to_token(hmod)) : CUDA_SUCCESS;
    call.state.modules.remove(to_token(hmod));
    return result;
}

CUresult hook_client_cuModuleGetFunction(Call& call, CUfunction* hfunc, CUmodule hmod, const char* name) {
    const Module* module = call.state.modules.find(to_token(hmod));
    if (!module) return CUDA_ERROR_INVALID_HANDLE;
    CUfunction found = nullptr;
    if (CUresult result = get_function(call, *module->code, to_token(hmod), name, &found); result != CUDA_SUCCESS)
        return result;
    // A driver loads its code now: it may not be able to any more when a kernel runs that waits for what this one does.
    Function* const function = call.state.functions.find(to_token(found));
    if (CUresult result = ensure_announced(call, to_token(found), *function); result != CUDA_SUCCESS) return result;
    *hfunc = found;
    return CUDA_SUCCESS;
}

CUresult hook_client_cuModuleGetGlobal_v2(Call& call, CUdeviceptr* dptr, size_t* bytes, CUmodule hmod, const char* name) {
    const Module* module = call.state.modules.find(to_token(hmod));
    if (!module) return CUDA_ERROR_INVALID_HANDLE;
    return get_variable(call, *module->code, to_token(hmod), name, dptr, bytes);
}

CUresult hook_client_cuModuleGetTexRef(Call& call, CUtexref* pTexRef, CUmodule hmod, const char* name) {
    return get_reference<HandleKind::tex_ref>(
        call, hmod, pTexRef, [&](uint64_t token) { return gen::request_cuModuleGetTexRef(call, token, to_token(hmod), name); });
}

CUresult hook_client_cuModuleGetSurfRef(Call& call, CUsurfref* pSurfRef, CUmodule hmod, const char* name) {
    return get_reference<HandleKind::surf_ref>(call, hmod, pSurfRef, [&](uint64_t token) {
        return gen::request_cuModuleGetSurfRef(call, token, to_token(hmod), name);
    });
}

CUresult hook_client_cuModuleGetFunctionCount(Call& call, unsigned int* count, CUmodule mod) {
    const Module* module = call.state.modules.find(to_token(mod));
    if (!module) return CUDA_ERROR_INVALID_HANDLE;
    *count = static_cast<unsigned>(module->code->info.kernels.size());
    return CUDA_SUCCESS;
}

CUresult hook_client_cuModuleEnumerateFunctions(Call& call, CUfunction* functions, unsigned int numFunctions, CUmodule mod) {
    const Module* module = call.state.modules.find(to_token(mod));
    if (!module) return CUDA_ERROR_INVALID_HANDLE;
    return list_functions(call, *module->code, to_token(mod), std::span(functions, numFunctions));
}

CUresult hook_client_cuModuleGetLoadingMode(CUmoduleLoadingMode* mode) {
    if (!mode) return CUDA_ERROR_INVALID_VALUE;
    *mode = loads_eagerly() ? CU_MODULE_EAGER_LOADING : CU_MODULE_LAZY_LOADING;
    return CUDA_SUCCESS;
}

}  // namespace warpline::client
