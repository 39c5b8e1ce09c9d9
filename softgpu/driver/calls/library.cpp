// Libraries, which belong to no context, and their kernels.
#include <cstdlib>
#include <string_view>

#include "cuda/image/image.h"
#include "softgpu/driver/code/module.h"
#include "softgpu/driver/context/context.h"
#include "softgpu/driver/device/device.h"
#include "softgpu/driver/graph/capture.h"
#include "softgpu/driver/process/process.h"

namespace warpline::softgpu::driver {

namespace {

CUresult create(std::shared_ptr<const Code> code, JitOptions& jit, CUlibrary* out) {
    auto library = std::make_shared<Library>(std::move(code), jit);
    library->set_handle(process().libraries.add(library));
    // With a context, mistakes in the code are reported here. Without one, at the first use.
    Context* context = nullptr;
    if (current_context(context) == CUDA_SUCCESS) {
        std::shared_ptr<Module> module;
        if (CUresult result = library->module_in(*context, &jit, module); result != CUDA_SUCCESS) {
            process().libraries.remove(library->handle());
            return result;
        }
    }
    *out = as_handle<CUlibrary>(library->handle());
    return CUDA_SUCCESS;
}

CUresult check_library_options(CUlibraryOption* options, unsigned int count, bool from_file) {
    if (count != 0 && options == nullptr) return CUDA_ERROR_INVALID_VALUE;
    for (unsigned int i = 0; i < count; ++i) {
        if (options[i] < 0 || options[i] >= CU_LIBRARY_NUM_OPTIONS) return CUDA_ERROR_INVALID_VALUE;
        // cuda.h: "Specifying this option with cuLibraryLoadFromFile() is invalid and will return CUDA_ERROR_INVALID_VALUE."
        if (from_file && options[i] == CU_LIBRARY_BINARY_IS_PRESERVED) return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

CUresult find_library(CUlibrary handle, std::shared_ptr<Library>& library) {
    library = process().libraries.find(handle);
    return library != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult find_kernel(CUkernel handle, std::shared_ptr<Function>& kernel) {
    kernel = process().functions.find(handle);
    return kernel != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

/// A kernel in the current context, or in some: for what is the same on all devices.
CUresult resolve_anywhere(CUkernel handle, std::shared_ptr<LoadedFunction>& function) {
    std::shared_ptr<Function> kernel;
    CU_TRY(find_kernel(handle, kernel));
    Context* context = nullptr;
    if (current_context_even_failed(context) != CUDA_SUCCESS) context = process().device(0)->primary.get();
    return kernel->resolve(*context, function);
}

/// A kernel on a device: in the current context if it is of that device, else in the primary one.
CUresult resolve_on(CUkernel handle, CUdevice ordinal, std::shared_ptr<LoadedFunction>& function) {
    std::shared_ptr<Function> kernel;
    CU_TRY(find_kernel(handle, kernel));
    Device* device = nullptr;
    CU_TRY(find_device(ordinal, device));
    Context* context = nullptr;
    if (current_context_even_failed(context) != CUDA_SUCCESS || &context->device() != device) context = device->primary.get();
    return kernel->resolve(*context, function);
}

}  // namespace

CUresult cuLibraryLoadData(CUlibrary* library, const void* code, CUjit_option* jitOptions, void** jitOptionsValues,
                           unsigned int numJitOptions, CUlibraryOption* libraryOptions, void** libraryOptionValues,
                           unsigned int numLibraryOptions) {
    (void)libraryOptionValues;
    if (library == nullptr || code == nullptr) return CUDA_ERROR_INVALID_VALUE;
    JitOptions jit;
    CU_TRY(JitOptions::read(numJitOptions, jitOptions, jitOptionsValues, jit));
    CU_TRY(check_library_options(libraryOptions, numLibraryOptions, false));
    std::shared_ptr<const Code> read;
    CU_TRY(read_code(code, read));
    return create(std::move(read), jit, library);
}

CUresult cuLibraryLoadFromFile(CUlibrary* library, const char* fileName, CUjit_option* jitOptions, void** jitOptionsValues,
                               unsigned int numJitOptions, CUlibraryOption* libraryOptions, void** libraryOptionValues,
                               unsigned int numLibraryOptions) {
    (void)libraryOptionValues;
    if (library == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (numJitOptions != 0 && (jitOptions == nullptr || jitOptionsValues == nullptr)) return CUDA_ERROR_INVALID_VALUE;
    std::shared_ptr<const Code> read;
    CU_TRY(read_code_file(fileName, read));
    JitOptions jit;
    CU_TRY(JitOptions::read(numJitOptions, jitOptions, jitOptionsValues, jit));
    CU_TRY(check_library_options(libraryOptions, numLibraryOptions, true));
    return create(std::move(read), jit, library);
}

CUresult cuLibraryUnload(CUlibrary library) {
    std::shared_ptr<Library> found;
    CU_TRY(find_library(library, found));
    for (const auto& context : process().contexts.all()) {
        if (!context->active() || context->module_of(found->handle()) == nullptr) continue;
        for (const FencePtr& fence : Scheduler::instance().pending(*context->group())) fence->wait();
    }
    found->unload();
    process().libraries.remove(library);
    return CUDA_SUCCESS;
}

CUresult cuLibraryGetKernel(CUkernel* pKernel, CUlibrary library, const char* name) {
    if (pKernel == nullptr || name == nullptr) return CUDA_ERROR_INVALID_VALUE;
    std::shared_ptr<Library> found;
    CU_TRY(find_library(library, found));
    return found->kernel(name, pKernel);
}

CUresult cuLibraryGetKernelCount(unsigned int* count, CUlibrary lib) {
    if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
    std::shared_ptr<Library> found;
    CU_TRY(find_library(lib, found));
    std::vector<std::string> names;
    CU_TRY(found->kernel_names(names));
    *count = static_cast<unsigned int>(names.size());
    return CUDA_SUCCESS;
}

CUresult cuLibraryEnumerateKernels(CUkernel* kernels, unsigned int numKernels, CUlibrary lib) {
    if (kernels == nullptr) return CUDA_ERROR_INVALID_VALUE;
    std::shared_ptr<Library> found;
    CU_TRY(find_library(lib, found));
    std::vector<std::string> names;
    CU_TRY(found->kernel_names(names));
    for (size_t i = 0; i < names.size() && i < numKernels; ++i) CU_TRY(found->kernel(names[i], &kernels[i]));
    return CUDA_SUCCESS;
}

CUresult cuLibraryGetModule(CUmodule* pMod, CUlibrary library) {
    if (pMod == nullptr) return CUDA_ERROR_INVALID_VALUE;
    std::shared_ptr<Library> found;
    CU_TRY(find_library(library, found));
    Context* context = nullptr;
    CU_TRY(current_context(context));
    std::shared_ptr<Module> module;
    CU_TRY(found->module_in(*context, nullptr, module));
    *pMod = module->handle(module);
    return CUDA_SUCCESS;
}

CUresult cuKernelGetFunction(CUfunction* pFunc, CUkernel kernel) {
    if (pFunc == nullptr) return CUDA_ERROR_INVALID_VALUE;
    std::shared_ptr<Function> found;
    CU_TRY(find_kernel(kernel, found));
    Context* context = nullptr;
    CU_TRY(current_context(context));
    std::shared_ptr<LoadedFunction> function;
    CU_TRY(found->resolve(*context, function));
    std::shared_ptr<Module> module;
    CU_TRY(found->module(*context, module));
    *pFunc = module->handle_of(module, found->name());
    return CUDA_SUCCESS;
}

CUresult cuKernelGetLibrary(CUlibrary* pLib, CUkernel kernel) {
    if (pLib == nullptr) return CUDA_ERROR_INVALID_VALUE;
    std::shared_ptr<Function> found;
    CU_TRY(find_kernel(kernel, found));
    if (!found->is_kernel()) return CUDA_ERROR_INVALID_HANDLE;
    *pLib = as_handle<CUlibrary>(found->library()->handle());
    return CUDA_SUCCESS;
}

CUresult cuLibraryGetGlobal(CUdeviceptr* dptr, size_t* bytes, CUlibrary library, const char* name) {
    return find_variable(library, name, false, dptr, bytes);
}

CUresult cuKernelGetAttribute(int* pi, CUfunction_attribute attrib, CUkernel kernel, CUdevice dev) {
    if (pi == nullptr) return CUDA_ERROR_INVALID_VALUE;
    std::shared_ptr<LoadedFunction> function;
    CU_TRY(resolve_on(kernel, dev, function));
    return function->attribute(attrib, pi);
}

CUresult cuKernelSetAttribute(CUfunction_attribute attrib, int val, CUkernel kernel, CUdevice dev) {
    std::shared_ptr<LoadedFunction> function;
    CU_TRY(resolve_on(kernel, dev, function));
    CU_TRY(function->set_attribute(attrib, val));
    return process().functions.find(kernel)->set_on_device(attrib, val, *process().device(dev));
}

CUresult cuKernelSetCacheConfig(CUkernel kernel, CUfunc_cache config, CUdevice dev) {
    if (config < CU_FUNC_CACHE_PREFER_NONE || config > CU_FUNC_CACHE_PREFER_EQUAL) return CUDA_ERROR_INVALID_VALUE;
    std::shared_ptr<LoadedFunction> function;
    CU_TRY(resolve_on(kernel, dev, function));
    function->cache_config = config;
    return CUDA_SUCCESS;
}

CUresult cuKernelGetName(const char** name, CUkernel hfunc) {
    if (name == nullptr || hfunc == nullptr) return CUDA_ERROR_INVALID_VALUE;
    std::shared_ptr<Function> found;
    CU_TRY(find_kernel(hfunc, found));
    *name = found->name().c_str();
    return CUDA_SUCCESS;
}

CUresult cuKernelGetParamInfo(CUkernel kernel, size_t paramIndex, size_t* paramOffset, size_t* paramSize) {
    if (paramOffset == nullptr || kernel == nullptr) return CUDA_ERROR_INVALID_VALUE;
    std::shared_ptr<LoadedFunction> function;
    CU_TRY(resolve_anywhere(kernel, function));
    Context* context = nullptr;
    CU_TRY(current_context_even_failed(context));
    return function->param_info(paramIndex, paramOffset, paramSize);
}

CUresult cuKernelGetParamCount(CUkernel kernel, size_t* paramCount) {
    if (paramCount == nullptr) return CUDA_ERROR_INVALID_VALUE;
    std::shared_ptr<LoadedFunction> function;
    CU_TRY(resolve_anywhere(kernel, function));
    *paramCount = function->info().params.size();
    return CUDA_SUCCESS;
}

}  // namespace warpline::softgpu::driver
