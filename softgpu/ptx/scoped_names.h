// Names inside bodies.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

#include "softgpu/ptx/ast.h"

namespace warpline::softgpu::ptx {

/// What a name means inside a body.
struct Binding {
    enum class Kind : uint8_t { reg, range, local, param, return_param };
    Kind kind = Kind::reg;
    uint32_t index = 0;     ///< RegId, first RegId of a range, or index of the variable
    uint32_t count = 1;     ///< registers of a range
    uint32_t sequence = 0;  ///< grows with each declaration: of two meanings the later one is the inner one
    uint32_t scope = 0;
    uint32_t hidden = UINT32_MAX;  ///< the binding of the same name that this one hides
    uint32_t slot = 0;
};

/// Names with nested scopes: an open-addressing table that keeps its keys when a scope ends and takes back only the meanings.
class ScopedNames {
public:
    ScopedNames() : m_slots(64) {}

    const Binding* find(std::string_view name) const {
        const Slot& slot = m_slots[slot_of(name)];
        return slot.binding == k_none ? nullptr : &m_bindings[slot.binding];
    }

    /// False if the innermost scope has this name already.
    bool declare(std::string_view name, Binding binding) {
        if ((m_used + 1) * 2 > m_slots.size()) grow();
        size_t index = slot_of(name);
        Slot& slot = m_slots[index];
        if (slot.binding != k_none && m_bindings[slot.binding].scope == m_scope) return false;
        if (slot.name.data() == nullptr) {
            slot.name = name;
            m_used++;
        }
        binding.scope = m_scope;
        binding.hidden = slot.binding;
        binding.slot = static_cast<uint32_t>(index);
        slot.binding = static_cast<uint32_t>(m_bindings.size());
        m_bindings.push_back(binding);
        return true;
    }

    void open() { m_scope++; }
    void close() {
        while (!m_bindings.empty() && m_bindings.back().scope == m_scope) {
            m_slots[m_bindings.back().slot].binding = m_bindings.back().hidden;
            m_bindings.pop_back();
        }
        m_scope--;
    }

private:
    static constexpr uint32_t k_none = UINT32_MAX;
    struct Slot {
        std::string_view name;
        uint32_t binding = k_none;
    };

    static uint64_t hash_of(std::string_view name) {
        uint64_t hash = name.size() * 0x9e3779b97f4a7c15u;
        const char* at = name.data();
        size_t left = name.size();
        for (; left >= 8; at += 8, left -= 8) {
            uint64_t part;
            std::memcpy(&part, at, 8);
            hash = (hash ^ part) * 0xff51afd7ed558ccdu;
            hash ^= hash >> 32;
        }
        uint64_t part = 0;
        for (size_t i = 0; i < left; i++) part |= uint64_t{static_cast<uint8_t>(at[i])} << (8 * i);
        hash = (hash ^ part) * 0xff51afd7ed558ccdu;
        return hash ^ (hash >> 32);
    }

    size_t slot_of(std::string_view name) const {
        size_t index = hash_of(name) & (m_slots.size() - 1);
        while (m_slots[index].name.data() != nullptr && !same_word(m_slots[index].name, name))
            index = (index + 1) & (m_slots.size() - 1);
        return index;
    }

    void grow() {
        std::vector<Slot> old(m_slots.size() * 2);
        old.swap(m_slots);
        for (const Slot& slot : old) {
            if (slot.name.data() == nullptr) continue;
            size_t index = slot_of(slot.name);
            m_slots[index] = slot;
            for (uint32_t b = slot.binding; b != k_none; b = m_bindings[b].hidden)
                m_bindings[b].slot = static_cast<uint32_t>(index);
        }
    }

    std::vector<Slot> m_slots;
    std::vector<Binding> m_bindings;
    size_t m_used = 0;
    uint32_t m_scope = 0;
};

}  // namespace warpline::softgpu::ptx
