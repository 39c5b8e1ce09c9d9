// The second half of linking: what was chosen is brought into the form of one module.
#include "softgpu/passes/linker.h"

namespace warpline::softgpu::passes {

using ptx::Function;
using ptx::ModuleItem;
using ptx::SymbolRef;
using ptx::Variable;

namespace {

// Moves the kept elements together and returns where each went.
template <typename T>
std::vector<uint32_t> squeeze(std::vector<T>& list, const std::vector<bool>& keep) {
    std::vector<uint32_t> places(list.size(), UINT32_MAX);
    uint32_t next = 0;
    for (size_t i = 0; i < places.size(); i++) {
        if (!keep[i]) continue;
        if (next != i) list[next] = std::move(list[i]);
        places[i] = next++;
    }
    list.resize(next);
    return places;
}

}  // namespace

SymbolRef Linker::moved(SymbolRef symbol) const {
    const std::vector<uint32_t>& places = symbol.kind == SymbolRef::Kind::variable ? m_new_variable : m_new_function;
    return {symbol.kind, places[symbol.index]};
}

void Linker::compact() {
    // An alias needs what it stands for, even if nobody else names that.
    for (size_t i = 0; i < m_out.functions.size(); i++)
        if (m_keep_function[i] && m_out.functions[i].is_alias) m_keep_function[m_out.functions[i].alias_of] = true;
    m_new_variable = squeeze(m_out.variables, m_keep_variable);
    m_new_function = squeeze(m_out.functions, m_keep_function);
    for (ptx::Unit& unit : m_out.units)
        for (auto& [name, symbol] : unit.symbols) symbol = moved(symbol);
    for (Function& function : m_out.functions)
        if (function.is_alias) function.alias_of = m_new_function[function.alias_of];
    for (Variable& variable : m_out.variables)
        for (ptx::InitAddress& address : variable.init_addresses) address.symbol = m_out.find(address.name, variable.unit);
}

std::string_view Linker::unique_name(std::string_view name) {
    for (uint32_t n = 1;; n++) {
        auto candidate = std::make_shared<const std::string>(std::string(name) + "$" + std::to_string(n));
        if (!m_taken.insert(*candidate).second) continue;
        m_out.names.push_back(candidate);
        return *candidate;
    }
}

// Shared names keep their spelling; of private ones that clash all but the first get another.
void Linker::rename_private() {
    for (const auto& [name, winner] : m_winners) m_taken.insert(name);
    auto rename = [&](std::string_view& name, bool shared) {
        if (!shared && !m_taken.insert(name).second) name = unique_name(name);
    };
    for (uint32_t i = 0; i < m_out.variables.size(); i++)
        rename(m_out.variables[i].name, is_shared_name({SymbolRef::Kind::variable, i}));
    for (uint32_t i = 0; i < m_out.functions.size(); i++)
        rename(m_out.functions[i].name, is_shared_name({SymbolRef::Kind::function, i}));
}

// A declaration without body in front, so that the printed text declares before it uses.
uint32_t Linker::declare(uint32_t index) {
    const Function& function = m_out.functions[index];
    Function declaration;
    declaration.name = function.name;
    declaration.linkage = function.linkage;
    declaration.params = function.params;
    declaration.returns = function.returns;
    declaration.attributes = function.attributes;
    declaration.tuning.noreturn = function.tuning.noreturn;
    declaration.at = function.at;
    declaration.unit = function.unit;
    m_out.functions.push_back(std::move(declaration));
    return static_cast<uint32_t>(m_out.functions.size() - 1);
}

// After the variables whose addresses it holds. In a circle of addresses one of them has to go first.
void Linker::place_variable(uint32_t root) {
    std::vector<uint32_t> open{root};
    while (!open.empty()) {
        uint32_t index = open.back();
        if (m_placed[index] == 0) {
            m_placed[index] = 1;
            for (const ptx::InitAddress& address : m_out.variables[index].init_addresses)
                if (address.symbol.kind == SymbolRef::Kind::variable && m_placed[address.symbol.index] == 0)
                    open.push_back(address.symbol.index);
            continue;
        }
        open.pop_back();
        if (m_placed[index] == 2) continue;
        m_placed[index] = 2;
        m_out.items.push_back({ModuleItem::Kind::variable, index});
    }
}

void Linker::arrange() {
    auto functions = static_cast<uint32_t>(m_out.functions.size());
    m_out.functions.reserve(size_t{functions} * 2);  // declare() adds behind them
    for (uint32_t i = 0; i < m_out.pragmas.size(); i++) m_out.items.push_back({ModuleItem::Kind::pragma, i});
    for (uint32_t i = 0; i < functions; i++) {
        const Function& function = m_out.functions[i];
        if (function.has_body && !function.is_entry)
            m_out.items.push_back({ModuleItem::Kind::function, declare(i)});
        else if (!function.has_body)
            m_out.items.push_back({ModuleItem::Kind::function, i});
    }
    m_placed.assign(m_out.variables.size(), 0);
    for (uint32_t i = 0; i < m_out.variables.size(); i++) place_variable(i);
    for (uint32_t i = 0; i < functions; i++)
        if (m_out.functions[i].has_body) m_out.items.push_back({ModuleItem::Kind::function, i});
    for (uint32_t i = 0; i < functions; i++)
        if (m_out.functions[i].is_alias) m_out.items.push_back({ModuleItem::Kind::alias, i});
}

}  // namespace warpline::softgpu::passes
