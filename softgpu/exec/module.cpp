// Loads a parsed module: places its variables and initialises them.
#include "softgpu/exec/module.h"

#include <algorithm>
#include <cstring>

#include "common/log/log.h"
#include "softgpu/exec/rounding.h"

namespace warpline::softgpu::exec {

namespace {

constexpr uint64_t k_variable_alignment = 256;  ///< as cuMemAlloc's: programs cast addresses of globals

/// What a kernel can address as constants, whatever the module has declared: beyond its variables are zeros, as on a GPU.
constexpr uint64_t k_constant_bank_bytes = 64 << 10;

bool has_address(const ptx::Variable& variable) {
    bool in_memory = variable.space == ptx::Space::global || variable.space == ptx::Space::constant;
    // A .texref or .surfref is a variable that holds a handle (texture.h).
    return in_memory && variable.type != ptx::Type::samplerref && variable.size_bytes != 0;
}

}  // namespace

ModuleImpl::~ModuleImpl() {
    for (auto [address, size] : m_ranges) (void)m_memory.remove_range(address, size);
    if (m_block == 0) return;
    for (uint64_t address : m_layout.variable_address) {
        const bool own = address >= m_block && address - m_block < m_block_bytes;
        if (m_checker != nullptr && own) m_checker->allocations.remove(address);
    }
    (void)m_memory.unmap(m_block, m_block_bytes);
    (void)m_memory.release(m_block, m_block_bytes);
}

uint64_t ModuleImpl::assign_offsets(ptx::Space space, uint64_t begin) {
    uint64_t end = begin;
    for (size_t i = 0; i < m_tree->variables.size(); ++i) {
        const ptx::Variable& variable = m_tree->variables[i];
        if (!has_address(variable) || variable.space != space || is_shared(variable)) continue;
        end = round_up(end, std::max<uint64_t>(k_variable_alignment, variable.alignment));
        m_layout.variable_address[i] = end;
        end += variable.size_bytes;
    }
    return end;
}

void ModuleImpl::make_accessible(uint64_t address, uint64_t bytes) {
    if (m_memory.add_range(address, bytes).ok()) m_ranges.emplace_back(address, bytes);
}

bool ModuleImpl::place(uint64_t code_base, ModuleError& error) {
    m_layout.code_base = code_base;
    const auto& variables = m_tree->variables;
    m_layout.variable_address.assign(variables.size(), 0);
    std::vector<uint32_t> fresh;
    if (!place_own(fresh) || !place_shared(fresh)) {
        error = {2, "no memory for the module's variables\n"};
        return false;
    }
    for (size_t i = 0; i < variables.size(); ++i) {
        if (!has_address(variables[i])) continue;
        const bool constant = variables[i].space == ptx::Space::constant;
        GlobalInfo info{std::string(variables[i].name), m_layout.variable_address[i], variables[i].size_bytes,
                        variables[i].managed, constant};
        m_globals.try_emplace(info.name, info);
    }
    return std::all_of(fresh.begin(), fresh.end(), [&](uint32_t variable) { return initialise(variable, error); });
}

bool ModuleImpl::place_own(std::vector<uint32_t>& fresh) {
    const auto& variables = m_tree->variables;
    const uint64_t constants = assign_offsets(ptx::Space::constant, 0);
    const uint64_t bank = constants == 0 ? 0 : std::max(constants, k_constant_bank_bytes);
    const uint64_t bytes = assign_offsets(ptx::Space::global, bank);
    if (bytes == 0) return true;
    m_block_bytes = round_up(bytes, k_page_bytes);
    auto block = m_memory.reserve(m_block_bytes, 4096, 0);
    if (!block.ok() || !m_memory.map(*block, m_block_bytes).ok()) {
        if (block.ok()) (void)m_memory.release(*block, m_block_bytes);
        return false;
    }
    m_block = *block;
    // Who checks memory wants to know of reads beyond a variable: a GPU does not tell.
    const bool exact = (m_layout.checks & check::check_memory) != 0;
    if (bank != 0 && !exact) make_accessible(m_block, bank);
    for (uint32_t i = 0; i < variables.size(); ++i) {
        if (!has_address(variables[i]) || is_shared(variables[i])) continue;
        const bool constant = variables[i].space == ptx::Space::constant;
        const uint64_t address = m_layout.variable_address[i] += m_block;
        if (!constant || exact) make_accessible(address, variables[i].size_bytes);
        if (m_checker != nullptr) m_checker->allocations.add(address, variables[i].size_bytes);
        fresh.push_back(i);
    }
    return true;
}

bool ModuleImpl::place_shared(std::vector<uint32_t>& fresh) {
    std::vector<ManagedVariable> wanted;
    std::vector<uint32_t> indices;
    for (uint32_t i = 0; i < m_tree->variables.size(); ++i) {
        const ptx::Variable& variable = m_tree->variables[i];
        if (!has_address(variable) || !is_shared(variable)) continue;
        wanted.push_back({variable.name, variable.size_bytes, std::max<uint64_t>(k_variable_alignment, variable.alignment)});
        indices.push_back(i);
    }
    if (wanted.empty()) return true;
    if (!m_managed->place(wanted)) return false;
    for (size_t i = 0; i < wanted.size(); ++i) {
        m_layout.variable_address[indices[i]] = wanted[i].address;
        if (wanted[i].fresh) fresh.push_back(indices[i]);
    }
    return true;
}

bool ModuleImpl::address_of(const ptx::InitAddress& init, uint64_t& value) const {
    if (init.symbol.kind == ptx::SymbolRef::Kind::function) {
        uint32_t index = init.symbol.index;
        while (m_tree->functions[index].is_alias && m_tree->functions[index].alias_of != UINT32_MAX) {
            index = m_tree->functions[index].alias_of;
        }
        value = m_layout.code_base + index * k_code_stride;
    } else if (init.symbol.kind == ptx::SymbolRef::Kind::variable) {
        value = m_layout.variable_address[init.symbol.index];
        if (value == 0) return false;
    } else {
        return false;
    }
    value = (value + uint64_t(init.addend)) >> init.shift;
    return true;
}

bool ModuleImpl::initialise(uint32_t variable, ModuleError& error) {
    const ptx::Variable& source = m_tree->variables[variable];
    auto* target = reinterpret_cast<std::byte*>(m_layout.variable_address[variable]);
    size_t bytes = std::min<size_t>(source.init.size(), source.size_bytes);
    if (bytes != 0) std::memcpy(target, source.init.data(), bytes);
    for (const ptx::InitAddress& init : source.init_addresses) {
        uint64_t value = 0;
        if (!address_of(init, value)) {
            error = {218,
                     log::format("line {}: {} has no address to initialise {} with\n", init.at.line, init.name, source.name)};
            return false;
        }
        if (init.offset + uint64_t{init.size} <= source.size_bytes) {
            std::memcpy(target + init.offset, &value, std::min<size_t>(init.size, sizeof(value)));
        }
    }
    return true;
}

std::shared_ptr<Function> ModuleImpl::function(std::string_view name) {
    MutexLock lock(m_mutex);
    auto found = m_functions.find(name);
    if (found == m_functions.end()) {
        const ptx::Function* tree = m_tree->function(name);
        if (tree == nullptr || !tree->is_entry || !tree->has_body) return nullptr;
        auto index = uint32_t(tree - m_tree->functions.data());
        found = m_functions.emplace(std::string(name), std::make_unique<FunctionImpl>(*this, index)).first;
    }
    // Shares the module's life: a function is part of it.
    return {shared_from_this(), found->second.get()};
}

std::shared_ptr<Function> ModuleImpl::function_at(uint64_t code_address) {
    const uint64_t offset = code_address - m_layout.code_base;
    if (offset % k_code_stride != 0 || offset / k_code_stride >= m_tree->functions.size()) return nullptr;
    return function(m_tree->functions[offset / k_code_stride].name);
}

std::vector<std::string> ModuleImpl::function_names() const {
    std::vector<std::string> names;
    for (const ptx::Function& function : m_tree->functions) {
        if (function.is_entry && function.has_body) names.emplace_back(function.name);
    }
    return names;
}

const GlobalInfo* ModuleImpl::global(std::string_view name) const {
    auto found = m_globals.find(name);
    return found == m_globals.end() ? nullptr : &found->second;
}

std::vector<GlobalInfo> ModuleImpl::globals() const {
    std::vector<GlobalInfo> all;
    for (const auto& [name, info] : m_globals) all.push_back(info);
    return all;
}

std::vector<std::string> ModuleImpl::texrefs() const {
    std::vector<std::string> names;
    for (const ptx::Variable& variable : m_tree->variables) {
        if (variable.type == ptx::Type::texref || variable.type == ptx::Type::surfref) names.emplace_back(variable.name);
    }
    return names;
}

FunctionImpl::FunctionImpl(ModuleImpl& module, uint32_t index) : m_module(module), m_index(index) { fill_declared(); }

void FunctionImpl::note_time(uint64_t groups, std::chrono::nanoseconds elapsed) {
    auto each = std::max<uint64_t>(1, uint64_t(elapsed.count()) / groups);
    uint64_t before = m_group_ns.load(std::memory_order_relaxed);
    // Forgotten slowly: short and long launches of one kernel may take turns.
    if (before != INT64_MAX) each = std::max(each, before - before / 8);
    m_group_ns.store(each, std::memory_order_relaxed);
}

void FunctionImpl::fill_declared() {
    const ptx::Function& tree = m_module.m_tree->functions[m_index];
    m_info.name = tree.name;
    for (const ptx::Variable& param : tree.params) {
        uint32_t alignment = std::max<uint32_t>(1, param.alignment);
        auto offset = uint32_t(round_up(m_info.param_bytes, alignment));
        m_info.params.push_back({offset, uint32_t(param.size_bytes), alignment});
        m_info.param_bytes = offset + uint32_t(param.size_bytes);
    }
    auto product = [](const std::array<uint32_t, 3>& sizes) {
        uint64_t all = 1;
        for (uint32_t size : sizes) all *= std::max<uint32_t>(1, size);
        return uint32_t(std::min<uint64_t>(all, 1024));
    };
    auto filled = [](const std::array<uint32_t, 3>& sizes) {
        std::array<uint32_t, 3> out = sizes;
        for (uint32_t& size : out) size = std::max<uint32_t>(1, size);
        return out;
    };
    if (tree.tuning.maxntid_count != 0) m_info.max_threads = product(tree.tuning.maxntid);
    if (tree.tuning.reqntid_count != 0) {
        m_info.required_threads = filled(tree.tuning.reqntid);
        m_info.max_threads = product(tree.tuning.reqntid);
    }
    if (tree.tuning.reqnctapercluster_count != 0) m_info.required_cluster = filled(tree.tuning.reqnctapercluster);
    m_info.ptx_version = m_module.m_tree->units[tree.unit].sm;
    m_info.registers = 16;
}

uint32_t FunctionImpl::most_registers() const {
    // What a multiprocessor has, and how many threads it takes where it takes the fewest (8.6, 8.9, 12.0).
    constexpr uint32_t k_all = 65536, k_fewest_threads = 1536, k_granule = 8, k_most = 255, k_least = 16;
    const ptx::Tuning& tuning = m_module.m_tree->functions[m_index].tuning;
    uint32_t most = k_most;
    if (tuning.maxntid_count != 0 || tuning.reqntid_count != 0) {
        const uint32_t blocks = std::max<uint32_t>(1, tuning.minnctapersm);
        const bool fits = uint64_t{m_info.max_threads} * blocks <= k_fewest_threads;
        most = k_all / (m_info.max_threads * (fits ? blocks : 1)) / k_granule * k_granule;
    }
    if (tuning.maxnreg != 0) most = std::min(most, tuning.maxnreg);
    return std::clamp(most, k_least, k_most);
}

void FunctionImpl::fill_decoded() {
    m_info.static_shared_bytes = m_code->static_shared_bytes;
    m_info.local_bytes = m_code->local_bytes;
    m_info.registers = std::clamp<uint32_t>(m_code->peak_registers + 4, 16, most_registers());
    m_info.uses_printf = m_code->uses_printf;
    for (const GlobalInfo& global : m_module.globals()) {
        if (global.constant) m_info.const_bytes += uint32_t(global.size_bytes);
    }
}

const FunctionInfo& FunctionImpl::info() const {
    // Sizes and registers are known only after decoding; whether that succeeded matters to ensure_ready() alone.
    if (!m_ready.load(std::memory_order_acquire)) (void)const_cast<FunctionImpl*>(this)->ensure_ready();
    return m_info;
}

ModuleError FunctionImpl::ensure_ready() {
    if (m_ready.load(std::memory_order_acquire)) return m_error;
    MutexLock lock(m_module.m_decode_mutex);
    if (m_ready.load(std::memory_order_relaxed)) return m_error;
    m_code = decode_kernel(*m_module.m_tree, m_index, m_module.m_layout);
    if (!m_code->invalid.empty()) {
        m_error = {218, m_code->invalid};
    } else if (!m_code->errors.empty()) {
        m_error = {801, m_code->errors};
    } else if (m_code->entry == nullptr) {
        m_error = {218, std::string(m_info.name) + ": no body\n"};
    }
    fill_decoded();
    m_ready.store(true, std::memory_order_release);
    return m_error;
}

}  // namespace warpline::softgpu::exec
