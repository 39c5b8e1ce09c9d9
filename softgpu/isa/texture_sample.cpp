// Reads one texel or filters several.
#include "softgpu/isa/texture_sample.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "softgpu/isa/texture_cube.h"

namespace warpline::softgpu::isa {

namespace {

using exec::TextureAddress;
using exec::TextureDescriptor;
using exec::TextureLevel;
using exec::TextureShape;

constexpr int64_t k_one = 256;  ///< weights have eight bits after the point

float as_float(uint32_t bits) { return __builtin_bit_cast(float, bits); }
uint32_t as_bits(float value) { return __builtin_bit_cast(uint32_t, value); }

/// A coordinate in texels, in steps of 1/256. Too large ones and NaN stay where every address mode can take them.
int64_t to_fixed(double texels, bool linear) {
    if (std::isnan(texels)) texels = 0;
    texels = std::clamp(texels, -1e9, 1e9);
    return linear ? int64_t(std::floor((texels - 0.5) * double(k_one) + 0.5)) : int64_t(std::floor(texels)) * k_one;
}

/// Index of a texel in [0, size), or -1 for the border.
int64_t address(int64_t index, int64_t size, TextureAddress mode) {
    if (index >= 0 && index < size) return index;
    switch (mode) {
        case TextureAddress::wrap: return (index % size + size) % size;
        case TextureAddress::mirror: {
            int64_t within = (index % (2 * size) + 2 * size) % (2 * size);
            return within < size ? within : 2 * size - 1 - within;
        }
        case TextureAddress::clamp: return std::clamp<int64_t>(index, 0, size - 1);
        case TextureAddress::border: break;
    }
    return -1;
}

uint32_t size_of(const TextureLevel& level, uint32_t dimension) {
    return dimension == 0 ? level.width : dimension == 1 ? level.height : level.depth;
}

}  // namespace

TexelValue TextureReader::border() const {
    TexelValue out;
    if (m_texture.shape == TextureShape::linear) return out;  // beyond the end of memory: 0
    for (int c = 0; c < 4; ++c) {
        out.bits[c] = m_texture.integer_reads ? uint32_t(int64_t(m_texture.border[c])) : as_bits(m_texture.border[c]);
    }
    return out;
}

bool TextureReader::read(const TextureLevel& level, uint64_t x, uint64_t y, uint64_t z, TexelValue& out) {
    const std::byte* memory =
        level.base + z * level.slice_pitch_bytes + y * level.row_pitch_bytes + x * m_texture.element_bytes;
    if (m_texture.program_memory) {
        auto where = reinterpret_cast<uint64_t>(memory);
        bool known = where - m_range.begin < m_range.end - m_range.begin;
        if ((!known && !m_warp.find_range(where, m_range)) || m_range.end - where < m_texture.element_bytes) {
            m_fault_address = where;
            return false;
        }
    }
    out = decode_texel(m_texture.type, m_texture.channels, m_texture.integer_reads, m_texture.srgb, memory);
    return true;
}

/// One texel, by its index in each dimension before the address modes.
bool TextureReader::texel(const TextureGeometry& geometry, const TextureLevel& level, const int64_t* index, uint32_t slice,
                          TexelValue& out) {
    if (geometry.cube) {
        int64_t i = index[0], j = index[1];
        uint32_t face = slice % 6, size = level.width;
        if (m_texture.seamless_cube) cross_edge(face, i, j, size);
        i = address(i, size, m_texture.address[0]);
        j = address(j, size, m_texture.address[1]);
        if (i < 0 || j < 0) {
            out = border();
            return true;
        }
        return read(level, uint64_t(i), uint64_t(j), slice / 6 * 6 + face, out);
    }
    uint64_t at[3] = {0, 0, slice};
    for (uint32_t d = 0; d < geometry.dimensions; ++d) {
        bool linear_memory = m_texture.shape == TextureShape::linear;
        int64_t size = linear_memory ? int64_t(m_texture.linear_elements) : size_of(level, d);
        int64_t found = address(index[d], size, linear_memory ? TextureAddress::border : m_texture.address[d]);
        if (found < 0) {
            out = border();
            return true;
        }
        at[d] = uint64_t(found);
    }
    return read(level, at[0], at[1], at[2], out);
}

/// The texel, or the weighted sum of 2, 4 or 8 of them.
bool TextureReader::filter(const TextureGeometry& geometry, const TextureLevel& level, const Place& place, TexelValue& out) {
    const uint32_t dimensions = geometry.cube ? 2 : geometry.dimensions;
    int64_t first[3] = {}, weight[3] = {};
    for (uint32_t d = 0; d < dimensions; ++d) {
        first[d] = place.fixed[d] >> 8;
        weight[d] = place.fixed[d] & (k_one - 1);
    }
    bool point = !m_texture.linear_filter || m_texture.integer_reads || m_texture.shape == TextureShape::linear;
    if (point) return texel(geometry, level, first, place.slice, out);
    double sum[4] = {};
    for (uint32_t corner = 0; corner < 1u << dimensions; ++corner) {
        int64_t index[3] = {};
        double share = 1;
        for (uint32_t d = 0; d < dimensions; ++d) {
            bool upper = (corner >> d & 1) != 0;
            index[d] = first[d] + upper;
            share *= double(upper ? weight[d] : k_one - weight[d]) / double(k_one);
        }
        if (share == 0) continue;
        TexelValue value;
        if (!texel(geometry, level, index, place.slice, value)) return false;
        for (int c = 0; c < 4; ++c) sum[c] += share * double(as_float(value.bits[c]));
    }
    for (int c = 0; c < 4; ++c) out.bits[c] = as_bits(float(sum[c]));
    return true;
}

TextureReader::Place TextureReader::place_of(const TextureGeometry& geometry, const TexturePoint& point,
                                             const TextureLevel& level, bool linear) const {
    Place place;
    uint32_t layer = geometry.layered ? std::min(point.layer, m_texture.layers - 1) : 0;
    if (geometry.cube) {
        CubePlace cube = cube_place(point.at);
        place.slice = layer * 6 + cube.face;
        place.fixed[0] = to_fixed(double(cube.s) * level.width, linear);
        place.fixed[1] = to_fixed(double(cube.t) * level.width, linear);
        return place;
    }
    place.slice = layer;
    for (uint32_t d = 0; d < geometry.dimensions; ++d) {
        if (point.integer_coordinates) {
            place.fixed[d] = int64_t{point.texel[d]} * k_one;
        } else {
            double texels = point.at[d];
            if (m_texture.normalised_coordinates) {
                // Whole turns do not matter to wrapping and mirroring, and would cost bits.
                if (m_texture.address[d] == TextureAddress::wrap) texels -= std::floor(texels);
                if (m_texture.address[d] == TextureAddress::mirror) texels -= 2 * std::floor(texels / 2);
                texels *= size_of(level, d);
            }
            place.fixed[d] = to_fixed(texels, linear);
        }
        place.fixed[d] += int64_t{point.offset[d]} * k_one;
    }
    return place;
}

bool TextureReader::sample_level(const TextureGeometry& geometry, const TexturePoint& point, uint32_t level, TexelValue& out) {
    const TextureLevel& l = m_texture.levels[level];
    bool linear = m_texture.linear_filter && !m_texture.integer_reads && !point.integer_coordinates &&
                  m_texture.shape != TextureShape::linear;
    return filter(geometry, l, place_of(geometry, point, l, linear), out);
}

/// log2 of how many texels of the first level a step on the screen is. Anisotropy lowers it as far as it may.
float TextureReader::level_of_detail(const TextureGeometry& geometry, const TexturePoint& point) const {
    if (!point.has_gradients) return point.level;
    double along_x = 0, along_y = 0;
    for (uint32_t d = 0; d < geometry.dimensions; ++d) {
        double scale = geometry.cube                      ? m_texture.levels[0].width / 2.0
                       : m_texture.normalised_coordinates ? size_of(m_texture.levels[0], d)
                                                          : 1;
        along_x += point.along_x[d] * scale * point.along_x[d] * scale;
        along_y += point.along_y[d] * scale * point.along_y[d] * scale;
    }
    double major = std::sqrt(std::max(along_x, along_y)), minor = std::sqrt(std::min(along_x, along_y));
    double samples =
        minor > 0 ? std::min(std::ceil(major / minor), double(m_texture.max_anisotropy)) : double(m_texture.max_anisotropy);
    return major > 0 ? float(std::log2(major / samples)) : -1000.0f;
}

bool TextureReader::sample(const TextureGeometry& geometry, const TexturePoint& point, TexelValue& out) {
    const uint32_t last = m_texture.level_count - 1;
    if (last == 0) return sample_level(geometry, point, 0, out);
    float level = level_of_detail(geometry, point) + m_texture.level_bias;
    level = std::min(std::max(level, m_texture.min_level), std::max(m_texture.max_level, m_texture.min_level));
    level = level > 0 ? std::min(level, float(last)) : 0.0f;  // NaN, too
    if (!m_texture.linear_mipmaps) return sample_level(geometry, point, uint32_t(level + 0.5f), out);
    auto fixed = uint32_t(level * float(k_one) + 0.5f);
    uint32_t lower = fixed >> 8, weight = fixed & (k_one - 1);
    if (!sample_level(geometry, point, lower, out) || weight == 0 || m_texture.integer_reads) return m_fault_address == 0;
    TexelValue other;
    if (!sample_level(geometry, point, lower + 1, other)) return false;
    for (int c = 0; c < 4; ++c) {
        double a = as_float(out.bits[c]), b = as_float(other.bits[c]);
        out.bits[c] = as_bits(float(a + (b - a) * double(weight) / double(k_one)));
    }
    return true;
}

bool TextureReader::gather(const TextureGeometry& geometry, const TexturePoint& point, uint32_t component, TexelValue& out) {
    const TextureLevel& level = m_texture.levels[0];
    Place place = place_of(geometry, point, level, true);
    constexpr int k_order[4][2] = {{0, 1}, {1, 1}, {1, 0}, {0, 0}};
    for (int corner = 0; corner < 4; ++corner) {
        int64_t index[3] = {(place.fixed[0] >> 8) + k_order[corner][0], (place.fixed[1] >> 8) + k_order[corner][1], 0};
        TexelValue value;
        if (!texel(geometry, level, index, place.slice, value)) return false;
        out.bits[corner] = value.bits[component];
    }
    return true;
}

}  // namespace warpline::softgpu::isa
