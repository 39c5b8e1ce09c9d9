// atom and red on halves and pairs of them, and on vectors, where each element is an atomic operation of its own.
// PTX ISA: atom, red.
#include <cmath>

#include "softgpu/isa/decode_helpers.h"
#include "softgpu/isa/families.h"
#include "softgpu/isa/half_format.h"
#include "softgpu/isa/row_address.h"

namespace warpline::softgpu::isa {

namespace {

using exec::dest;
using exec::k_warp_size;
using exec::source;

enum class Operation : uint8_t { add, min, max };
enum class Element : uint8_t { f16, bf16, f32 };

uint16_t half_result(Operation operation, const SmallFloat& format, uint16_t a, uint16_t b) {
    double x = decode(format, a), y = decode(format, b), out = 0;
    switch (operation) {
        case Operation::add: out = x + y; break;
        case Operation::min: out = std::isnan(x) ? y : std::isnan(y) || x < y || (x == y && std::signbit(x)) ? x : y; break;
        case Operation::max: out = std::isnan(x) ? y : std::isnan(y) || x > y || (x == y && !std::signbit(x)) ? x : y; break;
    }
    return uint16_t(encode(format, out, Rounding::nearest, false));
}

struct Spec {
    Operation operation = Operation::add;
    Element element = Element::f16;
    uint8_t lane_bytes = 2;  ///< of one register
    uint8_t count = 1;
    bool has_result = false;
    RowAddress address;
    int32_t b[8] = {}, d[8] = {};
};

/// New value of a word of 2 or 4 bytes.
uint32_t next_value(const Spec& spec, uint32_t old, uint32_t b) {
    if (spec.element == Element::f32) {
        return __builtin_bit_cast(uint32_t, __builtin_bit_cast(float, old) + __builtin_bit_cast(float, b));
    }
    const SmallFloat& format = spec.element == Element::f16 ? k_f16 : k_bf16;
    uint32_t low = half_result(spec.operation, format, uint16_t(old), uint16_t(b));
    if (spec.lane_bytes == 2) return low;
    return low | uint32_t{half_result(spec.operation, format, uint16_t(old >> 16), uint16_t(b >> 16))} << 16;
}

template <typename T>
T update(const Spec& spec, std::byte* at, T b) {
    T* word = reinterpret_cast<T*>(at);
    T old = __atomic_load_n(word, __ATOMIC_SEQ_CST);
    while (!__atomic_compare_exchange_n(word, &old, T(next_value(spec, old, b)), true, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
    }
    return old;
}

template <typename T>
Flow atomic(Warp& w, const Instr& i, uint32_t mask) {
    const Spec& spec = *static_cast<const Spec*>(i.extra);
    const uint32_t bytes = spec.lane_bytes * spec.count;
    std::byte* at[k_warp_size];
    if (!resolve(w, i, mask, spec.address, bytes, bytes, at)) return Flow::fault;
    note_access(w, i, mask, at, bytes, exec::AccessKind::atomic);
    for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
        auto lane = uint32_t(__builtin_ctz(rest));
        T old[8];
        for (uint32_t e = 0; e < spec.count; ++e) {
            old[e] = update<T>(spec, at[lane] + e * sizeof(T), source<T>(w, spec.b[e])[lane]);
        }
        for (uint32_t e = 0; e < spec.count && spec.has_result; ++e) dest<T>(w, spec.d[e])[lane] = old[e];
    }
    return Flow::next;
}

bool parse(DecodeContext& context, Spec& spec, Space& space) {
    bool known = false;
    for (std::string_view word : context.modifiers()) {
        space = space_word(word, space);
        if (word == "add" || word == "min" || word == "max") {
            known = true;
            spec.operation = word == "add" ? Operation::add : word == "min" ? Operation::min : Operation::max;
        }
        if (word == "v2") spec.count = 2;
        if (word == "v4") spec.count = 4;
        if (word == "v8") spec.count = 8;
        if (type_info(word).bytes != 0) spec.lane_bytes = type_info(word).bytes;
        if (word == "bf16" || word == "bf16x2") spec.element = Element::bf16;
        if (word == "f32") spec.element = Element::f32;
    }
    return known && (spec.element != Element::f32 || spec.operation == Operation::add) && spec.lane_bytes * spec.count <= 16;
}

bool is_ours(const DecodeContext& context) {
    bool half = context.has("f16") || context.has("f16x2") || context.has("bf16") || context.has("bf16x2");
    bool vector = context.has("v2") || context.has("v4") || context.has("v8");
    return !context.has("async") && (half || (vector && context.has("f32")));
}

bool decode(DecodeContext& context, bool has_result, Decoder other) {
    if (!is_ours(context)) return other != nullptr ? other(context) : context.unsupported();
    auto* spec = context.storage<Spec>();
    new (spec) Spec;
    Space space = Space::generic;
    if (!parse(context, *spec, space)) return context.unsupported();
    const uint32_t memory = has_result ? 1 : 0;
    if (context.operand_count() < memory + 2) return context.invalid("an operand is missing");
    if (context.element_count(memory + 1) != spec->count) return context.invalid("wrong number of elements");
    spec->address = row_address(context, memory, space, true);
    spec->has_result = has_result && !(spec->count == 1 && context.is_sink(0));
    for (uint32_t e = 0; e < spec->count; ++e) spec->b[e] = context.in(memory + 1, spec->lane_bytes, e);
    if (spec->has_result && context.element_count(0) != spec->count) return context.invalid("wrong number of elements");
    for (uint32_t e = 0; e < spec->count && spec->has_result; ++e) spec->d[e] = context.out(0, spec->lane_bytes, e);
    emit_spin_hint(context);
    uint32_t cache = context.new_range_cache();
    Instr& instr = context.emit(spec->lane_bytes == 2 ? &atomic<uint16_t> : &atomic<uint32_t>);
    instr.extra = spec;
    instr.cache = cache;
    return true;
}

Decoder s_other_atom = nullptr, s_other_red = nullptr;
bool decode_atom(DecodeContext& context) { return decode(context, true, s_other_atom); }
bool decode_red(DecodeContext& context) { return decode(context, false, s_other_red); }

}  // namespace

void register_half_atomic(Registry& registry) {
    s_other_atom = registry.decoder("atom");
    s_other_red = registry.decoder("red");
    registry.add_decoder("atom", &decode_atom);
    registry.add_decoder("red", &decode_red);
}

}  // namespace warpline::softgpu::isa
