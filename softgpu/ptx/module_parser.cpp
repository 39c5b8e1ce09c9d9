// Reads version, target, files, sections, variables and headers of functions.
#include "softgpu/ptx/module_parser.h"

#include <charconv>

namespace warpline::softgpu::ptx {
namespace {

constexpr uint32_t k_newest_sm = 121;
constexpr uint32_t k_newest_version = 95;

Linkage linkage_from(std::string_view word) {
    if (word == "visible") return Linkage::visible;
    if (word == "extern") return Linkage::external;
    if (word == "weak") return Linkage::weak;
    if (word == "common") return Linkage::common;
    return Linkage::internal;
}

std::string quoted(std::string_view name) { return "'" + std::string(name) + "'"; }

}  // namespace

bool ModuleParser::run() {
    while (!at_end() && !m_stop) {
        if (!statement() && !m_stop) next_statement();
    }
    if (!m_has_version && error_count() == 0) error("missing .version directive");
    if (!m_has_target && error_count() == 0) error("missing .target directive");
    return error_count() == 0 && resolve_addresses();
}

// After an error: to behind the next semicolon or body.
void ModuleParser::next_statement() {
    while (!at_end()) {
        if (accept(';')) return;
        if (!is('{')) {
            advance();
            continue;
        }
        std::string_view inside;
        m_stop = !lexer().skip_block(inside);
        advance();
        if (m_stop || (!is(',') && !is(';') && !is('}'))) return;
    }
}

bool ModuleParser::statement() {
    if (token().kind != TokenKind::dotted) return unexpected("a directive");
    std::string_view word = token().text;
    if (word == "version") return version();
    if (!m_has_version) {
        m_stop = true;
        return error("a PTX text must begin with .version");
    }
    if (word == "target") return target();
    if (word == "address_size") return address_size();
    if (word == "file") return file();
    if (word == "section") return section();
    if (word == "pragma") return pragma();
    if (word == "alias") return alias();
    if (word == "entry" || word == "func") return function(Linkage::internal);
    if (linkage_from(word) != Linkage::internal) return linked();
    Space space = space_from(word);
    if (space != Space::none && space != Space::reg && space != Space::param) return variables(Linkage::internal);
    return unexpected("a directive");
}

bool ModuleParser::version() {
    advance();
    Location at = token().at();
    uint32_t major_number = 0, minor_number = 0;
    std::string_view text = token().text;
    size_t point = text.find('.');
    auto number = [](std::string_view digits, uint32_t& out) {
        auto [end, status] = std::from_chars(digits.data(), digits.data() + digits.size(), out);
        return status == std::errc() && end == digits.data() + digits.size();
    };
    if (token().kind != TokenKind::real || point == std::string_view::npos || !number(text.substr(0, point), major_number) ||
        !number(text.substr(point + 1), minor_number) || major_number > 999 || minor_number > 999) {
        return unexpected("a version");
    }
    if (m_has_version) return error("duplicate .version directive");
    advance();
    m_has_version = true;
    m_module.version = {static_cast<uint16_t>(major_number), static_cast<uint16_t>(minor_number)};
    bool newer = major_number * 10 + std::min(minor_number, 9u) > k_newest_version || minor_number > 9;
    if (major_number < 1 || newer) {
        m_stop = true;
        return error(DiagnosticKind::version, at, "PTX .version " + std::string(text) + " is not supported; the newest is 9.5");
    }
    return true;
}

bool ModuleParser::target() {
    if (m_has_target) return error("duplicate .target directive");
    m_has_target = true;
    do {
        advance();
        std::string_view word;
        Location at = token().at();
        if (!expect_identifier(word)) return false;
        if (!target_word(word)) {
            m_stop = true;
            return error(DiagnosticKind::target, at, ".target " + std::string(word) + " is not supported");
        }
    } while (is(','));
    m_module.units[0].sm = m_module.target.sm;
    if (m_module.target.sm != 0) return true;
    m_stop = true;
    return error(DiagnosticKind::target, token().at(), ".target names no architecture");
}

bool ModuleParser::target_word(std::string_view word) {
    Target& target = m_module.target;
    if (word == "texmode_independent") return target.texmode_independent = true;
    if (word == "texmode_unified") return target.texmode_unified = true;
    if (word == "debug") return target.debug = true;
    if (word == "map_f64_to_f32") return target.map_f64_to_f32 = true;
    return word.starts_with("sm_") && architecture(word.substr(3));
}

bool ModuleParser::architecture(std::string_view word) {
    Target& target = m_module.target;
    auto [end, status] = std::from_chars(word.data(), word.data() + word.size(), target.sm);
    if (status != std::errc() || target.sm < 10 || target.sm > k_newest_sm) return false;
    std::string_view rest(end, static_cast<size_t>(word.data() + word.size() - end));
    if (rest.empty()) return true;
    // Of what only one architecture or family has, instructions that are not implemented say so when they are to run.
    if (rest != "a" && rest != "f") return false;
    target.suffix = rest[0];
    return true;
}

bool ModuleParser::address_size() {
    advance();
    Location at = token().at();
    if (!expect_u32(m_module.address_size)) return false;
    if (m_module.address_size == 64) return true;
    return error(DiagnosticKind::unsupported, at, "only .address_size 64 is supported");
}

// .file index "name"[, timestamp, size]
bool ModuleParser::file() {
    const char* begin = lexer().position();
    uint32_t index = 0;
    std::string_view name;
    advance();
    if (!expect_u32(index)) return false;
    const char* end = lexer().position();
    if (!expect_string(name)) return false;
    for (int i = 0; i < 2 && is(','); i++) {
        advance();
        if (token().kind != TokenKind::integer) return unexpected("a number");
        end = lexer().position();
        advance();
    }
    m_module.items.push_back({ModuleItem::Kind::file, static_cast<uint32_t>(m_module.files.size())});
    m_module.files.emplace_back(begin, static_cast<size_t>(end - begin));
    return true;
}

bool ModuleParser::section() {
    advance();
    Section section;
    if (token().kind != TokenKind::dotted && !is_identifier()) return unexpected("the name of a section");
    section.name = {token().begin, static_cast<size_t>(lexer().position() - token().begin)};
    advance();
    if (!is('{')) return unexpected("'{'");
    if (!lexer().skip_block(section.text)) {
        m_stop = true;
        return error("section " + quoted(section.name) + " has no end");
    }
    advance();
    m_module.items.push_back({ModuleItem::Kind::section, static_cast<uint32_t>(m_module.sections.size())});
    m_module.sections.push_back(section);
    return true;
}

bool ModuleParser::pragma() {
    do {
        advance();
        std::string_view text;
        if (!expect_string(text)) return false;
        m_module.items.push_back({ModuleItem::Kind::pragma, static_cast<uint32_t>(m_module.pragmas.size())});
        m_module.pragmas.push_back(text);
    } while (is(','));
    return expect(';');
}

bool ModuleParser::alias() {
    advance();
    std::string_view name, of;
    Location at = token().at();
    if (!expect_identifier(name) || !expect(',') || !expect_identifier(of) || !expect(';')) return false;
    SymbolRef alias = m_module.find(name), target = m_module.find(of);
    if (alias.kind != SymbolRef::Kind::function || target.kind != SymbolRef::Kind::function)
        return error(DiagnosticKind::symbol, at, "an alias needs two declared functions");
    Function& function = m_module.functions[alias.index];
    if (function.has_body || function.is_alias || !m_module.functions[target.index].has_body)
        return error(DiagnosticKind::symbol, at, quoted(name) + " cannot be an alias of " + quoted(of));
    function.is_alias = true;
    function.alias_of = target.index;
    m_module.items.push_back({ModuleItem::Kind::alias, alias.index});
    return true;
}

bool ModuleParser::linked() {
    Linkage linkage = linkage_from(token().text);
    advance();
    if (token().kind != TokenKind::dotted) return unexpected("a variable or a function");
    if (is_dotted("entry") || is_dotted("func")) return function(linkage);
    Space space = space_from(token().text);
    if (space == Space::none || space == Space::reg || space == Space::param) return unexpected("a variable or a function");
    return variables(linkage);
}

bool ModuleParser::variables(Linkage linkage) {
    std::vector<Variable> declared;
    if (!variable_declaration(linkage, declared)) return false;
    for (Variable& variable : declared)
        if (!add_variable(std::move(variable))) return false;
    return true;
}

bool ModuleParser::add_variable(Variable variable) {
    auto index = static_cast<uint32_t>(m_module.variables.size());
    SymbolRef here{SymbolRef::Kind::variable, index};
    auto [place, added] = m_module.units[0].symbols.try_emplace(variable.name, here);
    if (!added) {
        bool both_variables = place->second.kind == SymbolRef::Kind::variable;
        bool earlier_is_declaration = both_variables && m_module.variables[place->second.index].linkage == Linkage::external;
        bool this_is_declaration = variable.linkage == Linkage::external;
        if (!both_variables || (!earlier_is_declaration && !this_is_declaration))
            return error(DiagnosticKind::symbol, variable.at, "duplicate definition of variable " + quoted(variable.name));
        if (!this_is_declaration) place->second = here;
    }
    m_module.items.push_back({ModuleItem::Kind::variable, index});
    m_module.variables.push_back(std::move(variable));
    return true;
}

// Names in initialisers may stand before the definition that they end up meaning.
bool ModuleParser::resolve_addresses() {
    for (Variable& variable : m_module.variables) {
        for (InitAddress& address : variable.init_addresses) {
            address.symbol = m_module.find(address.name);
            if (!address.symbol)
                error(DiagnosticKind::symbol, address.at, "invalid initial value symbol " + quoted(address.name));
        }
    }
    return error_count() == 0;
}

}  // namespace warpline::softgpu::ptx
