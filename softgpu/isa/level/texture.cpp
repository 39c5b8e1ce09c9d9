// tex of the common kinds, all lanes at once: one texture for all lanes, one level of detail, no cube, channels of 8, 16 and 32
// bits. The formulas and their order are those of isa/texture_sample.cpp, which does the rest: results are the same bits.
#include "softgpu/exec/texture.h"
#include "softgpu/isa/level/level.h"
#include "softgpu/isa/level/tables.h"
#include "softgpu/isa/texture_spec.h"

namespace warpline::softgpu::isa::WL_LEVEL {

namespace {

using exec::TexelType;
using exec::TextureAddress;
using exec::TextureDescriptor;
using exec::TextureLevel;
using exec::TextureShape;

/// What becomes of a channel.
struct Channel {
    u32 bytes = 4;
    bool is_signed = false;
    float largest = 0;  ///< to divide by; 0: the bits as they are
};

/// False for what is left to the general case.
bool describe_channel(const TextureDescriptor& t, Channel& out) {
    switch (t.type) {
        case TexelType::u8:
        case TexelType::unorm8: out = {1, false, 255.0f}; break;
        case TexelType::s8:
        case TexelType::snorm8: out = {1, true, 127.0f}; break;
        case TexelType::u16:
        case TexelType::unorm16: out = {2, false, 65535.0f}; break;
        case TexelType::s16:
        case TexelType::snorm16: out = {2, true, 32767.0f}; break;
        case TexelType::f32: return true;
        case TexelType::u32:
        case TexelType::s32: return t.integer_reads;
        default: return false;
    }
    if (t.integer_reads) out.largest = 0;
    return !t.srgb;
}

u32 size_of(const TextureDescriptor& t, u32 dimension) {
    if (t.shape == TextureShape::linear) return u32(t.linear_elements);
    const TextureLevel& level = t.levels[0];
    return dimension == 0 ? level.width : dimension == 1 ? level.height : level.depth;
}

/// Whether all of the texture's memory can be read, and offsets in it fit into 31 bits.
bool memory_is_sound(Warp& w, const Instr& i, const TextureDescriptor& t) {
    const TextureLevel& level = t.levels[0];
    if (t.linear_elements > 0x7fffffffu || level.width == 0 || level.height == 0 || level.depth == 0) return false;
    const u64 row = (t.shape == TextureShape::linear ? t.linear_elements : level.width) * t.element_bytes;
    const u64 bytes = u64{level.depth - 1} * level.slice_pitch_bytes + u64{level.height - 1} * level.row_pitch_bytes + row;
    if (bytes == 0 || bytes > 0x7fffffffu) return false;
    if (!t.program_memory) return true;
    const auto base = reinterpret_cast<u64>(level.base);
    exec::RangeCache& cache = w.caches[i.cache];
    auto holds = [&] { return base - cache.begin < cache.end - cache.begin && cache.end - base >= bytes; };
    return holds() || (w.find_range(base, cache) && holds());
}

/// The texture that all lanes name, if it is one of the common kinds. Null: the general case.
const TextureDescriptor* common_texture(Warp& w, const Instr& i, uint32_t mask, Channel& channel) {
    const auto& spec = *static_cast<const TextureSpec*>(i.extra);
    const u64* handles = source<u64>(w, spec.handle.slot);
    u64 handle = handles[__builtin_ctz(mask)];
    if ((ballot([=](uint32_t l) { return handles[l] != handle; }) & mask) != 0 || spec.handle.is_variable) return nullptr;
    const TextureDescriptor* t = exec::find_texture(handle);
    if (t == nullptr || t->level_count != 1 || !describe_channel(*t, channel) || !memory_is_sound(w, i, *t)) return nullptr;
    if (t->channels * channel.bytes != t->element_bytes) return nullptr;
    if (t->shape == TextureShape::linear && spec.geometry.dimensions != 1) return nullptr;
    // Integer coordinates into a filtered texture: rare.
    const bool filtered = t->linear_filter && !t->integer_reads && t->shape != TextureShape::linear;
    return spec.integer_coordinates && filtered ? nullptr : t;
}

struct alignas(64) Lanes {
    s32 index[32];      ///< of the texel, before the address mode
    double weight[32];  ///< of the next one, in 256ths
};

/// Where the lanes read in one dimension. (What a lane that is not active holds comes out as any index.)
WL_INLINE void find_place(Warp& w, const TextureSpec& spec, const TextureDescriptor& t, u32 dimension, bool linear,
                          Lanes& out) {
    if (spec.integer_coordinates) {
        const s32* at = source<s32>(w, spec.coordinates[dimension]);
        WL_LANES(l) {
            out.index[l] = at[l];
            out.weight[l] = 0;
        }
    } else {
        const float* at = source<float>(w, spec.coordinates[dimension]);
        alignas(64) double texels[32];
        WL_LANES(l) texels[l] = double(at[l]);
        if (t.normalised_coordinates) {
            const double size = size_of(t, dimension);
            if (t.address[dimension] == TextureAddress::wrap) WL_LANES(l) texels[l] -= __builtin_floor(texels[l]);
            if (t.address[dimension] == TextureAddress::mirror) WL_LANES(l) texels[l] -= 2 * __builtin_floor(texels[l] / 2);
            WL_LANES(l) texels[l] *= size;
        }
        WL_LANES(l) {
            double x = texels[l] == texels[l] ? texels[l] : 0.0;
            x = x < -1e9 ? -1e9 : x > 1e9 ? 1e9 : x;
            const double fixed = linear ? __builtin_floor((x - 0.5) * 256.0 + 0.5) : __builtin_floor(x) * 256.0;
            const double first = __builtin_floor(fixed / 256.0);
            out.index[l] = s32(first);
            out.weight[l] = fixed - first * 256.0;
        }
    }
    if (!spec.has_offset) return;
    const s32* offset = source<s32>(w, spec.offset[dimension]);
    WL_LANES(l) out.index[l] = s32(u32(out.index[l]) + u32(offset[l]));
}

s32 address_one(s32 index, s32 size, bool mirrors) {
    const int64_t period = mirrors ? 2 * int64_t{size} : size;
    const int64_t within = (index % period + period) % period;
    return s32(within < size ? within : period - 1 - within);
}

/// Indices in [0, size); lanes at the border get all bits in `outside`, and index 0.
WL_INLINE void apply_address(const s32* from, s32 step, s32 size, TextureAddress mode, s32* to, u32* outside) {
    if (mode == TextureAddress::clamp) {
        WL_LANES(l) {
            const s32 at = s32(u32(from[l]) + u32(step));
            to[l] = at < 0 ? 0 : at >= size ? size - 1 : at;
        }
        return;
    }
    if (mode == TextureAddress::border) {
        WL_LANES(l) {
            const s32 at = s32(u32(from[l]) + u32(step));
            const bool inside = u32(at) < u32(size);
            to[l] = inside ? at : 0;
            outside[l] |= inside ? 0 : ~u32{0};
        }
        return;
    }
    const bool mirrors = mode == TextureAddress::mirror;
    u32 left = 0;
    WL_LANES(l) {
        const s32 at = s32(u32(from[l]) + u32(step));
        const s32 below = mirrors ? -1 - at : at + size, above = mirrors ? 2 * size - 1 - at : at - size;
        to[l] = at < 0 ? below : at >= size ? above : at;
        left |= u32(u32(to[l]) >= u32(size));
    }
    if (left == 0) return;
    for (u32 l = 0; l < 32; ++l) to[l] = address_one(s32(u32(from[l]) + u32(step)), size, mirrors);
}

/// The bits of one channel of the lanes' texels, widened to 32.
WL_INLINE void read_channel(const std::byte* base, const u32* at, u32 element_bytes, const Channel& channel, u32 number,
                            u32* out) {
    const u32 begin = number * channel.bytes;
    u32 shift = 0;
    if (element_bytes >= 4) {
        shift = 8 * (begin & 3);
        base += begin & ~3u;
        WL_LANES(l) out[l] = *reinterpret_cast<const u32*>(base + at[l]);
    } else if (channel.bytes == 2) {
        for (u32 l = 0; l < 32; ++l) out[l] = *reinterpret_cast<const u16*>(base + begin + at[l]);
    } else {
        for (u32 l = 0; l < 32; ++l) out[l] = *reinterpret_cast<const u8*>(base + begin + at[l]);
    }
    if (channel.bytes == 4) return;
    const u32 above = 32 - 8 * channel.bytes, left = above - shift;
    if (channel.is_signed) {
        WL_LANES(l) out[l] = u32(s32(out[l] << left) >> above);
    } else {
        WL_LANES(l) out[l] = (out[l] << left) >> above;
    }
}

/// Bits to what the program gets.
WL_INLINE void convert_channel(const Channel& channel, u32* bits) {
    if (channel.largest == 0) return;
    const float largest = channel.largest;
    if (channel.is_signed) {
        WL_LANES(l) {
            const float value = float(s32(bits[l])) / largest;
            bits[l] = __builtin_bit_cast(u32, value < -1.0f ? -1.0f : value);
        }
    } else {
        WL_LANES(l) bits[l] = __builtin_bit_cast(u32, float(s32(bits[l])) / largest);
    }
}

u32 border_bits(const TextureDescriptor& t, u32 channel) {
    if (t.shape == TextureShape::linear) return 0;  // beyond the end of memory
    return t.integer_reads ? u32(int64_t(t.border[channel])) : __builtin_bit_cast(u32, t.border[channel]);
}

/// One corner of the cell around the lanes' points: offsets of the texels.
struct alignas(64) Corner {
    u32 at[32], outside[32];
};

class Fetch {
public:
    Fetch(Warp& warp, const TextureSpec& spec, const TextureDescriptor& texture, const Channel& channel)
        : w(warp), m_spec(spec), m_texture(texture), m_channel(channel), m_dimensions(spec.geometry.dimensions) {
        m_linear = texture.linear_filter && !texture.integer_reads && texture.shape != TextureShape::linear;
        for (u32 d = 0; d < m_dimensions; ++d) find_place(w, spec, texture, d, m_linear, m_places[d]);
        WL_LANES(l) m_slice[l] = 0;
        if (!spec.geometry.layered) return;
        const u32* layer = source<u32>(w, spec.layer);
        const u32 last = texture.layers - 1, pitch = u32(texture.levels[0].slice_pitch_bytes);
        WL_LANES(l) m_slice[l] = (layer[l] < last ? layer[l] : last) * pitch;
    }

    void run(uint32_t mask) {
        if (m_linear)
            blend(mask);
        else
            take(mask);
    }

private:
    WL_INLINE void find_corner(u32 number, uint32_t mask, Corner& out) const {
        const TextureLevel& level = m_texture.levels[0];
        const u32 pitch[3] = {m_texture.element_bytes, u32(level.row_pitch_bytes), u32(level.slice_pitch_bytes)};
        const bool is_linear_memory = m_texture.shape == TextureShape::linear;
        WL_LANES(l) {
            out.at[l] = m_slice[l];
            out.outside[l] = 0;
        }
        for (u32 d = 0; d < m_dimensions; ++d) {
            alignas(64) s32 index[32];
            const TextureAddress mode = is_linear_memory ? TextureAddress::border : m_texture.address[d];
            apply_address(m_places[d].index, s32(number >> d & 1), s32(size_of(m_texture, d)), mode, index, out.outside);
            const u32 step = pitch[d];
            WL_LANES(l) out.at[l] += u32(index[l]) * step;
        }
        if (mask == k_full_mask) return;
        const u32 first = out.at[__builtin_ctz(mask)];  // lanes that take no part read nothing of their own
        WL_LANES(l) out.at[l] = (mask & k_bits32.bit[l]) != 0 ? out.at[l] : first;
    }

    /// A channel of a corner's texels.
    WL_INLINE void read(const Corner& corner, u32 channel, u32* bits) const {
        read_channel(m_texture.levels[0].base, corner.at, m_texture.element_bytes, m_channel, channel, bits);
        convert_channel(m_channel, bits);
        const u32 border = border_bits(m_texture, channel);
        WL_LANES(l) bits[l] = corner.outside[l] != 0 ? border : bits[l];
    }

    WL_INLINE void write(u32 channel, const u32* bits, uint32_t mask) const {
        u32* d = dest<u32>(w, m_spec.d[channel]);
        Select<4>::run(d, bits, d, mask);
    }

    /// Channels that the texture lacks: 0, and 1 for the last. At the border they are the border's.
    WL_INLINE u32 missing(u32 channel) const {
        return channel < 3 ? 0 : m_texture.integer_reads ? 1 : __builtin_bit_cast(u32, 1.0f);
    }

    /// Not filtered.
    WL_INLINE void take(uint32_t mask) const {
        Corner corner;
        find_corner(0, mask, corner);
        alignas(64) u32 bits[4][32];
        for (u32 c = 0; c < 4; ++c) {
            if (c < m_texture.channels) {
                read(corner, c, bits[c]);
                continue;
            }
            const u32 inside = missing(c), border = border_bits(m_texture, c);
            WL_LANES(l) bits[c][l] = corner.outside[l] != 0 ? border : inside;
        }
        for (u32 c = 0; c < 4; ++c) write(c, bits[c], mask);
    }

    /// The weighted sum of 2, 4 or 8 texels.
    WL_INLINE void blend(uint32_t mask) const {
        alignas(64) double sum[4][32] = {};
        for (u32 number = 0; number < 1u << m_dimensions; ++number) {
            Corner corner;
            find_corner(number, mask, corner);
            alignas(64) double share[32];
            WL_LANES(l) share[l] = 1;
            for (u32 d = 0; d < m_dimensions; ++d) {
                const double* weight = m_places[d].weight;
                if ((number >> d & 1) != 0) {
                    WL_LANES(l) share[l] *= weight[l] / 256.0;
                } else {
                    WL_LANES(l) share[l] *= (256.0 - weight[l]) / 256.0;
                }
            }
            for (u32 c = 0; c < 4; ++c) {
                alignas(64) u32 bits[32];
                if (c < m_texture.channels) {
                    read(corner, c, bits);
                } else {
                    const u32 inside = missing(c), border = border_bits(m_texture, c);
                    WL_LANES(l) bits[l] = corner.outside[l] != 0 ? border : inside;
                }
                double* total = sum[c];
                // A texel without a share may be infinite.
                WL_LANES(l) {
                    const double more = total[l] + share[l] * double(__builtin_bit_cast(float, bits[l]));
                    total[l] = share[l] == 0 ? total[l] : more;
                }
            }
        }
        for (u32 c = 0; c < 4; ++c) {
            alignas(64) u32 bits[32];
            WL_LANES(l) bits[l] = __builtin_bit_cast(u32, float(sum[c][l]));
            write(c, bits, mask);
        }
    }

    Warp& w;
    const TextureSpec& m_spec;
    const TextureDescriptor& m_texture;
    const Channel& m_channel;
    const u32 m_dimensions;
    bool m_linear;
    Lanes m_places[3];
    alignas(64) u32 m_slice[32];
};

Flow fetch(Warp& w, const Instr& i, uint32_t mask) {
    Channel channel;
    const TextureDescriptor* texture = common_texture(w, i, mask, channel);
    if (texture == nullptr) return fetch_lanes(w, i, mask);
    const auto& spec = *static_cast<const TextureSpec*>(i.extra);
    Fetch(w, spec, *texture, channel).run(mask);
    if (spec.has_predicate) set_predicate(w, spec.predicate, k_full_mask, mask);  // all is resident
    return Flow::next;
}

const Row k_rows[] = {{"$tex.rows", &fetch, {}, 0}};

}  // namespace

Rows texture_rows() { return WL_ROWS(k_rows); }

}  // namespace warpline::softgpu::isa::WL_LEVEL
