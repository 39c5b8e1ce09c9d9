// Modules, libraries and functions, each with its way from handle to kernel.
#include "softgpu/driver/code/module.h"

#include <chrono>

#include "common/log/log.h"
#include "cuda/image/image_info.h"
#include "cuda/image/ptx_version.h"
#include "softgpu/driver/code/dry_module.h"
#include "softgpu/driver/config/version.h"
#include "softgpu/driver/context/context.h"
#include "softgpu/driver/process/process.h"

namespace warpline::softgpu::driver {

namespace {

/// Makes a module's own variables known to copies and pointer queries.
void publish_globals(const exec::Module& code, const Context& context) {
    for (const exec::GlobalInfo& global : code.globals()) {
        if (global.address == 0 || global.size_bytes == 0 || global.managed) continue;
        auto allocation = std::make_shared<Allocation>();
        allocation->address = global.address;
        allocation->size_bytes = global.size_bytes;
        allocation->kind = MemoryKind::module;
        allocation->flags = CU_MEM_ATTACH_GLOBAL;
        allocation->device = context.device().ordinal();
        process().addresses.insert(allocation);
    }
}

/// PTX that a driver of this version could not compile is refused, unless it would not have to: then machine code is executed
/// on a GPU.
exec::ModuleError too_new(const Code& code) {
    const uint32_t newest = cuda::image::newest_ptx_version(driver_version());
    for (const std::string& text : code.ptx) {
        const uint32_t version = cuda::image::ptx_version(text);
        if (code.machine_code != 0 || version <= newest) continue;
        return {
            CUDA_ERROR_UNSUPPORTED_PTX_VERSION,
            log::format("PTX {}.{} is newer than the driver, which is of CUDA {}.{} and takes PTX up to {}.{}", version / 10,
                        version % 10, driver_version() / 1000, driver_version() % 1000 / 10, newest / 10, newest % 10)};
    }
    return {};
}

/// Kernels of libraries are decoded when they are first used. Text is compiled at once, so that who loads it is told of
/// mistakes; what is right and not supported is told of by its first use.
CUresult compile(exec::Module& module, JitOptions* jit) {
    for (const std::string& name : module.function_names()) {
        const exec::ModuleError error = module.function(name)->ensure_ready();
        if (error.cu_result != CUDA_ERROR_INVALID_PTX) continue;
        if (jit != nullptr) jit->write_error_log(error.log);
        WL_LOG(error, "softgpu", "module refused: {}", error.log);
        return CUDA_ERROR_INVALID_PTX;
    }
    return CUDA_SUCCESS;
}

/// Where a module's managed variables are, of which it may be the first to come.
class PlacesOnDevice final : public exec::ManagedPlaces {
public:
    PlacesOnDevice(Device& device, std::shared_ptr<ManagedVariables> variables)
        : m_device(device), m_variables(std::move(variables)) {}
    bool place(std::span<exec::ManagedVariable> wanted) override { return m_variables->place(m_device, wanted); }

private:
    Device& m_device;
    const std::shared_ptr<ManagedVariables> m_variables;
};

}  // namespace

Module::Module(std::shared_ptr<Context> context, std::shared_ptr<exec::Module> code,
               std::shared_ptr<const cuda::image::ImageInfo> compiled, LoadedFunction::Compiled of_all)
    : m_context(std::move(context)), m_code(std::move(code)), m_compiled(std::move(compiled)), m_of_all(of_all) {
    publish_globals(*m_code, *m_context);
}

Module::~Module() {
    for (const exec::GlobalInfo& global : m_code->globals()) {
        if (!global.managed) process().addresses.remove(global.address);
    }
}

CUresult Module::load(const std::shared_ptr<Context>& context, std::shared_ptr<const Code> code, JitOptions* jit,
                      std::shared_ptr<Module>& module, std::shared_ptr<ManagedVariables> managed) {
    // Told whether it can be compiled or not.
    const auto timed = [begin = std::chrono::steady_clock::now(), jit](CUresult result) {
        const std::chrono::duration<float, std::milli> taken = std::chrono::steady_clock::now() - begin;
        if (jit != nullptr) jit->write_wall_time(taken.count());
        return result;
    };
    const Loading loading(*context);
    exec::Engine& engine = context->device().engine();
    if (managed == nullptr) managed = std::make_shared<ManagedVariables>();
    auto places = std::make_shared<PlacesOnDevice>(context->device(), std::move(managed));
    std::shared_ptr<exec::Module> loaded;
    if (code->cubin != nullptr) {
        loaded = make_dry_module(engine.memory(), *code->cubin, std::move(places));
        if (loaded == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
    } else {
        std::vector<std::string_view> texts(code->ptx.begin(), code->ptx.end());
        exec::ModuleError error = too_new(*code);
        if (error.cu_result == CUDA_SUCCESS) loaded = engine.load(texts, error, std::move(places));
        if (loaded == nullptr) {
            if (jit != nullptr) jit->write_error_log(error.log);
            WL_LOG(error, "softgpu", "module refused: {}", error.log);
            return timed(error.cu_result != 0 ? static_cast<CUresult>(error.cu_result) : CUDA_ERROR_INVALID_PTX);
        }
    }
    if (code->is_text) {
        if (CUresult result = compile(*loaded, jit); result != CUDA_SUCCESS) return timed(result);
    }
    timed(CUDA_SUCCESS);
    context->device().flush_printf();
    // What a GPU's driver compiles is machine code for the device.
    LoadedFunction::Compiled of_all;
    of_all.binary_version = code->machine_code != 0 ? code->machine_code : process().config().compute_capability;
    constexpr int k_counts_in_pieces = 9;
    const int major = context->device().attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
    of_all.shared_in_pieces = code->machine_code == 0 && code->is_older_ptx && major >= k_counts_in_pieces;
    if (jit != nullptr && code->machine_code == 0) of_all.max_threads = jit->overriding_max_threads();
    module.reset(new Module(context, std::move(loaded), code->compiled, of_all));
    return CUDA_SUCCESS;
}

std::shared_ptr<LoadedFunction> Module::function(std::string_view name) {
    MutexLock lock(m_mutex);
    auto found = m_functions.find(name);
    if (found != m_functions.end()) return found->second;
    auto code = m_code->function(name);
    if (code == nullptr) return nullptr;
    LoadedFunction::Compiled compiled = m_of_all;
    const cuda::image::Kernel* kernel = m_compiled != nullptr ? m_compiled->find_kernel(name) : nullptr;
    if (kernel != nullptr) compiled.registers = kernel->registers;
    auto function = std::make_shared<LoadedFunction>(m_context, m_code, std::move(code), compiled);
    m_functions.emplace(std::string(name), function);
    return function;
}

CUfunction Module::handle_of(const std::shared_ptr<Module>& self, const std::string& name) {
    MutexLock lock(m_mutex);
    uint64_t& handle = m_handles[name];
    if (handle == 0) handle = process().functions.add(std::make_shared<Function>(self, name));
    return as_handle<CUfunction>(handle);
}

CUmodule Module::handle(const std::shared_ptr<Module>& self) {
    MutexLock lock(m_mutex);
    if (m_handle == 0) m_handle = process().modules.add(self);
    return as_handle<CUmodule>(m_handle);
}

void Module::forget() {
    MutexLock lock(m_mutex);
    if (m_handle != 0) process().modules.remove(m_handle);
    for (const auto& [name, handle] : m_handles) process().functions.remove(handle);
    m_handles.clear();
    m_handle = 0;
}

CUresult Library::module_in(Context& context, JitOptions* jit, std::shared_ptr<Module>& module) {
    module = context.module_of(m_handle);
    if (module != nullptr) return CUDA_SUCCESS;
    MutexLock lock(m_load_mutex);
    module = context.module_of(m_handle);
    if (module != nullptr) return CUDA_SUCCESS;
    JitOptions later = m_jit;
    CU_TRY(Module::load(context.shared_from_this(), m_code, jit != nullptr ? jit : &later, module, m_managed));
    module->set_library(shared_from_this());
    context.own_module(m_handle, module);
    return CUDA_SUCCESS;
}

CUresult Library::any_module(std::shared_ptr<Module>& module) {
    Context* current = nullptr;
    if (current_context_even_failed(current) == CUDA_SUCCESS) return module_in(*current, nullptr, module);
    for (const auto& context : process().contexts.all()) {
        module = context->module_of(m_handle);
        if (module != nullptr) return CUDA_SUCCESS;
    }
    return module_in(*process().device(0)->primary, nullptr, module);
}

CUresult Library::kernel_names(std::vector<std::string>& names) {
    std::shared_ptr<Module> module;
    CU_TRY(any_module(module));
    names = module->function_names();
    return CUDA_SUCCESS;
}

CUresult Library::kernel(const std::string& name, CUkernel* handle) {
    std::shared_ptr<Module> module;
    CU_TRY(any_module(module));
    auto function = module->function(name);
    if (function == nullptr) return CUDA_ERROR_NOT_FOUND;
    MutexLock lock(m_mutex);
    uint64_t& value = m_kernels[name];
    if (value == 0) value = process().functions.add(std::make_shared<Function>(shared_from_this(), name));
    *handle = as_handle<CUkernel>(value);
    return CUDA_SUCCESS;
}

std::vector<uint64_t> Library::kernel_handles() const {
    std::vector<uint64_t> handles;
    MutexLock lock(m_mutex);
    for (const auto& [name, handle] : m_kernels) handles.push_back(handle);
    return handles;
}

void Library::unload() {
    for (uint64_t handle : kernel_handles()) process().functions.remove(handle);
    for (const auto& context : process().contexts.all()) {
        if (auto module = context->module_of(m_handle)) {
            if (context->active()) context->device().flush_printf();
            module->forget();
            context->drop_module(m_handle);
        }
    }
}

CUresult Function::module(Context& context, std::shared_ptr<Module>& module) const {
    if (m_library != nullptr) return m_library->module_in(context, nullptr, module);
    module = m_module;
    return module->context()->active() ? CUDA_SUCCESS : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

void Function::names_in(Context& context, CUfunction& function, CUkernel& kernel) const {
    std::shared_ptr<Module> in_context;
    if (module(context, in_context) != CUDA_SUCCESS) return;
    function = in_context->handle_of(in_context, m_name);
    if (const auto library = m_library != nullptr ? m_library : in_context->library()) library->kernel(m_name, &kernel);
}

CUresult Function::resolve(Context& context, std::shared_ptr<LoadedFunction>& function) {
    {
        MutexLock lock(m_mutex);
        auto found = m_resolved.find(context.id());
        if (found != m_resolved.end() && (function = found->second.lock()) != nullptr) return CUDA_SUCCESS;
    }
    std::shared_ptr<Module> in;
    CU_TRY(module(context, in));
    function = in->function(m_name);
    if (function == nullptr) return CUDA_ERROR_NOT_FOUND;
    MutexLock lock(m_mutex);
    m_resolved[context.id()] = function;
    for (auto [attribute, value] : m_set[context.device().ordinal()]) {
        (void)function->set_attribute(static_cast<CUfunction_attribute>(attribute), value);
    }
    return CUDA_SUCCESS;
}

CUresult Function::set_on_device(CUfunction_attribute attribute, int value, Device& device) {
    for (const auto& context : process().contexts.all()) {
        if (&context->device() != &device || !context->active()) continue;
        if (m_library != nullptr && context->module_of(m_library->handle()) == nullptr) continue;
        std::shared_ptr<LoadedFunction> function;
        CU_TRY(resolve(*context, function));
        CU_TRY(function->set_attribute(attribute, value));
    }
    MutexLock lock(m_mutex);
    m_set[device.ordinal()][attribute] = value;
    return CUDA_SUCCESS;
}

CUresult find_function(CUfunction handle, std::shared_ptr<LoadedFunction>& function, Context*& context) {
    auto named = process().functions.find(handle);
    if (named == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    CU_TRY(current_context(context));
    return named->resolve(*context, function);
}

CUresult find_variable(CUlibrary handle, const char* name, bool managed, CUdeviceptr* address, size_t* bytes) {
    if (name == nullptr || (address == nullptr && bytes == nullptr)) return CUDA_ERROR_INVALID_VALUE;
    auto library = process().libraries.find(handle);
    if (library == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    Context* context = nullptr;
    CUresult current = current_context_even_failed(context);
    // Managed variables are the same for the host and all devices: they are asked for before there is a context.
    if (managed) {
        context = process().device(0)->primary.get();
    } else {
        CU_TRY(current);
    }
    std::shared_ptr<Module> module;
    CU_TRY(library->module_in(*context, nullptr, module));
    const exec::GlobalInfo* global = module->global(name);
    if (global == nullptr && !managed && module->function(name) != nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (global == nullptr || (managed && !global->managed)) return CUDA_ERROR_NOT_FOUND;
    if (address != nullptr) *address = global->address;
    if (bytes != nullptr) *bytes = global->size_bytes;
    return CUDA_SUCCESS;
}

}  // namespace warpline::softgpu::driver
