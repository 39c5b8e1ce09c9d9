// Finds handlers and decoders by name.
#include "softgpu/isa/registry.h"

#include <unordered_map>

#include "common/log/log.h"
#include "softgpu/isa/families.h"

namespace warpline::softgpu::isa {

namespace {

/// Opcode and modifiers as 16-bit numbers, packed into a string: the key of the table.
using Key = std::u16string;

bool key_of(std::string_view name, Key& key) {
    size_t dot = name.find('.');
    ptx::Opcode opcode = ptx::opcode_from(name.substr(0, dot));
    if (opcode == ptx::Opcode::count) return false;
    key.push_back(char16_t(opcode));
    while (dot != std::string_view::npos) {
        name.remove_prefix(dot + 1);
        dot = name.find('.');
        ptx::Mod mod = ptx::mod_from(name.substr(0, dot));
        if (mod == ptx::Mod::count) return false;
        key.push_back(char16_t(mod));
    }
    return true;
}

}  // namespace

struct Registry::Impl {
    std::unordered_map<Key, const Row*> rows;
    std::unordered_map<std::string_view, Handler> handlers;
    std::unordered_map<std::string_view, Decoder> decoders;
};

Registry::Registry() : m_impl(std::make_unique<Impl>()) {
    m_impl->rows.reserve(8192);
    m_impl->handlers.reserve(2048);
}
Registry::~Registry() = default;

void Registry::add(Rows rows) {
    for (uint32_t i = 0; i < rows.count; ++i) {
        const Row& row = rows.first[i];
        if (row.name[0] == '$') {
            m_impl->handlers[row.name] = row.handler;
            continue;
        }
        Key key;
        if (!key_of(row.name, key)) {
            WL_LOG(error, "softgpu", "instruction table: no such instruction: {}", row.name);
            continue;
        }
        m_impl->rows[std::move(key)] = &row;
    }
}

void Registry::add_decoder(std::string_view opcode, Decoder decoder) { m_impl->decoders[opcode] = decoder; }

const Row* Registry::find(ptx::Opcode opcode, std::span<const ptx::Mod> modifiers) const {
    char16_t small[16];
    if (modifiers.size() >= std::size(small)) return nullptr;
    small[0] = char16_t(opcode);
    for (size_t i = 0; i < modifiers.size(); ++i) small[i + 1] = char16_t(modifiers[i]);
    auto found = m_impl->rows.find(Key(small, modifiers.size() + 1));
    return found == m_impl->rows.end() ? nullptr : found->second;
}

Handler Registry::handler(std::string_view name) const {
    auto found = m_impl->handlers.find(name);
    return found == m_impl->handlers.end() ? nullptr : found->second;
}

Decoder Registry::decoder(std::string_view opcode) const {
    auto found = m_impl->decoders.find(opcode);
    return found == m_impl->decoders.end() ? nullptr : found->second;
}

const Registry& Registry::instance() {
    // Leaked on purpose: kernels may still be decoded while the process's static objects are being destroyed.
    static const Registry& registry = []() -> const Registry& {
        auto* made = new Registry;
        register_all(*made);
        return *made;
    }();
    return registry;
}

}  // namespace warpline::softgpu::isa
