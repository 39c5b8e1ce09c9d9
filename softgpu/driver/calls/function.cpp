#include "softgpu/driver/code/module.h"
#include "softgpu/driver/context/context.h"
#include "softgpu/driver/process/process.h"

namespace warpline::softgpu::driver {

CUresult cuFuncGetAttribute(int* pi, CUfunction_attribute attrib, CUfunction hfunc) {
    if (pi == nullptr) return CUDA_ERROR_INVALID_VALUE;
    Context* context = nullptr;
    std::shared_ptr<LoadedFunction> function;
    CU_TRY(find_function(hfunc, function, context));
    return function->attribute(attrib, pi);
}

CUresult cuFuncSetAttribute(CUfunction hfunc, CUfunction_attribute attrib, int value) {
    Context* context = nullptr;
    std::shared_ptr<LoadedFunction> function;
    CU_TRY(find_function(hfunc, function, context));
    return function->set_attribute(attrib, value);
}

CUresult cuFuncSetCacheConfig(CUfunction hfunc, CUfunc_cache config) {
    if (config < CU_FUNC_CACHE_PREFER_NONE || config > CU_FUNC_CACHE_PREFER_EQUAL) return CUDA_ERROR_INVALID_VALUE;
    Context* context = nullptr;
    std::shared_ptr<LoadedFunction> function;
    CU_TRY(find_function(hfunc, function, context));
    function->cache_config = config;
    return CUDA_SUCCESS;
}

CUresult cuFuncSetSharedMemConfig(CUfunction hfunc, CUsharedconfig config) {
    if (config < CU_SHARED_MEM_CONFIG_DEFAULT_BANK_SIZE || config > CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    Context* context = nullptr;
    std::shared_ptr<LoadedFunction> function;
    return find_function(hfunc, function, context);
}

CUresult cuFuncGetModule(CUmodule* hmod, CUfunction hfunc) {
    if (hmod == nullptr) return CUDA_ERROR_INVALID_VALUE;
    Context* context = nullptr;
    CU_TRY(current_context(context));
    auto function = process().functions.find(hfunc);
    if (function == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    std::shared_ptr<Module> module;
    CU_TRY(function->module(*context, module));
    *hmod = module->handle(module);
    return CUDA_SUCCESS;
}

CUresult cuFuncGetName(const char** name, CUfunction hfunc) {
    if (name == nullptr || hfunc == nullptr) return CUDA_ERROR_INVALID_VALUE;
    auto function = process().functions.find(hfunc);
    if (function == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    *name = function->name().c_str();
    return CUDA_SUCCESS;
}

CUresult cuFuncGetParamInfo(CUfunction func, size_t paramIndex, size_t* paramOffset, size_t* paramSize) {
    if (paramOffset == nullptr) return CUDA_ERROR_INVALID_VALUE;
    Context* context = nullptr;
    std::shared_ptr<LoadedFunction> function;
    CU_TRY(find_function(func, function, context));
    return function->param_info(paramIndex, paramOffset, paramSize);
}

CUresult cuFuncIsLoaded(CUfunctionLoadingState* state, CUfunction function) {
    if (state == nullptr) return CUDA_ERROR_INVALID_VALUE;
    Context* context = nullptr;
    std::shared_ptr<LoadedFunction> found;
    CU_TRY(find_function(function, found, context));
    *state = found->loaded() ? CU_FUNCTION_LOADING_STATE_LOADED : CU_FUNCTION_LOADING_STATE_UNLOADED;
    return CUDA_SUCCESS;
}

CUresult cuFuncLoad(CUfunction function) {
    Context* context = nullptr;
    std::shared_ptr<LoadedFunction> found;
    CU_TRY(find_function(function, found, context));
    return found->ensure_ready();
}

}  // namespace warpline::softgpu::driver
