// suld, sust, sured and suq. PTX ISA: Surface Instructions. Coordinates are whole numbers; x counts bytes, in the .p forms
// elements.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "softgpu/isa/async_reduce.h"
#include "softgpu/isa/decode_helpers.h"
#include "softgpu/isa/families.h"
#include "softgpu/isa/half_format.h"
#include "softgpu/isa/texture_handle.h"
#include "softgpu/isa/texture_sample.h"

namespace warpline::softgpu::isa {

namespace {

using exec::dest;
using exec::source;
using exec::SurfaceDescriptor;
using exec::TexelType;

enum class Outside : uint8_t { trap, clamp, zero };
enum class Access : uint8_t { load, store, store_formatted, reduce };

struct Spec {
    HandleOperand handle;
    Access access = Access::load;
    Outside outside = Outside::trap;
    bool layered = false, by_element = false;
    uint32_t dimensions = 2, count = 1;
    uint8_t memory_bytes = 4, register_bytes = 4;
    int32_t layer = 0, coordinates[3] = {};
    int32_t data[4] = {};
    BulkReduction reduce = nullptr;
    std::string_view operation;
};

enum class Found { inside, outside, fault };

/// The address of an access of `bytes` bytes. Outside: it takes no place (.zero), or the launch faults (.trap).
Found locate(const Warp& w, const Spec& spec, const SurfaceDescriptor& surface, uint32_t lane, uint32_t bytes, std::byte*& at) {
    const exec::TextureLevel& level = surface.level;
    int64_t place[3] = {0, 0, 0};
    for (uint32_t d = 0; d < spec.dimensions; ++d) place[d] = source<int32_t>(w, spec.coordinates[d])[lane];
    if (spec.by_element) place[0] *= surface.element_bytes;
    int64_t sizes[3] = {int64_t{level.width} * surface.element_bytes - bytes + 1, level.height, spec.layered ? 1 : level.depth};
    for (uint32_t d = 0; d < spec.dimensions; ++d) {
        if (place[d] >= 0 && place[d] < sizes[d]) continue;
        if (spec.outside == Outside::trap) return Found::fault;
        if (spec.outside == Outside::zero || sizes[d] <= 0) return Found::outside;
        int64_t last = d == 0 ? int64_t{level.width - 1} * surface.element_bytes : sizes[d] - 1;
        place[d] = place[d] < 0 ? 0 : last;
        if (d == 0 && place[0] + bytes > int64_t{level.width} * surface.element_bytes) return Found::outside;
    }
    uint64_t slice = uint64_t(place[2]);
    if (spec.layered) {
        slice = source<uint32_t>(w, spec.layer)[lane];
        if (slice >= level.depth) {
            if (spec.outside == Outside::trap) return Found::fault;
            if (spec.outside == Outside::zero) return Found::outside;
            slice = level.depth - 1;
        }
    }
    at = level.base + slice * level.slice_pitch_bytes + uint64_t(place[1]) * level.row_pitch_bytes + uint64_t(place[0]);
    return Found::inside;
}

/// Bits of a register's value as the surface keeps a channel.
uint32_t format_channel(TexelType type, uint32_t bits) {
    const float value = __builtin_bit_cast(float, bits);
    auto scaled = [value](float largest, float lowest) {
        return uint32_t(int32_t(std::nearbyint(std::fmin(std::fmax(value, lowest), 1.0f) * largest)));
    };
    switch (type) {
        case TexelType::f16: return encode(k_f16, double(value), Rounding::nearest, false);
        case TexelType::unorm8: return scaled(255.0f, 0.0f);
        case TexelType::unorm16: return scaled(65535.0f, 0.0f);
        case TexelType::snorm8: return scaled(127.0f, -1.0f);
        case TexelType::snorm16: return scaled(32767.0f, -1.0f);
        case TexelType::u8: return std::min(bits, 255u);
        case TexelType::u16: return std::min(bits, 65535u);
        case TexelType::s8: return uint32_t(std::clamp(int32_t(bits), -128, 127));
        case TexelType::s16: return uint32_t(std::clamp(int32_t(bits), -32768, 32767));
        default: return bits;
    }
}

void store_formatted(const Warp& w, const Spec& spec, const SurfaceDescriptor& surface, uint32_t lane, std::byte* at) {
    const uint32_t bytes = channel_bytes(surface.type);
    for (uint32_t c = 0; c < surface.channels && c < spec.count; ++c) {
        uint32_t value = format_channel(surface.type, source<uint32_t>(w, spec.data[c])[lane]);
        std::memcpy(at + c * bytes, &value, bytes);
    }
}

void copy_lane(Warp& w, const Spec& spec, uint32_t lane, std::byte* at) {
    for (uint32_t e = 0; e < spec.count; ++e) {
        std::byte* reg = dest<std::byte>(w, spec.data[e]) + lane * spec.register_bytes;
        if (spec.access == Access::load) {
            std::memset(reg, 0, spec.register_bytes);
            if (at != nullptr) std::memcpy(reg, at + e * spec.memory_bytes, spec.memory_bytes);
        } else {
            const std::byte* from = source<std::byte>(w, spec.data[e]) + lane * spec.register_bytes;
            std::memcpy(at + e * spec.memory_bytes, from, spec.memory_bytes);
        }
    }
}

Flow access(Warp& w, const Instr& i, uint32_t mask) {
    const Spec& spec = *static_cast<const Spec*>(i.extra);
    HandleLookup<SurfaceDescriptor> lookup(w, spec.handle, &exec::find_surface);
    for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
        auto lane = uint32_t(__builtin_ctz(rest));
        const SurfaceDescriptor* surface = lookup.find(lane);
        if (surface == nullptr) return w.raise(i, 700, lane, "no such surface", lookup.handle());
        uint32_t bytes =
            spec.access == Access::store_formatted ? surface->element_bytes : uint32_t{spec.memory_bytes} * spec.count;
        std::byte* at = nullptr;
        Found found = locate(w, spec, *surface, lane, bytes, at);
        if (found == Found::fault) return w.raise(i, 719, lane, "access outside of a surface");
        if (found == Found::inside && (reinterpret_cast<uint64_t>(at) & (spec.memory_bytes - 1)) != 0) {
            return w.raise(i, 716, lane, "misaligned access to a surface", reinterpret_cast<uint64_t>(at));
        }
        if (found == Found::outside && spec.access != Access::load) continue;
        switch (spec.access) {
            case Access::load:
            case Access::store: copy_lane(w, spec, lane, at); break;
            case Access::store_formatted: store_formatted(w, spec, *surface, lane, at); break;
            case Access::reduce: {
                BulkReduction reduce = spec.reduce;
                // sured.p takes the sign from the surface.
                if (spec.by_element && spec.memory_bytes == 4)
                    reduce = bulk_reduction(spec.operation, surface->type == TexelType::s32 ? "s32" : "u32");
                reduce(at, source<std::byte>(w, spec.data[0]) + lane * spec.register_bytes, spec.memory_bytes);
                break;
            }
        }
    }
    return Flow::next;
}

bool parse_words(DecodeContext& context, Spec& spec, std::string_view& type) {
    bool has_geometry = false;
    for (std::string_view word : context.modifiers()) {
        if (word == "1d" || word == "2d" || word == "3d" || word == "a1d" || word == "a2d") {
            has_geometry = true;
            spec.layered = word[0] == 'a';
            spec.dimensions = uint32_t(word[word.size() - 2] - '0');
        } else if (word == "trap" || word == "clamp" || word == "zero") {
            spec.outside = word == "trap" ? Outside::trap : word == "clamp" ? Outside::clamp : Outside::zero;
        } else if (word == "v2" || word == "v4") {
            spec.count = word == "v2" ? 2 : 4;
        } else if (word == "p") {
            spec.by_element = true;
        } else if (is_reduction(word)) {
            spec.operation = word;
        } else if (type_info(word).bytes != 0) {
            type = word;
        }
    }
    return has_geometry && !type.empty();
}

bool read_coordinates(DecodeContext& context, Spec& spec, uint32_t operand) {
    const uint32_t used = spec.dimensions + spec.layered;
    if (context.element_count(operand) != 1 + (used == 3 ? 4 : used)) return context.invalid("wrong number of coordinates");
    spec.handle = handle_operand(context, operand);
    uint32_t next = 1;
    if (spec.layered) spec.layer = context.in(operand, 4, next++);
    for (uint32_t d = 0; d < spec.dimensions; ++d) spec.coordinates[d] = context.in(operand, 4, next++);
    return true;
}

/// Registers may be wider than what is in memory.
bool read_data(DecodeContext& context, Spec& spec, uint32_t operand, bool is_result) {
    if (context.element_count(operand) != spec.count) return context.invalid("wrong number of registers");
    spec.register_bytes = std::max<uint8_t>(spec.memory_bytes, 2);
    for (uint32_t e = 0; e < spec.count; ++e)
        spec.register_bytes = std::max(spec.register_bytes, context.register_width(operand, e));
    for (uint32_t e = 0; e < spec.count; ++e) {
        spec.data[e] = is_result ? context.out(operand, spec.register_bytes, e) : context.in(operand, spec.register_bytes, e);
    }
    return true;
}

bool decode_access(DecodeContext& context, Access kind) {
    auto* spec = context.storage<Spec>();
    new (spec) Spec;
    std::string_view type;
    if (!parse_words(context, *spec, type) || context.operand_count() != 2) return context.unsupported();
    spec->access = kind == Access::store && spec->by_element ? Access::store_formatted : kind;
    spec->memory_bytes = type_info(type).bytes;
    if (kind == Access::load && spec->by_element) return context.unsupported();
    if (kind == Access::reduce) {
        // .b32 and .b64 of sured.p: as the surface is; .b32 of sured.b: and, or.
        std::string_view of = type == "b64" ? "u64" : type == "b32" && spec->by_element ? "u32" : type;
        spec->reduce = bulk_reduction(spec->operation, of);
        if (spec->reduce == nullptr || spec->count != 1 || spec->layered || (spec->by_element && spec->memory_bytes == 8))
            return context.unsupported();
    }
    const uint32_t memory = kind == Access::load ? 1 : 0, data = 1 - memory;
    if (!read_coordinates(context, *spec, memory) || !read_data(context, *spec, data, kind == Access::load)) return false;
    context.emit(&access).extra = spec;
    return true;
}

bool decode_suld(DecodeContext& context) { return decode_access(context, Access::load); }
bool decode_sust(DecodeContext& context) { return decode_access(context, Access::store); }
bool decode_sured(DecodeContext& context) { return decode_access(context, Access::reduce); }

struct QuerySpec {
    HandleOperand handle;
    TextureQuery query = TextureQuery::width;
};

Flow query(Warp& w, const Instr& i, uint32_t mask) {
    const QuerySpec& spec = *static_cast<const QuerySpec*>(i.extra);
    HandleLookup<SurfaceDescriptor> lookup(w, spec.handle, &exec::find_surface);
    uint32_t* d = dest<uint32_t>(w, i.op[0]);
    for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
        auto lane = uint32_t(__builtin_ctz(rest));
        const SurfaceDescriptor* surface = lookup.find(lane);
        if (surface == nullptr) return w.raise(i, 700, lane, "no such surface", lookup.handle());
        d[lane] = answer_query(spec.query, surface->level, surface->shape, surface->layers, surface->type, surface->channels);
    }
    return Flow::next;
}

bool decode_suq(DecodeContext& context) {
    auto* spec = context.storage<QuerySpec>();
    new (spec) QuerySpec;
    bool shared = parse_query(context, spec->query) && spec->query != TextureQuery::level_count &&
                  spec->query != TextureQuery::normalised;
    if (!shared || context.operand_count() != 2) return context.unsupported();
    spec->handle = handle_operand(context, 1);
    int32_t d = context.out(0, 4);
    Instr& instr = context.emit(&query);
    instr.op[0] = d;
    instr.extra = spec;
    return true;
}

}  // namespace

void register_surface(Registry& registry) {
    registry.add_decoder("suld", &decode_suld);
    registry.add_decoder("sust", &decode_sust);
    registry.add_decoder("sured", &decode_sured);
    registry.add_decoder("suq", &decode_suq);
}

}  // namespace warpline::softgpu::isa
