// The first operand of texture and surface instructions, and queries of what it names.
#pragma once

#include <cstring>

#include "softgpu/exec/texture.h"
#include "softgpu/isa/row_address.h"
#include "softgpu/isa/texture_spec.h"

namespace warpline::softgpu::isa {

inline HandleOperand handle_operand(DecodeContext& context, uint32_t operand) {
    Address address = context.address(operand, Space::generic);
    if (address.fixed) return {context.constant_row(uint64_t(address.displacement), 8), true};
    if (address.width != 8 || address.displacement != 0) context.unsupported("this address of a texture");
    return {address.slot, false};
}

/// Finds descriptors for the lanes of one instruction; most lanes name the same.
template <typename Descriptor>
class HandleLookup {
public:
    HandleLookup(Warp& warp, const HandleOperand& operand, const Descriptor* (*find)(uint64_t))
        : m_warp(warp), m_operand(operand), m_find(find) {}

    /// Null if the lane's handle names nothing.
    const Descriptor* find(uint32_t lane) {
        uint64_t value = exec::source<uint64_t>(m_warp, m_operand.slot)[lane];
        if (m_found != nullptr && value == m_value) return m_found;
        m_value = m_handle = value;
        m_found = m_operand.is_variable ? nullptr : m_find(value);
        // A register, too, may hold the address of a reference.
        if (m_found == nullptr && value != 0) {
            const std::byte* variable = m_warp.resolve_global(value, sizeof m_handle);
            if (variable != nullptr) std::memcpy(&m_handle, variable, sizeof m_handle);
            m_found = variable != nullptr ? m_find(m_handle) : nullptr;
        }
        return m_found;
    }
    uint64_t handle() const { return m_handle; }

private:
    Warp& m_warp;
    const HandleOperand& m_operand;
    const Descriptor* (*m_find)(uint64_t);
    uint64_t m_value = 0, m_handle = 0;
    const Descriptor* m_found = nullptr;
};

enum class TextureQuery : uint8_t { width, height, depth, array_size, data_type, order, level_count, normalised };

/// The query among the modifiers. False: not one that is answered here.
bool parse_query(const DecodeContext& context, TextureQuery& out);

/// Answers to the queries that textures and surfaces share.
uint32_t answer_query(TextureQuery query, const exec::TextureLevel& level, exec::TextureShape shape, uint32_t layers,
                      exec::TexelType type, uint32_t channels);

}  // namespace warpline::softgpu::isa
