// Labels, target lists and prototypes. Their names share one space, belong to the block they stand in, and may be used before
// they are declared: a use waits until the end of its block and then, if the block has no such name, for the one around it.
#include "softgpu/ptx/body_parser.h"

namespace warpline::softgpu::ptx {

bool BodyParser::labelled() {
    std::string_view name = token().text;
    Location at = token().at();
    advance();
    advance();
    if (is_dotted("branchtargets")) return target_list(name, at, false);
    if (is_dotted("calltargets")) return target_list(name, at, true);
    if (is_dotted("callprototype")) return prototype(name, at);
    auto index = static_cast<uint32_t>(m_body.labels.size());
    m_body.labels.push_back({name, static_cast<uint32_t>(m_body.instructions.size()), m_open.back().scope, at});
    item(BodyItem::Kind::label, index);
    m_places.push_back({name, {SymbolRef::Kind::label, index}});
    return true;
}

SymbolRef BodyParser::call_target(std::string_view name) {
    SymbolRef symbol = module().find(name, unit());
    return symbol.kind == SymbolRef::Kind::function ? symbol : SymbolRef{};
}

bool BodyParser::target_list(std::string_view name, Location at, bool calls) {
    auto index = static_cast<uint32_t>(m_body.targets.size());
    Targets targets{name, calls, {}, at};
    do {
        advance();
        std::string_view entry;
        Location entry_at = token().at();
        if (!expect_identifier(entry)) return false;
        if (targets.entries.size() >= Limits::k_text_bytes / 2) return error("too many targets");
        SymbolRef symbol;
        if (calls) {
            symbol = call_target(entry);
            if (!symbol) return error(DiagnosticKind::symbol, entry_at, "unknown function '" + std::string(entry) + "'");
        } else {
            m_pending.push_back(
                {Pending::Where::target, index, static_cast<uint32_t>(targets.entries.size()), entry, entry_at});
        }
        targets.entries.push_back(symbol);
    } while (is(','));
    m_body.targets.push_back(std::move(targets));
    item(BodyItem::Kind::targets, index);
    m_places.push_back({name, {SymbolRef::Kind::targets, index}});
    return expect(';');
}

// name: .callprototype [(rets)] _ [(params)] [.noreturn];
bool BodyParser::prototype(std::string_view name, Location at) {
    auto index = static_cast<uint32_t>(m_body.prototypes.size());
    Prototype prototype;
    prototype.name = name;
    prototype.at = at;
    advance();
    std::string_view placeholder;
    if (is('(') && !parameter_list(prototype.returns)) return false;
    if (!expect_identifier(placeholder)) return false;
    if (is('(') && !parameter_list(prototype.params)) return false;
    while (token().kind == TokenKind::dotted) {
        std::string_view word = token().text;
        advance();
        if (word == "noreturn")
            prototype.noreturn = true;
        else if (word == "abi_preserve" ? !expect_u32(prototype.abi_preserve)
                                        : word != "abi_preserve_control" || !expect_u32(prototype.abi_preserve_control))
            return unexpected("a directive of a prototype");
    }
    m_body.prototypes.push_back(std::move(prototype));
    item(BodyItem::Kind::prototype, index);
    m_places.push_back({name, {SymbolRef::Kind::prototype, index}});
    return expect(';');
}

void BodyParser::resolve(const Pending& pending, SymbolRef symbol) {
    bool fits = false;
    switch (pending.where) {
        case Pending::Where::operand:
            // bra wants a label, brx a list of labels; the opcode's check tells them apart.
            fits = symbol.kind == SymbolRef::Kind::label || symbol.kind == SymbolRef::Kind::targets;
            m_body.operands[pending.index].symbol = symbol;
            break;
        case Pending::Where::via:
            fits = symbol.kind == SymbolRef::Kind::targets || symbol.kind == SymbolRef::Kind::prototype;
            m_body.calls[pending.index].via = symbol;
            break;
        case Pending::Where::target:
            fits = symbol.kind == SymbolRef::Kind::label;
            m_body.targets[pending.index].entries[pending.entry] = symbol;
            break;
    }
    if (!fits) error(DiagnosticKind::symbol, pending.at, "'" + std::string(pending.name) + "' is not what is wanted here");
}

void BodyParser::resolve_scope() {
    Open open = m_open.back();
    std::unordered_map<std::string_view, SymbolRef> places;
    for (size_t i = open.places; i < m_places.size(); i++) {
        if (places.try_emplace(m_places[i].name, m_places[i].symbol).second) continue;
        SymbolRef symbol = m_places[i].symbol;
        Location at = symbol.kind == SymbolRef::Kind::label ? m_body.labels[symbol.index].at : Location{};
        error(DiagnosticKind::symbol, at, "duplicate definition of label '" + std::string(m_places[i].name) + "'");
    }
    m_places.resize(open.places);
    if (places.empty()) return;
    size_t kept = open.pending;
    for (size_t i = open.pending; i < m_pending.size(); i++) {
        auto found = places.find(m_pending[i].name);
        if (found != places.end())
            resolve(m_pending[i], found->second);
        else
            m_pending[kept++] = m_pending[i];
    }
    m_pending.resize(kept);
}

void BodyParser::report_unresolved() {
    for (const Pending& pending : m_pending)
        error(DiagnosticKind::symbol, pending.at, "unknown symbol '" + std::string(pending.name) + "'");
}

}  // namespace warpline::softgpu::ptx
