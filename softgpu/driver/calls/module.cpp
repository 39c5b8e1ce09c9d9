// Modules, with their functions, variables and references.
#include "softgpu/driver/code/module.h"

#include "cuda/abi/newer_values.h"
#include "cuda/image/image.h"
#include "softgpu/driver/config/version.h"
#include "softgpu/driver/context/context.h"
#include "softgpu/driver/device/device.h"
#include "softgpu/driver/graph/capture.h"
#include "softgpu/driver/process/process.h"
#include "softgpu/driver/texture/texture.h"

namespace warpline::softgpu::driver {

namespace {

CUresult load(const std::shared_ptr<const Code>& code, JitOptions* jit, CUmodule* out) {
    Context* context = nullptr;
    CU_TRY(current_context(context));
    std::shared_ptr<Module> module;
    CU_TRY(Module::load(context->shared_from_this(), code, jit, module));
    *out = module->handle(module);
    context->own_module(reinterpret_cast<uint64_t>(*out), std::move(module));
    return CUDA_SUCCESS;
}

CUresult find_module(CUmodule handle, std::shared_ptr<Module>& module) {
    module = process().modules.find(handle);
    if (module == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    Context* context = nullptr;
    return current_context(context);
}

/// The address of the variable that stands for a reference of a module.
CUresult variable_of(CUmodule handle, const char* name, std::shared_ptr<Context>& context, uint64_t& variable) {
    if (name == nullptr) return CUDA_ERROR_INVALID_VALUE;
    auto module = process().modules.find(handle);
    if (module == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    context = module->context();
    for (const std::string& known : module->texrefs()) {
        if (known != name) continue;
        const exec::GlobalInfo* global = module->global(name);
        if (global == nullptr || global->address == 0) return CUDA_ERROR_NOT_SUPPORTED;
        variable = global->address;
        return CUDA_SUCCESS;
    }
    return CUDA_ERROR_NOT_FOUND;
}

CUresult check_may_load() {
    return driver_version() < cuda::abi::k_loads_in_captures_driver ? check_unsafe_call() : CUDA_SUCCESS;
}

}  // namespace

CUresult cuModuleLoad(CUmodule* module, const char* fname) {
    if (module == nullptr) return CUDA_ERROR_INVALID_VALUE;
    Context* context = nullptr;
    CU_TRY(current_context(context));
    CU_TRY(check_may_load());
    std::shared_ptr<const Code> code;
    CU_TRY(read_code_file(fname, code));
    return load(code, nullptr, module);
}

CUresult cuModuleLoadDataEx(CUmodule* module, const void* image, unsigned int numOptions, CUjit_option* options,
                            void** optionValues) {
    if (module == nullptr || image == nullptr) return CUDA_ERROR_INVALID_VALUE;
    Context* context = nullptr;
    CU_TRY(current_context(context));
    CU_TRY(check_may_load());
    JitOptions jit;
    CU_TRY(JitOptions::read(numOptions, options, optionValues, jit));
    std::shared_ptr<const Code> code;
    CU_TRY(read_code(image, code));
    return load(code, &jit, module);
}

CUresult cuModuleLoadData(CUmodule* module, const void* image) {
    return driver::cuModuleLoadDataEx(module, image, 0, nullptr, nullptr);
}
CUresult cuModuleLoadFatBinary(CUmodule* module, const void* fatCubin) {
    return driver::cuModuleLoadDataEx(module, fatCubin, 0, nullptr, nullptr);
}

CUresult cuModuleUnload(CUmodule hmod) {
    std::shared_ptr<Module> module;
    CU_TRY(find_module(hmod, module));
    CU_TRY(check_unsafe_call());
    auto context = module->context();
    // A module that belongs to a library ends with it.
    if (context->module_of(reinterpret_cast<uint64_t>(hmod)) != module) return CUDA_ERROR_NOT_PERMITTED;
    CUresult result = context->synchronise();
    module->forget();
    context->drop_module(reinterpret_cast<uint64_t>(hmod));
    return result;
}

CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode* mode) {
    if (mode == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *mode = loads_eagerly() ? CU_MODULE_EAGER_LOADING : CU_MODULE_LAZY_LOADING;
    return CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction* hfunc, CUmodule hmod, const char* name) {
    if (hfunc == nullptr || name == nullptr) return CUDA_ERROR_INVALID_VALUE;
    std::shared_ptr<Module> module;
    CU_TRY(find_module(hmod, module));
    auto function = module->function(name);
    if (function == nullptr) return CUDA_ERROR_NOT_FOUND;
    CU_TRY(function->ensure_ready());
    *hfunc = module->handle_of(module, name);
    return CUDA_SUCCESS;
}

CUresult cuModuleGetFunctionCount(unsigned int* count, CUmodule mod) {
    if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
    std::shared_ptr<Module> module;
    CU_TRY(find_module(mod, module));
    *count = static_cast<unsigned int>(module->function_names().size());
    return CUDA_SUCCESS;
}

CUresult cuModuleEnumerateFunctions(CUfunction* functions, unsigned int numFunctions, CUmodule mod) {
    if (functions == nullptr) return CUDA_ERROR_INVALID_VALUE;
    std::shared_ptr<Module> module;
    CU_TRY(find_module(mod, module));
    auto names = module->function_names();
    for (size_t i = 0; i < names.size() && i < numFunctions; ++i) functions[i] = module->handle_of(module, names[i]);
    return CUDA_SUCCESS;
}

CUresult cuModuleGetGlobal_v2(CUdeviceptr* dptr, size_t* bytes, CUmodule hmod, const char* name) {
    if (name == nullptr || (dptr == nullptr && bytes == nullptr)) return CUDA_ERROR_INVALID_VALUE;
    std::shared_ptr<Module> module;
    CU_TRY(find_module(hmod, module));
    const exec::GlobalInfo* global = module->global(name);
    // The name of a function is no variable's, and known all the same.
    if (global == nullptr) return module->function(name) != nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_NOT_FOUND;
    if (dptr != nullptr) *dptr = global->address;
    if (bytes != nullptr) *bytes = global->size_bytes;
    return CUDA_SUCCESS;
}

CUresult cuModuleGetTexRef(CUtexref* pTexRef, CUmodule hmod, const char* name) {
    if (pTexRef == nullptr) return CUDA_ERROR_INVALID_VALUE;
    std::shared_ptr<Context> context;
    uint64_t variable = 0;
    CU_TRY(variable_of(hmod, name, context, variable));
    *pTexRef = as_handle<CUtexref>(process().texrefs.add(std::make_shared<TextureReference>(context, variable)));
    return CUDA_SUCCESS;
}

CUresult cuModuleGetSurfRef(CUsurfref* pSurfRef, CUmodule hmod, const char* name) {
    if (pSurfRef == nullptr) return CUDA_ERROR_INVALID_VALUE;
    std::shared_ptr<Context> context;
    uint64_t variable = 0;
    CU_TRY(variable_of(hmod, name, context, variable));
    *pSurfRef = as_handle<CUsurfref>(process().surfrefs.add(std::make_shared<SurfaceReference>(context, variable)));
    return CUDA_SUCCESS;
}

}  // namespace warpline::softgpu::driver
