// tex, tld4 and txq. PTX ISA: Texture Instructions. Unified mode: the sampler is part of the texture.
#include "softgpu/exec/texture.h"

#include <cstring>

#include "softgpu/isa/decode_helpers.h"
#include "softgpu/isa/families.h"
#include "softgpu/isa/half_format.h"
#include "softgpu/isa/texture_handle.h"
#include "softgpu/isa/texture_sample.h"

namespace warpline::softgpu::isa {

namespace {

using exec::dest;
using exec::source;
using exec::TextureDescriptor;

using Spec = TextureSpec;
using Result = TextureResult;

TexturePoint point_of(const Warp& w, const Spec& spec, uint32_t lane) {
    TexturePoint point;
    point.integer_coordinates = spec.integer_coordinates;
    if (spec.geometry.layered) point.layer = source<uint32_t>(w, spec.layer)[lane];
    for (uint32_t c = 0; c < spec.coordinate_count; ++c) {
        if (spec.integer_coordinates)
            point.texel[c] = source<int32_t>(w, spec.coordinates[c])[lane];
        else
            point.at[c] = source<float>(w, spec.coordinates[c])[lane];
        if (spec.has_offset) point.offset[c] = source<int32_t>(w, spec.offset[c])[lane];
        if (spec.has_gradients) {
            point.along_x[c] = source<float>(w, spec.along_x[c])[lane];
            point.along_y[c] = source<float>(w, spec.along_y[c])[lane];
        }
    }
    point.has_gradients = spec.has_gradients;
    if (spec.has_level)  // as ptxas takes it: of the coordinates' kind
        point.level =
            spec.integer_coordinates ? float(source<int32_t>(w, spec.level)[lane]) : source<float>(w, spec.level)[lane];
    return point;
}

void write_result(Warp& w, const Spec& spec, uint32_t lane, const TexelValue& value) {
    uint32_t words[4], halves[4];
    std::memcpy(words, value.bits, sizeof words);
    if (spec.result != Result::words) {
        for (int c = 0; c < 4; ++c)
            halves[c] = encode(k_f16, double(__builtin_bit_cast(float, value.bits[c])), Rounding::nearest, false);
    }
    switch (spec.result) {
        case Result::words:
            for (int c = 0; c < 4; ++c) dest<uint32_t>(w, spec.d[c])[lane] = words[c];
            break;
        case Result::halves:
            for (int c = 0; c < 4; ++c) dest<uint16_t>(w, spec.d[c])[lane] = uint16_t(halves[c]);
            break;
        case Result::pairs:
            for (int c = 0; c < 2; ++c) dest<uint32_t>(w, spec.d[c])[lane] = halves[2 * c] | halves[2 * c + 1] << 16;
            break;
    }
}

}  // namespace

Flow fetch_lanes(Warp& w, const Instr& i, uint32_t mask) {
    const Spec& spec = *static_cast<const Spec*>(i.extra);
    TexelValue values[exec::k_warp_size];
    HandleLookup<TextureDescriptor> lookup(w, spec.handle, &exec::find_texture);
    for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
        auto lane = uint32_t(__builtin_ctz(rest));
        const TextureDescriptor* texture = lookup.find(lane);
        if (texture == nullptr) return w.raise(i, 700, lane, "no such texture", lookup.handle());
        TextureReader reader(*texture, w);
        TexturePoint point = point_of(w, spec, lane);
        bool sound = spec.gathers ? reader.gather(spec.geometry, point, spec.component, values[lane])
                                  : reader.sample(spec.geometry, point, values[lane]);
        if (!sound)
            return w.raise(i, 700, lane, "outside of the memory of a texture, or that is gone:", reader.fault_address());
    }
    for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
        auto lane = uint32_t(__builtin_ctz(rest));
        write_result(w, spec, lane, values[lane]);
    }
    if (spec.has_predicate) exec::set_predicate(w, spec.predicate, exec::k_full_mask, mask);  // all is resident
    return Flow::next;
}

namespace {

// --- decoding

bool parse_geometry(std::string_view word, TextureGeometry& out) {
    if (word == "1d")
        out = {1, false, false};
    else if (word == "2d")
        out = {2, false, false};
    else if (word == "3d")
        out = {3, false, false};
    else if (word == "a1d")
        out = {1, true, false};
    else if (word == "a2d")
        out = {2, true, false};
    else if (word == "cube")
        out = {3, false, true};
    else if (word == "acube")
        out = {3, true, true};
    else
        return false;
    return true;
}

/// Elements of a coordinate vector: layer and coordinates, padded to four if there are three.
uint32_t vector_length(uint32_t used) { return used == 3 ? 4 : used; }

bool parse_words(DecodeContext& context, Spec& spec) {
    bool has_geometry = false;
    std::string_view first_type, last_type;
    for (std::string_view word : context.modifiers()) {
        if (parse_geometry(word, spec.geometry)) {
            has_geometry = true;
        } else if (type_info(word).bytes != 0) {
            if (first_type.empty()) first_type = word;
            last_type = word;
        } else if (word == "level") {
            spec.has_level = true;
        } else if (word == "grad") {
            spec.has_gradients = true;
        } else if (word == "r" || word == "g" || word == "b" || word == "a") {
            spec.component = word == "r" ? 0 : word == "g" ? 1 : word == "b" ? 2 : 3;
        } else if (word != "base" && word != "v4" && word != "v2") {
            return false;  // multi-sampled geometries
        }
    }
    spec.integer_coordinates = last_type == "s32";
    spec.result = first_type == "f16x2" ? Result::pairs : first_type == "f16" ? Result::halves : Result::words;
    bool known = first_type == "f32" || first_type == "u32" || first_type == "s32" || spec.result != Result::words;
    return has_geometry && known && (spec.integer_coordinates || last_type == "f32") &&
           !(spec.geometry.cube && spec.integer_coordinates);
}

/// [texture, {layer, coordinates}]
bool read_coordinates(DecodeContext& context, Spec& spec) {
    const uint32_t used = spec.geometry.dimensions + spec.geometry.layered;
    if (context.element_count(1) != 1 + vector_length(used))
        return context.unsupported("an explicit sampler, or this number of coordinates");
    spec.handle = handle_operand(context, 1);
    uint32_t next = 1;
    if (spec.geometry.layered) spec.layer = context.in(1, 4, next++);
    spec.coordinate_count = spec.geometry.dimensions;
    for (uint32_t c = 0; c < spec.coordinate_count; ++c) spec.coordinates[c] = context.in(1, 4, next++);
    return true;
}

bool read_vector(DecodeContext& context, uint32_t operand, const Spec& spec, int32_t* slots) {
    if (context.element_count(operand) != vector_length(spec.geometry.dimensions))
        return context.invalid("wrong number of elements");
    for (uint32_t c = 0; c < spec.geometry.dimensions; ++c) slots[c] = context.in(operand, 4, c);
    return true;
}

/// What follows the address: lod, or dPdx and dPdy; then an offset. Depth compares are not supported.
bool read_more(DecodeContext& context, Spec& spec) {
    uint32_t next = 2;
    if (spec.has_level) spec.level = context.in(next++, 4);
    if (spec.has_gradients &&
        (!read_vector(context, next++, spec, spec.along_x) || !read_vector(context, next++, spec, spec.along_y)))
        return false;
    if (next < context.operand_count() && context.element_count(next) > 1 && !spec.geometry.cube) {
        spec.has_offset = true;
        if (!read_vector(context, next++, spec, spec.offset)) return false;
    }
    return next == context.operand_count() ? true : context.unsupported("a depth comparison, or an offset in one dimension,");
}

bool decode_fetch(DecodeContext& context, bool gathers) {
    auto* spec = context.storage<Spec>();
    new (spec) Spec;
    spec->gathers = gathers;
    if (!parse_words(context, *spec) || context.operand_count() < 2) return context.unsupported();
    if (gathers && spec->geometry.dimensions < 2) return context.unsupported();
    if (!read_coordinates(context, *spec) || !read_more(context, *spec)) return false;
    const uint32_t results = spec->result == Result::pairs ? 2 : 4;
    const uint32_t elements = context.element_count(0);
    if (elements != results && elements != results + 1) return context.invalid("wrong number of results");
    for (uint32_t c = 0; c < results; ++c) spec->d[c] = context.out(0, spec->result == Result::halves ? 2 : 4, c);
    spec->has_predicate = elements == results + 1;
    if (spec->has_predicate) spec->predicate = context.out_pred(0, results);
    // All lanes at once, or what stands for them where they cannot go together.
    const bool simple = !gathers && !spec->geometry.cube && !spec->has_gradients && spec->result == Result::words;
    Handler handler = simple ? context.handler("$tex.rows") : &fetch_lanes;
    if (handler == nullptr) return false;
    const uint32_t cache = context.new_range_cache();
    Instr& instr = context.emit(handler);
    instr.extra = spec;
    instr.cache = cache;
    return true;
}

bool decode_tex(DecodeContext& context) { return decode_fetch(context, false); }
bool decode_tld4(DecodeContext& context) { return decode_fetch(context, true); }

// --- txq

struct QuerySpec {
    HandleOperand handle;
    TextureQuery query = TextureQuery::width;
    bool has_level = false;
};

/// op[0] = d, op[1] = level.
Flow query(Warp& w, const Instr& i, uint32_t mask) {
    const QuerySpec& spec = *static_cast<const QuerySpec*>(i.extra);
    HandleLookup<TextureDescriptor> lookup(w, spec.handle, &exec::find_texture);
    uint32_t* d = dest<uint32_t>(w, i.op[0]);
    for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
        auto lane = uint32_t(__builtin_ctz(rest));
        const TextureDescriptor* texture = lookup.find(lane);
        if (texture == nullptr) return w.raise(i, 700, lane, "no such texture", lookup.handle());
        uint32_t level = spec.has_level ? source<uint32_t>(w, i.op[1])[lane] : 0;
        if (level >= texture->level_count) {
            d[lane] = 0;
            continue;
        }
        const exec::TextureLevel& of = texture->levels[level];
        switch (spec.query) {
            case TextureQuery::level_count: d[lane] = texture->level_count; break;
            case TextureQuery::normalised: d[lane] = texture->normalised_coordinates; break;
            default:
                d[lane] = answer_query(spec.query, of, texture->shape, texture->layers, texture->type, texture->channels);
                break;
        }
    }
    return Flow::next;
}

bool decode_txq(DecodeContext& context) {
    auto* spec = context.storage<QuerySpec>();
    new (spec) QuerySpec;
    spec->has_level = context.has("level");
    if (!parse_query(context, spec->query) || context.operand_count() != (spec->has_level ? 3u : 2u))
        return context.unsupported();
    spec->handle = handle_operand(context, 1);
    int32_t level = spec->has_level ? context.in(2, 4) : 0, d = context.out(0, 4);
    Instr& instr = context.emit(&query);
    instr.op[0] = d;
    instr.op[1] = level;
    instr.extra = spec;
    return true;
}

}  // namespace

void register_texture(Registry& registry) {
    registry.add_decoder("tex", &decode_tex);
    registry.add_decoder("tld4", &decode_tld4);
    registry.add_decoder("txq", &decode_txq);
}

}  // namespace warpline::softgpu::isa
