// Modules.
#include <cstdlib>
#include <string_view>

#include "client/code/images.h"
#include "client/gen/module_calls.gen.h"
#include "client/session/environment.h"

namespace warpline::client {

namespace {

CUresult load_module(Call& call, CUmodule* module, const void* bytes, unsigned option_count, CUjit_option* options,
                     void** values) {
    std::shared_ptr<CodeImage> code;
    if (CUresult result = make_code(bytes, call.device(), code); result != CUDA_SUCCESS) return result;
    auto made = make_object<HandleKind::module>(call);
    if (!made) return CUDA_ERROR_OUT_OF_MEMORY;
    code->owner = made.token;
    code->context = call.context;
    made.object->code = code;
    CUresult result = CUDA_SUCCESS;
    // Who passes options wants them obeyed, and their answers.
    if (code->ask_driver || option_count != 0 || loads_eagerly())
        result = compile_now(call, *code, option_count, options, values);
    if (result != CUDA_SUCCESS) {
        call.state.modules.remove(made.token);
        return result;
    }
    *module = to_handle<CUmodule>(made.token);
    return CUDA_SUCCESS;
}

}  // namespace

CUresult hook_client_cuModuleLoad(Call& call, CUmodule* module, const char* fname) {
    Bytes bytes;
    if (CUresult result = read_file(fname, bytes); result != CUDA_SUCCESS) return result;
    return load_module(call, module, bytes.data(), 0, nullptr, nullptr);
}

CUresult hook_client_cuModuleLoadData(Call& call, CUmodule* module, const void* image) {
    return load_module(call, module, image, 0, nullptr, nullptr);
}

CUresult hook_client_cuModuleLoadDataEx(Call& call, CUmodule* module, const void* image, unsigned int numOptions,
                                        CUjit_option* options, void** optionValues) {
    return load_module(call, module, image, numOptions, options, optionValues);
}

CUresult hook_client_cuModuleLoadFatBinary(Call& call, CUmodule* module, const void* fatCubin) {
    return load_module(call, module, fatCubin, 0, nullptr, nullptr);
}

CUresult hook_client_cuModuleUnload(Call& call, CUmodule hmod) {
    Module* module = call.state.modules.find(to_token(hmod));
    if (!module) return CUDA_ERROR_INVALID_HANDLE;
    if (module->library != 0) return CUDA_ERROR_NOT_PERMITTED;  // it ends with its library
    std::shared_ptr<CodeImage> code = module->code;
    bool uploaded = false;
    {
        MutexLock lock(code->mutex);
        uploaded = code->uploaded;
    }
    forget_code(call, *code);
    call.context = module->context;
    CUresult result = uploaded ? gen::issue_cuModuleUnload(call, to_token(hmod)) : CUDA_SUCCESS;
    call.state.modules.remove(to_token(hmod));
    return result;
}

CUresult hook_client_cuModuleGetFunction(Call& call, CUfunction* hfunc, CUmodule hmod, const char* name) {
    const Module* module = call.state.modules.find(to_token(hmod));
    if (!module) return CUDA_ERROR_INVALID_HANDLE;
    uint64_t token = 0;
    CUresult result = function_of(call, *module->code, to_token(hmod), name, token);
    if (result == CUDA_SUCCESS) *hfunc = to_handle<CUfunction>(token);
    return result;
}

CUresult hook_client_cuModuleGetGlobal_v2(Call& call, CUdeviceptr* dptr, size_t* bytes, CUmodule hmod, const char* name) {
    const Module* module = call.state.modules.find(to_token(hmod));
    if (!module) return CUDA_ERROR_INVALID_HANDLE;
    CodeImage::Variable variable;
    CUresult result = variable_of(call, *module->code, to_token(hmod), name, variable);
    if (result != CUDA_SUCCESS) return result;
    if (dptr) *dptr = variable.address;
    if (bytes) *bytes = variable.size_bytes;
    return CUDA_SUCCESS;
}

CUresult hook_client_cuModuleGetTexRef(Call& call, CUtexref* pTexRef, CUmodule hmod, const char* name) {
    const Module* module = call.state.modules.find(to_token(hmod));
    if (!module) return CUDA_ERROR_INVALID_HANDLE;
    if (CUresult result = ensure_uploaded(call, *module->code); result != CUDA_SUCCESS) return result;
    auto made = make_object<HandleKind::tex_ref>(call);
    if (!made) return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = gen::request_cuModuleGetTexRef(call, made.token, to_token(hmod), name);
    if (result == CUDA_SUCCESS) {
        *pTexRef = to_handle<CUtexref>(made.token);
    } else {
        call.state.tex_refs.remove(made.token);
    }
    return result;
}

CUresult hook_client_cuModuleGetSurfRef(Call& call, CUsurfref* pSurfRef, CUmodule hmod, const char* name) {
    const Module* module = call.state.modules.find(to_token(hmod));
    if (!module) return CUDA_ERROR_INVALID_HANDLE;
    if (CUresult result = ensure_uploaded(call, *module->code); result != CUDA_SUCCESS) return result;
    auto made = make_object<HandleKind::surf_ref>(call);
    if (!made) return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = gen::request_cuModuleGetSurfRef(call, made.token, to_token(hmod), name);
    if (result == CUDA_SUCCESS) {
        *pSurfRef = to_handle<CUsurfref>(made.token);
    } else {
        call.state.surf_refs.remove(made.token);
    }
    return result;
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
