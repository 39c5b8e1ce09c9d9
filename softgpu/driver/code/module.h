// Code that has been loaded: modules, libraries, functions.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/mutex.h"
#include "cuda/abi/cuda_types.h"
#include "cuda/abi/legacy_launch.h"
#include "softgpu/driver/code/jit_options.h"
#include "softgpu/driver/code/loading.h"
#include "softgpu/driver/code/managed_variables.h"
#include "softgpu/exec/api.h"

namespace warpline::cuda::image {
class Image;
struct ImageInfo;
}  // namespace warpline::cuda::image

namespace warpline::softgpu::driver {

class Context;
class Device;
class Library;

/// What an image contains that can be executed here: PTX texts to be loaded as one module; in dry mode, if there is no PTX,
/// the description of a cubin. Immutable.
struct Code {
    std::vector<std::string> ptx;
    bool is_text = false;     ///< given as text: it is compiled when it is loaded
    bool in_wrapper = false;  ///< as compilers put it into programs, where libcudart finds it
    std::shared_ptr<const cuda::image::ImageInfo> cubin;
    std::shared_ptr<const cuda::image::ImageInfo> compiled;  ///< of the machine code that the PTX was found in; null: none
    bool is_older_ptx = false;                               ///< of a program, for compute capabilities before 9.0
    uint32_t machine_code = 0;  ///< architecture of the machine code that a GPU's driver would take; 0: it would compile
};

/// Chooses the code of an image. Errors: invalid image, no binary for this GPU (with one log line that tells what to do).
CUresult read_code(const void* image, std::shared_ptr<const Code>& code);
CUresult read_code(const cuda::image::Image& image, std::shared_ptr<const Code>& code);
/// The same of a file's bytes. Errors also: file not found.
CUresult read_code_file(const char* path, std::shared_ptr<const Code>& code);

/// A kernel in a context: what the engine knows, and what calls have set.
class LoadedFunction {
public:
    /// What the compiler says that is not in the PTX.
    struct Compiled {
        uint32_t binary_version = 0;    ///< as CU_FUNC_ATTRIBUTE_BINARY_VERSION
        uint32_t registers = 0;         ///< per thread; 0: they are estimated
        bool shared_in_pieces = false;  ///< the bytes of its shared variables are rounded up (DB-60)
        uint32_t max_threads = 0;       ///< in a block, by options of the compilation; 0: as the code says
    };
    LoadedFunction(const std::shared_ptr<Context>& context, std::shared_ptr<exec::Module> module,
                   std::shared_ptr<exec::Function> code, Compiled compiled);

    exec::Function& code() const { return *m_code; }
    const exec::FunctionInfo& info() const { return m_code->info(); }
    uint32_t max_threads() const { return m_compiled.max_threads != 0 ? m_compiled.max_threads : info().max_threads; }
    /// In a block for which there are registers.
    uint32_t most_threads() const;
    bool knows_registers() const { return m_compiled.registers != 0; }
    uint32_t registers() const { return m_compiled.registers != 0 ? m_compiled.registers : info().registers; }
    Device& device() const { return m_device; }
    /// Of its own shared variables, as the driver counts them.
    uint32_t static_shared_bytes() const;

    /// Loads the kernel: decodes its body, once; where code is loaded at its first use, that waits for the context (DB-15).
    /// Errors: not supported, with one log line that names opcode, file and line.
    CUresult ensure_ready();
    bool loaded() const { return m_ready.load() || loads_eagerly(); }
    /// Errors: invalid value (there is no such parameter).
    CUresult param_info(size_t index, size_t* offset, size_t* size) const;

    CUresult attribute(CUfunction_attribute which, int* value) const;
    CUresult set_attribute(CUfunction_attribute which, int value);
    /// The most dynamic shared memory that a launch may ask for.
    uint32_t max_dynamic_shared_bytes() const { return m_max_dynamic_shared.load(); }
    /// The cluster that launches have to have: of the code, or set; zeros if none.
    std::array<uint32_t, 3> required_cluster() const;
    bool non_portable_cluster() const { return m_non_portable_cluster.load() != 0; }
    std::atomic<int> cache_config{CU_FUNC_CACHE_PREFER_NONE};

    cuda::abi::LegacyLaunch legacy;

private:
    const std::weak_ptr<Context> m_context;  // queued launches may outlive it
    Device& m_device;
    const std::shared_ptr<exec::Module> m_module;  // shared: a queued launch outlives the module's handle
    const std::shared_ptr<exec::Function> m_code;  // shared with the engine's module
    const Compiled m_compiled;
    std::atomic<uint32_t> m_max_dynamic_shared;
    std::atomic<int> m_carveout{-1}, m_non_portable_cluster{0}, m_scheduling_policy{0}, m_shared_memory_mode{0};
    std::array<std::atomic<uint32_t>, 3> m_cluster{};
    std::atomic<bool> m_ready{false};
};

/// A module in a context.
class Module {
public:
    /// Errors: 218, 222, 209, 200 with the log in `jit`.
    /// @param managed  what has its managed variables; null: nobody shares them
    static CUresult load(const std::shared_ptr<Context>& context, std::shared_ptr<const Code> code, JitOptions* jit,
                         std::shared_ptr<Module>& module, std::shared_ptr<ManagedVariables> managed = nullptr);
    ~Module();

    const std::shared_ptr<Context>& context() const { return m_context; }
    /// Null if there is none of that name.
    std::shared_ptr<LoadedFunction> function(std::string_view name);
    std::vector<std::string> function_names() const { return m_code->function_names(); }
    const exec::GlobalInfo* global(std::string_view name) const { return m_code->global(name); }
    std::vector<std::string> texrefs() const { return m_code->texrefs(); }

    /// The handle under which it can be found; made now if it belongs to a library and had none.
    CUmodule handle(const std::shared_ptr<Module>& self);

    /// Handles of its functions, made at first demand, one per name.
    CUfunction handle_of(const std::shared_ptr<Module>& self, const std::string& name);
    /// Takes its handle and those of its functions out of the tables.
    void forget();

    /// The library that it belongs to; null: it was loaded by itself.
    std::shared_ptr<Library> library() const { return m_library.lock(); }
    void set_library(const std::shared_ptr<Library>& library) { m_library = library; }

private:
    Module(std::shared_ptr<Context> context, std::shared_ptr<exec::Module> code,
           std::shared_ptr<const cuda::image::ImageInfo> compiled, LoadedFunction::Compiled of_all);

    const std::shared_ptr<Context> m_context;    // shared: a module of a destroyed context must still be recognised
    const std::shared_ptr<exec::Module> m_code;  // shared: running launches keep it
    const std::shared_ptr<const cuda::image::ImageInfo> m_compiled;  // null: the machine code is not known
    const LoadedFunction::Compiled m_of_all;                         // what all its functions have in common
    std::weak_ptr<Library> m_library;                                // set before others see it
    mutable Mutex m_mutex;
    std::map<std::string, std::shared_ptr<LoadedFunction>, std::less<>> m_functions WL_GUARDED_BY(m_mutex);
    std::map<std::string, uint64_t> m_handles WL_GUARDED_BY(m_mutex);
    uint64_t m_handle WL_GUARDED_BY(m_mutex) = 0;
};

/// A library: code that is loaded into each context that uses it.
class Library : public std::enable_shared_from_this<Library> {
public:
    Library(std::shared_ptr<const Code> code, const JitOptions& jit) : m_code(std::move(code)), m_jit(jit.without_outputs()) {}

    uint64_t handle() const { return m_handle; }
    void set_handle(uint64_t handle) { m_handle = handle; }

    /// Its module in a context, loaded at the first call.
    CUresult module_in(Context& context, JitOptions* jit, std::shared_ptr<Module>& module);
    /// Names of its kernels, from any module that is loaded, else from device 0's primary context.
    CUresult kernel_names(std::vector<std::string>& names);
    /// The handle of a kernel, one per name. Errors: not found, those of loading.
    CUresult kernel(const std::string& name, CUkernel* handle);
    std::vector<uint64_t> kernel_handles() const;
    const Code& code() const { return *m_code; }
    /// Unloads it from every context.
    void unload();

private:
    CUresult any_module(std::shared_ptr<Module>& module);

    const std::shared_ptr<const Code> m_code;
    const JitOptions m_jit;  // for the contexts that come later
    const std::shared_ptr<ManagedVariables> m_managed = std::make_shared<ManagedVariables>();
    uint64_t m_handle = 0;
    mutable Mutex m_mutex;
    Mutex m_load_mutex;  // one load at a time, so that a context gets one module
    std::map<std::string, uint64_t> m_kernels WL_GUARDED_BY(m_mutex);
};

/// What a CUfunction or CUkernel handle names: CUDA lets either stand where the other is expected.
class Function {
public:
    Function(std::shared_ptr<Module> module, std::string name) : m_module(std::move(module)), m_name(std::move(name)) {}
    Function(std::shared_ptr<Library> library, std::string name) : m_library(std::move(library)), m_name(std::move(name)) {}

    const std::string& name() const { return m_name; }
    bool is_kernel() const { return m_library != nullptr; }
    const std::shared_ptr<Library>& library() const { return m_library; }
    /// The module of a function; of a kernel, its library's module in a context.
    CUresult module(Context& context, std::shared_ptr<Module>& module) const;
    /// The function that a launch in a context executes.
    CUresult resolve(Context& context, std::shared_ptr<LoadedFunction>& function);
    /// The handles of the function in a context, and of the library's kernel that it is; they stay as they are where there is
    /// none.
    void names_in(Context& context, CUfunction& function, CUkernel& kernel) const;
    /// Sets an attribute of a kernel on a device, in its contexts that exist and those to come.
    CUresult set_on_device(CUfunction_attribute attribute, int value, Device& device);

private:
    const std::shared_ptr<Module> m_module;    // of a function
    const std::shared_ptr<Library> m_library;  // of a kernel
    const std::string m_name;
    mutable Mutex m_mutex;
    std::map<int, std::map<int, int>> m_set WL_GUARDED_BY(m_mutex);                       // device → attribute → value
    std::map<uint64_t, std::weak_ptr<LoadedFunction>> m_resolved WL_GUARDED_BY(m_mutex);  // by context id
};

/// The function that a handle names, in the current context (a kernel) or in its own (a function).
CUresult find_function(CUfunction handle, std::shared_ptr<LoadedFunction>& function, Context*& context);

/// A variable of a library: in the current context, or, if it is `managed`, the one that all of them share. Errors: invalid
/// value, invalid handle, not found, those of loading.
CUresult find_variable(CUlibrary handle, const char* name, bool managed, CUdeviceptr* address, size_t* bytes);

}  // namespace warpline::softgpu::driver
