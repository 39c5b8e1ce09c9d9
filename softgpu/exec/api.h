// The execution engine of the software GPU, as its driver layer sees it: memory, modules of PTX, launches. The engine knows no
// CUDA handle, no stream and no context; the driver layer knows no instruction.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/bytes.h"
#include "common/base/result.h"

namespace warpline::softgpu::check {
struct Checker;
}

namespace warpline::softgpu::exec {

struct Dim3 {
    uint32_t x = 1, y = 1, z = 1;
    uint64_t count() const { return uint64_t{x} * y * z; }
};

/// A fault of a kernel. `cu_result` is the sticky error it becomes: 700 illegal address, 716 misaligned address, 714 hardware
/// stack error, 715 illegal instruction, 717 invalid address space, 718 invalid pc, 719 launch failed (trap), 710 assert, 702
/// time-out.
struct Fault {
    int cu_result = 0;
    std::string text;  ///< one line: kernel, PTX line, block, thread, address
    bool ok() const { return cu_result == 0; }
};

/// Why a module was not accepted. `cu_result`: 218 invalid PTX, 222 unsupported PTX version, 209 no binary for this GPU, 200
/// invalid image.
struct ModuleError {
    int cu_result = 0;
    std::string log;  ///< as in the JIT error log: file:line: message, one per line
};

/// Device memory. Device address = host address inside one reserved window, so that managed memory and peer copies need no
/// translation; a range that is not mapped is a fault of the kernel and never of the process.
class Memory {
public:
    virtual ~Memory() = default;
    /// Reserves addresses without memory. `hint` 0: anywhere in the window. Errors: alloc_failed (taken, or the window is
    /// full).
    virtual Result<uint64_t> reserve(uint64_t size_bytes, uint64_t alignment_bytes, uint64_t hint) = 0;
    virtual Result<void> release(uint64_t address, uint64_t size_bytes) = 0;
    /// Commits zero-filled memory in a reserved range / takes it back. Page granularity.
    virtual Result<void> map(uint64_t address, uint64_t size_bytes) = 0;
    virtual Result<void> unmap(uint64_t address, uint64_t size_bytes) = 0;
    /// Makes [address, address+size) valid for kernels, byte-exact; mapped memory only. Host memory registered with the device
    /// (cuMemHostAlloc, cuMemHostRegister, managed) is added the same way, wherever it lies in the process.
    virtual Result<void> add_range(uint64_t address, uint64_t size_bytes) = 0;
    virtual Result<void> remove_range(uint64_t address, uint64_t size_bytes) = 0;
    /// True if every byte lies in one valid range.
    virtual bool contains(uint64_t address, uint64_t size_bytes) const = 0;
};

struct FunctionInfo {
    std::string name;
    struct Param {
        uint32_t offset_bytes, size_bytes, alignment_bytes;
    };
    std::vector<Param> params;
    uint32_t param_bytes = 0;
    uint32_t static_shared_bytes = 0;
    uint32_t local_bytes = 0;
    uint32_t const_bytes = 0;
    uint32_t registers = 0;                      ///< estimate from liveness, 16 … 255
    uint32_t max_threads = 1024;                 ///< .maxntid product, or the device's limit
    std::array<uint32_t, 3> required_threads{};  ///< .reqntid, zeros if absent
    std::array<uint32_t, 3> required_cluster{};  ///< .reqnctapercluster, zeros if absent
    uint32_t ptx_version = 0;  ///< as CU_FUNC_ATTRIBUTE_PTX_VERSION: 10 * major + minor of its text's .target (75, 80, 120)
    bool uses_printf = false;
};

struct GlobalInfo {
    std::string name;
    uint64_t address = 0;
    uint64_t size_bytes = 0;
    bool managed = false;
    bool constant = false;
};

/// A managed variable of a module, and where it is.
struct ManagedVariable {
    std::string_view name;
    uint64_t size_bytes = 0;
    uint64_t alignment_bytes = 1;  ///< a page at most
    uint64_t address = 0;
    bool fresh = false;  ///< zeros, which nobody has initialised
};

/// Has the managed variables of code that is loaded for several devices: all of them, and the host, share one of each.
class ManagedPlaces {
public:
    virtual ~ManagedPlaces() = default;
    /// Fills in the addresses, which kernels of all devices may use as long as this lives. False: there is no memory.
    virtual bool place(std::span<ManagedVariable> variables) = 0;
};

class Module;

/// A kernel. Bodies are decoded at the first call of ensure_ready().
class Function {
public:
    virtual ~Function() = default;
    virtual const FunctionInfo& info() const = 0;
    /// Decodes the body. Errors: 801 with the opcode, file and line of what is not supported.
    virtual ModuleError ensure_ready() = 0;
};

class Module {
public:
    virtual ~Module() = default;
    /// Null if there is none of that name.
    virtual std::shared_ptr<Function> function(std::string_view name) = 0;
    virtual std::vector<std::string> function_names() const = 0;
    virtual const GlobalInfo* global(std::string_view name) const = 0;
    virtual std::vector<GlobalInfo> globals() const = 0;
    /// Names of the texture / surface references of the module.
    virtual std::vector<std::string> texrefs() const = 0;
};

struct Launch {
    Function* function = nullptr;
    Dim3 grid, block, cluster;
    uint32_t dynamic_shared_bytes = 0;
    bool cooperative = false;
    std::span<const std::byte>
        params;  ///< laid out as FunctionInfo::params says; copied before launch() returns control to user code
    uint64_t stream_id = 0;
    std::span<const uint32_t> multiprocessors;  ///< those that its blocks may run on, while it runs; empty: all
};

/// Limits that a kernel can feel (cuCtxSetLimit).
struct Limits {
    uint64_t stack_bytes = 64 * 1024;        ///< per thread
    uint64_t heap_bytes = 64 * 1024 * 1024;  ///< device malloc
    uint64_t printf_fifo_bytes = 1024 * 1024;
};

struct EngineOptions {
    uint32_t device_ordinal = 0;
    uint32_t workers = 0;               ///< 0: as many as the machine has cores
    uint64_t watchdog_ms = 0;           ///< 0: none. A launch that runs longer ends with fault 702
    uint32_t compute_capability = 89;   ///< 10 * major + minor
    bool execute = true;                ///< false: dry mode, accepts every image, launches do nothing
    uint64_t schedule_seed = 0;         ///< not 0: one worker runs everything in an order that depends on this alone
    check::Checker* checker = nullptr;  ///< what checks kernels; must outlive the engine. Null: nothing is checked
};

/// One device's engine. All functions may be called from any thread; launch() blocks its caller until the grid has ended, and
/// several launches may run at the same time.
class Engine {
public:
    virtual ~Engine() = default;
    virtual Memory& memory() = 0;
    /// Loads one or more PTX texts as one module (several: linked). On failure the pointer is null and `error` says why.
    /// @param managed  has its managed variables, and lives as long as the module; null: they are the module's own
    virtual std::shared_ptr<Module> load(std::span<const std::string_view> ptx, ModuleError& error,
                                         std::shared_ptr<ManagedPlaces> managed = nullptr) = 0;
    virtual Fault launch(const Launch& launch) = 0;
    virtual void set_limits(const Limits& limits) = 0;
    virtual Limits limits() const = 0;
    /// Where formatted device printf text goes (called at the end of a launch, in block order where possible, and never
    /// concurrently).
    virtual void set_printf_sink(std::function<void(std::string_view)> sink) = 0;
};

std::unique_ptr<Engine> create_engine(const EngineOptions& options);

}  // namespace warpline::softgpu::exec
