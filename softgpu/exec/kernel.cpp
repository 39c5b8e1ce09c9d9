// Decodes a kernel with all that it can call, and lays out its shared memory.
#include "softgpu/exec/kernel.h"

#include <algorithm>

#include "softgpu/passes/load.h"

namespace warpline::softgpu::exec {

using ptx::SymbolRef;

Body* KernelCode::body_at(uint64_t code_address) const {
    uint64_t offset = code_address - code_base;
    if (offset % k_code_stride != 0 || offset / k_code_stride >= bodies.size()) return nullptr;
    return bodies[offset / k_code_stride].get();
}

void SharedLayout::use_module_variable(const ptx::Module& module, uint32_t variable) {
    use_local_variable(module.variables[variable]);
}

void SharedLayout::use_local_variable(const ptx::Variable& variable) {
    if (m_offset.try_emplace(&variable, 0).second) m_order.push_back(&variable);
}

void SharedLayout::place() {
    auto align = [](uint32_t value, uint32_t alignment) { return (value + alignment - 1) / alignment * alignment; };
    uint32_t dynamic_alignment = 16;
    for (const ptx::Variable* variable : m_order) {
        uint32_t alignment = std::max<uint32_t>(1, variable->alignment);
        if (variable->size_bytes == 0) {
            dynamic_alignment = std::max(dynamic_alignment, alignment);
            continue;
        }
        m_end = align(m_end, alignment);
        m_offset[variable] = m_end;
        m_end += uint32_t(variable->size_bytes);
    }
    m_dynamic = align(m_end, dynamic_alignment);
    for (const ptx::Variable* variable : m_order) {
        if (variable->size_bytes == 0) m_offset[variable] = m_dynamic;
    }
}

uint32_t SharedLayout::offset_of(const ptx::Variable& variable) const {
    auto found = m_offset.find(&variable);
    return found == m_offset.end() ? 0 : found->second;
}

namespace {

/// Finds what a kernel can reach and decodes it.
class KernelBuilder {
public:
    KernelBuilder(ptx::Module& module, uint32_t entry, const ModuleLayout& layout)
        : m_module(module), m_entry(entry), m_layout(layout) {
        m_reached.assign(module.functions.size(), Reach::no);
        m_kernel = std::make_unique<KernelCode>();
        m_kernel->bodies.resize(module.functions.size());
        m_kernel->code_base = layout.code_base;
    }

    std::unique_ptr<KernelCode> run() {
        reach(m_entry, Reach::directly);
        drain();
        if (m_indirect_calls) {
            for (const ptx::Variable& variable : m_module.variables) {
                for (const ptx::InitAddress& address : variable.init_addresses) {
                    if (address.symbol.kind != SymbolRef::Kind::function) continue;
                    if (!m_module.functions[address.symbol.index].is_entry) reach(address.symbol.index, Reach::through_pointer);
                }
            }
            drain();
        }
        m_shared.place();
        decode();
        finish();
        return std::move(m_kernel);
    }

private:
    enum class Reach : uint8_t { no, through_pointer, directly };

    void reach(uint32_t index, Reach how) {
        while (m_module.functions[index].is_alias && m_module.functions[index].alias_of != UINT32_MAX) {
            index = m_module.functions[index].alias_of;
        }
        if (!m_module.functions[index].has_body || m_reached[index] != Reach::no) return;
        m_reached[index] = how;
        m_work.push_back(index);
        m_order.push_back(index);
    }

    void drain() {
        while (!m_work.empty()) {
            uint32_t index = m_work.back();
            m_work.pop_back();
            scan(index);
        }
    }

    void scan(uint32_t index) {
        ptx::Function& function = m_module.functions[index];
        std::string log;
        int result = passes::prepare_body(m_module, function, log);
        if (result != 0 || function.body == nullptr) {
            (result == 801 ? m_kernel->errors : m_kernel->invalid) +=
                log.empty() ? std::string(function.name) + ": invalid\n" : log;
            return;
        }
        auto body = std::make_unique<Body>();
        body->name = function.name;
        body->function = index;
        body->is_entry = function.is_entry;
        m_kernel->bodies[index] = std::move(body);
        for (const ptx::Variable& variable : function.body->variables) {
            if (variable.space == ptx::Space::shared) m_shared.use_local_variable(variable);
        }
        for (const ptx::Operand& operand : function.body->operands) {
            const SymbolRef& ref = operand.symbol;
            if (ref.kind == SymbolRef::Kind::variable && m_module.variables[ref.index].space == ptx::Space::shared) {
                m_shared.use_module_variable(m_module, ref.index);
            } else if (ref.kind == SymbolRef::Kind::function && !m_module.functions[ref.index].is_entry) {
                // A kernel that is named is launched, which makes it no part of this one.
                reach(ref.index, m_reached[index]);
            }
        }
        for (const ptx::Call& call : function.body->calls) {
            m_indirect_calls |= function.body->operands[call.target].kind == ptx::Operand::Kind::reg;
        }
    }

    void decode() {
        for (uint32_t index : m_order) {
            Body* body = m_kernel->bodies[index].get();
            if (body == nullptr) continue;
            const ptx::Function& function = m_module.functions[index];
            // A function that only a table of pointers names may never be called: its refusal waits until it is.
            std::string errors = m_kernel->errors, invalid = m_kernel->invalid;
            decode_body({m_module, function, *function.body, m_layout, m_shared, *m_kernel}, *body);
            if (m_reached[index] == Reach::directly) continue;
            m_kernel->errors = std::move(errors);
            m_kernel->invalid = std::move(invalid);
        }
    }

    void finish() {
        KernelCode& kernel = *m_kernel;
        kernel.entry = kernel.bodies[m_entry].get();
        kernel.static_shared_bytes = m_shared.static_bytes();
        kernel.dynamic_shared_offset = m_shared.dynamic_offset();
        kernel.open_stack = m_indirect_calls;
        for (const auto& body : kernel.bodies) {
            if (body == nullptr) continue;
            kernel.uses_printf |= body->uses_printf;
            kernel.peak_registers = std::max(kernel.peak_registers, body->peak_registers);
            kernel.open_stack |= body->uses_alloca;
        }
        if (kernel.entry == nullptr) return;
        m_depth.assign(kernel.bodies.size(), k_unknown);
        kernel.local_bytes = stack_of(m_entry, 0);
        if (kernel.open_stack) kernel.local_bytes = kernel.entry->local_bytes;
    }

    /// Bytes of local memory of a function and the deepest chain of its callees; sets open_stack at recursion.
    uint32_t stack_of(uint32_t index, uint32_t nesting) {
        constexpr uint32_t k_call_bytes = 16, k_deepest = 1000;
        if (m_depth[index] == k_in_progress || nesting > k_deepest) {
            m_kernel->open_stack = true;
            return 0;
        }
        if (m_depth[index] != k_unknown) return m_depth[index];
        m_depth[index] = k_in_progress;
        uint32_t deepest = 0;
        const Body* body = m_kernel->bodies[index].get();
        for (uint32_t callee : body->callees) deepest = std::max(deepest, k_call_bytes + stack_of(callee, nesting + 1));
        return m_depth[index] = body->local_bytes + deepest;
    }

    static constexpr uint32_t k_unknown = UINT32_MAX, k_in_progress = UINT32_MAX - 1;
    ptx::Module& m_module;
    const uint32_t m_entry;
    const ModuleLayout& m_layout;
    std::unique_ptr<KernelCode> m_kernel;
    SharedLayout m_shared;
    std::vector<Reach> m_reached;
    std::vector<uint32_t> m_work, m_order, m_depth;
    bool m_indirect_calls = false;
};

}  // namespace

std::unique_ptr<KernelCode> decode_kernel(ptx::Module& module, uint32_t function, const ModuleLayout& layout) {
    return KernelBuilder(module, function, layout).run();
}

}  // namespace warpline::softgpu::exec
