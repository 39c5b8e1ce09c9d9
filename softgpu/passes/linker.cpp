// The first half of linking: the definition of each name is chosen.
#include "softgpu/passes/linker.h"

#include <algorithm>
#include <tuple>

#include "softgpu/ptx/parser.h"

namespace warpline::softgpu::passes {

using ptx::Function;
using ptx::Linkage;
using ptx::Module;
using ptx::SymbolRef;
using ptx::Variable;

bool Linker::run() {
    bool alone = m_inputs.empty();  // the only input is the output already
    concatenate();
    choose();
    if (!alone) redirect();
    report_unresolved();
    if (alone || !m_result.diagnostics.empty()) return m_result.diagnostics.empty();
    compact();
    rename_private();
    arrange();
    return true;
}

void Linker::error(SymbolRef where, std::string text) {
    if (m_result.diagnostics.size() >= ptx::Limits::k_diagnostics) return;
    bool variable = where.kind == SymbolRef::Kind::variable;
    ptx::Location at = variable ? m_out.variables[where.index].at : m_out.functions[where.index].at;
    uint32_t unit = variable ? m_out.variables[where.index].unit : m_out.functions[where.index].unit;
    m_result.diagnostics.push_back({ptx::DiagnosticKind::symbol, at, std::move(text), unit});
}

bool Linker::agree_on_target(const Module& input) {
    auto number = [](ptx::Version v) { return v.major_number * 100 + v.minor_number; };
    if (number(input.version) > number(m_out.version)) m_out.version = input.version;
    ptx::Target& target = m_out.target;
    bool modes_agree = target.sm == 0 || target.texmode_independent == input.target.texmode_independent;
    if (input.target.sm > target.sm) {
        target.sm = input.target.sm;
        target.suffix = input.target.suffix;
    }
    target.texmode_independent = input.target.texmode_independent;
    target.texmode_unified |= input.target.texmode_unified;
    target.debug |= input.target.debug;
    target.map_f64_to_f32 |= input.target.map_f64_to_f32;
    return modes_agree;
}

// All inputs behind one another, with their indices shifted.
void Linker::concatenate() {
    for (const std::unique_ptr<Module>& input : m_inputs) {
        auto unit_base = static_cast<uint32_t>(m_out.units.size());
        auto variable_base = static_cast<uint32_t>(m_out.variables.size());
        auto function_base = static_cast<uint32_t>(m_out.functions.size());
        bool agree = agree_on_target(*input);
        for (ptx::Unit& unit : input->units) {
            for (auto& [name, symbol] : unit.symbols)
                symbol.index += symbol.kind == SymbolRef::Kind::variable ? variable_base : function_base;
            m_out.units.push_back(std::move(unit));
        }
        for (Variable& variable : input->variables) {
            variable.unit += unit_base;
            m_out.variables.push_back(std::move(variable));
        }
        for (Function& function : input->functions) {
            function.unit += unit_base;
            if (function.is_alias) function.alias_of += function_base;
            function.body.reset();
            function.body_parsed = false;
            m_out.functions.push_back(std::move(function));
        }
        std::move(input->names.begin(), input->names.end(), std::back_inserter(m_out.names));
        std::move(input->pragmas.begin(), input->pragmas.end(), std::back_inserter(m_out.pragmas));
        if (!agree)
            m_result.diagnostics.push_back(
                {ptx::DiagnosticKind::target, {1, 1}, "the texture modes of the inputs differ", unit_base});
    }
}

std::string_view Linker::name_of(SymbolRef symbol) const {
    return symbol.kind == SymbolRef::Kind::variable ? m_out.variables[symbol.index].name : m_out.functions[symbol.index].name;
}

// Names that other texts can see, or that this text takes from another.
bool Linker::is_shared_name(SymbolRef symbol) const {
    if (symbol.kind == SymbolRef::Kind::variable) return m_out.variables[symbol.index].linkage != Linkage::internal;
    const Function& function = m_out.functions[symbol.index];
    return function.linkage != Linkage::internal || (!function.has_body && !function.is_alias);
}

int Linker::strength_of(SymbolRef symbol) const {
    Linkage linkage = Linkage::internal;
    bool definition = true;
    if (symbol.kind == SymbolRef::Kind::variable) {
        linkage = m_out.variables[symbol.index].linkage;
    } else {
        linkage = m_out.functions[symbol.index].linkage;
        definition = m_out.functions[symbol.index].has_body || m_out.functions[symbol.index].is_alias;
    }
    if (linkage == Linkage::external || !definition) return 0;
    return linkage == Linkage::weak ? 2 : linkage == Linkage::common ? 1 : 3;
}

void Linker::check_agreement(SymbolRef winner, SymbolRef other) {
    bool agree = winner.kind == other.kind;
    if (agree && winner.kind == SymbolRef::Kind::variable) {
        const Variable &a = m_out.variables[winner.index], &b = m_out.variables[other.index];
        bool open = a.size_bytes == 0 || b.size_bytes == 0;
        agree = a.space == b.space && (open || a.size_bytes == b.size_bytes);
    } else if (agree) {
        const Function &a = m_out.functions[winner.index], &b = m_out.functions[other.index];
        auto same = [](const std::vector<Variable>& x, const std::vector<Variable>& y) {
            return std::equal(x.begin(), x.end(), y.begin(), y.end(),
                              [](const Variable& p, const Variable& q) { return p.size_bytes == q.size_bytes; });
        };
        agree = a.is_entry == b.is_entry && same(a.params, b.params) && same(a.returns, b.returns);
    }
    if (!agree) error(other, "declarations of '" + std::string(name_of(other)) + "' do not agree");
}

void Linker::offer(std::string_view name, SymbolRef symbol, int strength) {
    auto [place, added] = m_winners.try_emplace(name, Winner{symbol, strength});
    if (added) return;
    Winner& winner = place->second;
    check_agreement(winner.symbol, symbol);
    if (strength == 3 && winner.strength == 3) error(symbol, "multiple definition of '" + std::string(name) + "'");
    if (strength > winner.strength) winner = {symbol, strength};
}

// In the order of the inputs, so that of equals the first wins.
void Linker::choose() {
    for (uint32_t i = 0; i < m_out.variables.size(); i++) {
        SymbolRef symbol{SymbolRef::Kind::variable, i};
        if (is_shared_name(symbol)) offer(m_out.variables[i].name, symbol, strength_of(symbol));
    }
    for (uint32_t i = 0; i < m_out.functions.size(); i++) {
        // A declaration of something that its own text defines privately is not offered: the text's own table knows better.
        SymbolRef symbol{SymbolRef::Kind::function, i};
        SymbolRef own = m_out.find(m_out.functions[i].name, m_out.functions[i].unit);
        if (is_shared_name(symbol) && is_shared_name(own)) offer(m_out.functions[i].name, symbol, strength_of(symbol));
    }
}

// From now on each text's names lead to the winners.
void Linker::redirect() {
    m_keep_variable.assign(m_out.variables.size(), false);
    m_keep_function.assign(m_out.functions.size(), false);
    for (ptx::Unit& unit : m_out.units) {
        for (auto& [name, symbol] : unit.symbols) {
            if (is_shared_name(symbol)) {
                auto winner = m_winners.find(name_of(symbol));
                if (winner != m_winners.end()) symbol = winner->second.symbol;
            }
            (symbol.kind == SymbolRef::Kind::variable ? m_keep_variable : m_keep_function)[symbol.index] = true;
        }
    }
}

void Linker::report_unresolved() {
    for (const auto& [name, winner] : m_winners) {
        if (winner.strength > 0) continue;
        if (winner.symbol.kind == SymbolRef::Kind::variable) {
            // Dynamic shared memory is declared everywhere and defined nowhere.
            if (m_out.variables[winner.symbol.index].space == ptx::Space::shared) continue;
            error(winner.symbol, "unresolved extern variable '" + std::string(name) + "'");
        } else if (!m_options.is_provided || !m_options.is_provided(name)) {
            error(winner.symbol, "unresolved extern function '" + std::string(name) + "'");
        }
    }
    // The table above has no order; messages should.
    std::sort(m_result.diagnostics.begin(), m_result.diagnostics.end(), [](const ptx::Diagnostic& a, const ptx::Diagnostic& b) {
        return std::tie(a.unit, a.at.line, a.at.column) < std::tie(b.unit, b.at.line, b.at.column);
    });
}

LinkResult link(std::vector<std::unique_ptr<Module>> modules, const LinkOptions& options) {
    LinkResult result;
    if (modules.size() == 1) {
        result.module = std::move(modules[0]);
        modules.clear();
    } else {
        result.module = std::make_unique<Module>();
    }
    if (!Linker(std::move(modules), options, result).run()) {
        result.module.reset();
        result.cu_result = 218;  // CUDA_ERROR_INVALID_PTX
    }
    return result;
}

}  // namespace warpline::softgpu::passes
