// Libraries: images that belong to no context, and their kernels.
#include "client/code/functions.h"
#include "client/code/images.h"
#include "client/gen/library_calls.gen.h"

namespace warpline::client {

namespace {

/// The values may be missing: there are options without one.
CUresult check_options(const CUlibraryOption* options, unsigned count, bool from_file) {
    if (count != 0 && !options) return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < count; ++i) {
        if (options[i] < 0 || options[i] >= CU_LIBRARY_NUM_OPTIONS) return CUDA_ERROR_INVALID_VALUE;
        // cuda.h: "Specifying this option with cuLibraryLoadFromFile() is invalid and will return CUDA_ERROR_INVALID_VALUE."
        if (from_file && options[i] == CU_LIBRARY_BINARY_IS_PRESERVED) return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

const Function* find_function(const Call& call, CUkernel kernel) { return call.state.functions.find(to_token(kernel)); }

}  // namespace

CUresult hook_client_cuLibraryLoadData(Call& call, CUlibrary* library, const void* code, CUjit_option* jitOptions,
                                       void** jitOptionsValues, unsigned int numJitOptions, CUlibraryOption* libraryOptions,
                                       void**, unsigned int numLibraryOptions) {
    if (CUresult refused = check_options(libraryOptions, numLibraryOptions, false); refused != CUDA_SUCCESS) return refused;
    // The library's options say who keeps the bytes; we always keep a copy of our own.
    return load_code<HandleKind::library>(call, {code, numJitOptions, jitOptions, jitOptionsValues}, library);
}

CUresult hook_client_cuLibraryLoadFromFile(Call& call, CUlibrary* library, const char* fileName, CUjit_option* jitOptions,
                                           void** jitOptionsValues, unsigned int numJitOptions, CUlibraryOption* libraryOptions,
                                           void**, unsigned int numLibraryOptions) {
    if (numJitOptions != 0 && (!jitOptions || !jitOptionsValues)) return CUDA_ERROR_INVALID_VALUE;
    Bytes bytes;
    if (CUresult result = read_file(fileName, bytes); result != CUDA_SUCCESS) return result;
    if (CUresult refused = check_options(libraryOptions, numLibraryOptions, true); refused != CUDA_SUCCESS) return refused;
    return load_code<HandleKind::library>(call, {bytes.data(), numJitOptions, jitOptions, jitOptionsValues}, library);
}

CUresult hook_client_cuLibraryUnload(Call& call, CUlibrary library) {
    uint64_t token = to_token(library);
    Library* found = call.state.libraries.find(token);
    if (!found) return CUDA_ERROR_INVALID_HANDLE;
    const bool known = forget_code(call, *found->code);
    {
        MutexLock lock(found->mutex);
        for (const auto& [context, module] : found->modules) call.state.modules.remove(module);
        found->modules.clear();
    }
    CUresult result = known ? gen::issue_cuLibraryUnload(call, token) : CUDA_SUCCESS;
    call.state.libraries.remove(token);
    return result;
}

CUresult hook_client_cuLibraryGetKernel(Call& call, CUkernel* pKernel, CUlibrary library, const char* name) {
    const Library* found = call.state.libraries.find(to_token(library));
    if (!found) return CUDA_ERROR_INVALID_HANDLE;
    return get_function(call, *found->code, to_token(library), name, pKernel);
}

CUresult hook_client_cuLibraryGetModule(Call& call, CUmodule* pMod, CUlibrary library) {
    return module_of_library(call, library, pMod);
}

CUresult hook_client_cuLibraryGetGlobal(Call& call, CUdeviceptr* dptr, size_t* bytes, CUlibrary library, const char* name) {
    const Library* found = call.state.libraries.find(to_token(library));
    if (!found) return CUDA_ERROR_INVALID_HANDLE;
    return get_variable(call, *found->code, to_token(library), name, dptr, bytes);
}

CUresult hook_client_cuLibraryGetKernelCount(Call& call, unsigned int* count, CUlibrary lib) {
    const Library* found = call.state.libraries.find(to_token(lib));
    if (!found) return CUDA_ERROR_INVALID_HANDLE;
    *count = static_cast<unsigned>(found->code->info.kernels.size());
    return CUDA_SUCCESS;
}

CUresult hook_client_cuLibraryEnumerateKernels(Call& call, CUkernel* kernels, unsigned int numKernels, CUlibrary lib) {
    const Library* found = call.state.libraries.find(to_token(lib));
    if (!found) return CUDA_ERROR_INVALID_HANDLE;
    return list_functions(call, *found->code, to_token(lib), std::span(kernels, numKernels));
}

CUresult hook_client_cuKernelGetFunction(Call& call, CUfunction* pFunc, CUkernel kernel) {
    if (!find_function(call, kernel)) return CUDA_ERROR_INVALID_HANDLE;
    // One namespace: a kernel's token is its function's in every context.
    *pFunc = reinterpret_cast<CUfunction>(kernel);
    return CUDA_SUCCESS;
}

CUresult hook_client_cuKernelGetLibrary(Call& call, CUlibrary* pLib, CUkernel kernel) {
    const Function* function = find_function(call, kernel);
    if (!function) return CUDA_ERROR_INVALID_HANDLE;
    *pLib = to_handle<CUlibrary>(function->code->owner);
    return CUDA_SUCCESS;
}

CUresult hook_client_cuKernelGetName(Call& call, const char** name, CUkernel hfunc) {
    if (!hfunc) return CUDA_ERROR_INVALID_VALUE;
    const Function* function = find_function(call, hfunc);
    if (!function) return CUDA_ERROR_INVALID_HANDLE;
    *name = function->kernel->name.c_str();
    return CUDA_SUCCESS;
}

CUresult hook_client_cuKernelGetParamInfo(Call& call, CUkernel kernel, size_t paramIndex, size_t* paramOffset,
                                          size_t* paramSize) {
    const Function* function = find_function(call, kernel);
    if (!function) return CUDA_ERROR_INVALID_HANDLE;
    if (call.context == 0) return CUDA_ERROR_INVALID_CONTEXT;
    if (paramIndex >= function->kernel->params.size()) return CUDA_ERROR_INVALID_VALUE;
    const auto& param = function->kernel->params[paramIndex];
    *paramOffset = param.offset_bytes;
    if (paramSize) *paramSize = param.size_bytes;
    return CUDA_SUCCESS;
}

CUresult hook_client_cuKernelGetParamCount(Call& call, CUkernel kernel, size_t* paramCount) {
    const Function* function = find_function(call, kernel);
    if (!function) return CUDA_ERROR_INVALID_HANDLE;
    *paramCount = function->kernel->params.size();
    return CUDA_SUCCESS;
}

CUresult hook_client_cuKernelGetAttribute(Call& call, int* pi, CUfunction_attribute attrib, CUkernel kernel, CUdevice dev) {
    const Device* device = find_device(dev);
    if (!device) return CUDA_ERROR_INVALID_DEVICE;
    // The server asks in a context: that of the device, if another one is current.
    if (!call.current() || call.device() != dev) call.context = device->primary_context;
    if (CUresult failed = failure_of(call); failed != CUDA_SUCCESS) return failed;
    return function_attribute(call, to_token(kernel), attrib, *pi);
}

CUresult hook_client_cuKernelSetAttribute(Call& call, CUfunction_attribute attrib, int val, CUkernel kernel, CUdevice dev) {
    if (!find_device(dev)) return CUDA_ERROR_INVALID_DEVICE;
    if (CUresult failed = failure_of(call); failed != CUDA_SUCCESS) return failed;
    Function* function = call.state.functions.find(to_token(kernel));
    if (!function) return CUDA_ERROR_INVALID_HANDLE;
    if (CUresult refused = check_settable(*function, find_device(dev), attrib, val); refused != CUDA_SUCCESS) return refused;
    if (CUresult result = ensure_announced(call, to_token(kernel), *function); result != CUDA_SUCCESS) return result;
    return set_up_function(call, *function, *find_device(dev), attrib, val, [&] {
        const auto set = driver_judges(attrib) ? gen::request_cuKernelSetAttribute : gen::issue_cuKernelSetAttribute;
        return set(call, static_cast<uint32_t>(attrib), val, to_token(kernel), dev);
    });
}

CUresult hook_client_cuKernelSetCacheConfig(Call& call, CUkernel kernel, CUfunc_cache config, CUdevice dev) {
    if (!find_device(dev)) return CUDA_ERROR_INVALID_DEVICE;
    Function* function = call.state.functions.find(to_token(kernel));
    if (!function) return CUDA_ERROR_INVALID_HANDLE;
    if (CUresult result = ensure_announced(call, to_token(kernel), *function); result != CUDA_SUCCESS) return result;
    return set_up_function(call, *function, *find_device(dev), FunctionSetup::k_cache_config, config, [&] {
        return gen::issue_cuKernelSetCacheConfig(call, to_token(kernel), static_cast<uint32_t>(config), dev);
    });
}

}  // namespace warpline::client
