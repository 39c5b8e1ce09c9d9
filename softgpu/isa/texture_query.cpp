// txq and suq: what textures and surfaces say of themselves.
#include "softgpu/isa/texture_handle.h"

namespace warpline::softgpu::isa {

namespace {

using exec::TexelType;
using exec::TextureShape;

/// Channel data types and orders have the numbers of OpenCL (PTX ISA, "Channel Data Type and Channel Order Fields").
uint32_t data_type(TexelType type) {
    switch (type) {
        case TexelType::snorm8: return 0x10d0;
        case TexelType::snorm16: return 0x10d1;
        case TexelType::unorm8: return 0x10d2;
        case TexelType::unorm16: return 0x10d3;
        case TexelType::s8: return 0x10d7;
        case TexelType::s16: return 0x10d8;
        case TexelType::s32: return 0x10d9;
        case TexelType::u8: return 0x10da;
        case TexelType::u16: return 0x10db;
        case TexelType::u32: return 0x10dc;
        case TexelType::f16: return 0x10dd;
        case TexelType::f32: return 0x10de;
    }
    return 0;
}

bool is_layered(TextureShape shape) {
    return shape == TextureShape::one_layered || shape == TextureShape::two_layered || shape == TextureShape::cube_layered;
}

}  // namespace

bool parse_query(const DecodeContext& context, TextureQuery& out) {
    static constexpr std::pair<std::string_view, TextureQuery> k_queries[] = {
        {"width", TextureQuery::width},
        {"height", TextureQuery::height},
        {"depth", TextureQuery::depth},
        {"array_size", TextureQuery::array_size},
        {"channel_data_type", TextureQuery::data_type},
        {"channel_order", TextureQuery::order},
        {"num_mipmap_levels", TextureQuery::level_count},
        {"normalized_coords", TextureQuery::normalised},
    };
    for (auto [word, query] : k_queries) {
        if (!context.has(word)) continue;
        out = query;
        return true;
    }
    return false;
}

uint32_t answer_query(TextureQuery query, const exec::TextureLevel& level, exec::TextureShape shape, uint32_t layers,
                      exec::TexelType type, uint32_t channels) {
    const bool flat = shape == TextureShape::linear || shape == TextureShape::one || shape == TextureShape::one_layered;
    switch (query) {
        case TextureQuery::width: return level.width;
        case TextureQuery::height: return flat ? 0 : level.height;
        case TextureQuery::depth: return shape == TextureShape::three ? level.depth : 0;
        case TextureQuery::array_size: return is_layered(shape) ? layers : 0;
        case TextureQuery::data_type: return data_type(type);
        case TextureQuery::order: return channels == 1 ? 0x10b0 : channels == 2 ? 0x10b2 : 0x10b5;
        default: return 0;
    }
}

}  // namespace warpline::softgpu::isa
