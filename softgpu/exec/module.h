// Loaded modules and their functions.
#pragma once

#include <atomic>
#include <chrono>
#include <map>

#include "common/base/mutex.h"
#include "softgpu/check/checker.h"
#include "softgpu/exec/api.h"
#include "softgpu/exec/kernel.h"
#include "softgpu/exec/memory.h"
#include "softgpu/ptx/parser.h"

namespace warpline::softgpu::exec {

class ModuleImpl;

class FunctionImpl final : public Function {
public:
    FunctionImpl(ModuleImpl& module, uint32_t index);
    const FunctionInfo& info() const override;
    ModuleError ensure_ready() override;
    /// After ensure_ready().
    std::shared_ptr<const KernelCode> code() const { return m_code; }
    ModuleImpl& module() const { return m_module; }

    /// How long a launch of so many groups of blocks takes one thread, judging by earlier ones; "forever" before the first.
    std::chrono::nanoseconds expected(uint64_t groups) const {
        uint64_t each = m_group_ns.load(std::memory_order_relaxed);
        return std::chrono::nanoseconds(groups > INT64_MAX / each ? INT64_MAX : int64_t(each * groups));
    }
    void note_time(uint64_t groups, std::chrono::nanoseconds elapsed);

private:
    void fill_declared();
    void fill_decoded();
    /// Which a compiler would keep to: for the blocks that the code says it is for.
    uint32_t most_registers() const;

    ModuleImpl& m_module;
    const uint32_t m_index;
    FunctionInfo m_info;
    std::shared_ptr<const KernelCode> m_code;
    ModuleError m_error;
    /// Of the longest of the latest launches. Only a guess: launches at the same time may overwrite each other's.
    std::atomic<uint64_t> m_group_ns{INT64_MAX};
    std::atomic<bool> m_ready{false};  ///< release after all of the above is set, acquire before it is read
};

class ModuleImpl final : public Module, public std::enable_shared_from_this<ModuleImpl> {
public:
    ModuleImpl(MemoryImpl& memory, std::unique_ptr<ptx::Module> tree, std::shared_ptr<ManagedPlaces> managed,
               check::Checker* checker)
        : m_memory(memory), m_tree(std::move(tree)), m_managed(std::move(managed)) {
        m_checker = checker;
        m_layout.checks = checker != nullptr ? checker->checks & check::k_kernel_checks : 0;
    }
    ~ModuleImpl() override;

    /// Places the module's variables and writes their initial values.
    bool place(uint64_t code_base, ModuleError& error);

    std::shared_ptr<Function> function(std::string_view name) override;
    /// The kernel of a code address; null if it is none of this module's.
    std::shared_ptr<Function> function_at(uint64_t code_address);
    std::vector<std::string> function_names() const override;
    const GlobalInfo* global(std::string_view name) const override;
    std::vector<GlobalInfo> globals() const override;
    std::vector<std::string> texrefs() const override;

private:
    friend class FunctionImpl;
    /// Gives the variables of a space offsets from `begin` on; where the last one ends.
    uint64_t assign_offsets(ptx::Space space, uint64_t begin);
    /// True if the variable is not in the module's own block, but where those who share it have it.
    bool is_shared(const ptx::Variable& variable) const { return m_managed != nullptr && variable.managed; }
    /// Which of the variables have initial values to get; false: there is no memory.
    bool place_shared(std::vector<uint32_t>& fresh);
    bool place_own(std::vector<uint32_t>& fresh);
    void make_accessible(uint64_t address, uint64_t bytes);
    bool initialise(uint32_t variable, ModuleError& error);
    bool address_of(const ptx::InitAddress& init, uint64_t& value) const;

    MemoryImpl& m_memory;
    const std::unique_ptr<ptx::Module> m_tree;
    const std::shared_ptr<ManagedPlaces> m_managed;
    check::Checker* m_checker = nullptr;
    ModuleLayout m_layout;
    uint64_t m_block = 0, m_block_bytes = 0;
    std::vector<std::pair<uint64_t, uint64_t>> m_ranges;
    std::map<std::string, GlobalInfo, std::less<>> m_globals;
    Mutex m_decode_mutex;  ///< protects the bodies of m_tree: several kernels may reach the same function
    Mutex m_mutex;
    std::map<std::string, std::unique_ptr<FunctionImpl>, std::less<>> m_functions WL_GUARDED_BY(m_mutex);
};

}  // namespace warpline::softgpu::exec
