// Functions of halves, and sums and products that mix halves with f32. PTX ISA: ex2, tanh (Half Precision Floating Point
// Instructions), Mixed Precision Floating Point Instructions.
#include <cfloat>
#include <cmath>

#include "softgpu/isa/decode_helpers.h"
#include "softgpu/isa/families.h"
#include "softgpu/isa/half_format.h"

namespace warpline::softgpu::isa {

namespace {

using exec::dest;
using exec::source;

struct Exp2 {
    static double run(double a) { return std::exp2(a); }
};
struct Tanh {
    static double run(double a) { return std::tanh(a); }
};

uint16_t flushed(uint16_t half, const SmallFloat& format) {
    uint16_t exponent = uint16_t(((1u << format.exponent_bits) - 1) << format.mantissa_bits);
    return (half & exponent) == 0 ? uint16_t(half & 0x8000u) : half;
}

/// imm: bit 0 bf16, bit 1 ftz. N: values of a lane.
template <typename Op, unsigned N>
Flow function(Warp& w, const Instr& i, uint32_t mask) {
    const SmallFloat& format = (i.imm & 1) != 0 ? k_bf16 : k_f16;
    const bool ftz = (i.imm & 2) != 0;
    const auto* a = source<uint16_t>(w, i.op[1]);
    auto* d = dest<uint16_t>(w, i.op[0]);
    for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
        auto lane = uint32_t(__builtin_ctz(rest));
        for (uint32_t v = lane * N; v < lane * N + N; ++v) {
            uint16_t in = ftz ? flushed(a[v], format) : a[v];
            auto out = uint16_t(encode(format, Op::run(double(decode(format, in))), Rounding::nearest, false));
            d[v] = ftz ? flushed(out, format) : out;
        }
    }
    return Flow::next;
}

#define WL_FUNCTION(name, Op)                                                                                   \
    {name ".f16", &function<Op, 1>, {out(2), in(2)}, 0}, {name ".f16x2", &function<Op, 2>, {out(4), in(4)}, 0}, \
        {name ".bf16", &function<Op, 1>, {out(2), in(2)}, 1}, {                                                 \
        name ".bf16x2", &function<Op, 2>, {out(4), in(4)}, 1                                                    \
    }
const Row k_rows[] = {
    WL_FUNCTION("tanh.approx", Tanh),
    {"ex2.approx.f16", &function<Exp2, 1>, {out(2), in(2)}, 0},
    {"ex2.approx.f16x2", &function<Exp2, 2>, {out(4), in(4)}, 0},
    {"ex2.approx.ftz.bf16", &function<Exp2, 1>, {out(2), in(2)}, 3},
    {"ex2.approx.ftz.bf16x2", &function<Exp2, 2>, {out(4), in(4)}, 3},
};

// --- add, sub and fma with halves as sources and an f32 result

enum class Mixed { add, sub, fma };

struct MixedSpec {
    Rounding rounding = Rounding::nearest;
    bool sat = false;
    const SmallFloat* format = nullptr;
};

template <Mixed Op>
Flow mixed(Warp& w, const Instr& i, uint32_t mask) {
    const auto& spec = *static_cast<const MixedSpec*>(i.extra);
    const auto* a = source<uint16_t>(w, i.op[1]);
    const auto* b = source<uint16_t>(w, i.op[2]);
    const float* c = source<float>(w, i.op[3]);
    float* d = dest<float>(w, i.op[0]);
    float wide_a[exec::k_warp_size] = {}, wide_b[exec::k_warp_size] = {};
    for (uint32_t lane = 0; lane < exec::k_warp_size; ++lane) {
        wide_a[lane] = decode(*spec.format, a[lane]);
        wide_b[lane] = Op == Mixed::fma ? decode(*spec.format, b[lane]) : 1.0f;
    }
    RoundingScope scope(spec.rounding);
    for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
        auto lane = uint32_t(__builtin_ctz(rest));
        float value = Op == Mixed::fma   ? std::fma(wide_a[lane], wide_b[lane], c[lane])
                      : Op == Mixed::add ? wide_a[lane] + c[lane]
                                         : wide_a[lane] - c[lane];
        if (spec.sat) value = value > 0 ? std::fmin(value, 1.0f) : 0.0f;
        d[lane] = value == value ? value : __builtin_bit_cast(float, 0x7fffffffu);
    }
    return Flow::next;
}

/// add[.rnd][.sat].f32.f16 d, a, c; fma.rnd[.sat].f32.f16 d, a, b, c.
bool decode_mixed(DecodeContext& context, Handler handler, uint32_t operands, Decoder other) {
    std::string_view into, from;
    for (std::string_view word : context.modifiers()) {
        if (type_info(word).bytes == 0) continue;
        if (into.empty())
            into = word;
        else
            from = word;
    }
    bool ours = into == "f32" && (from == "f16" || from == "bf16");
    if (!ours) return other != nullptr ? other(context) : context.unsupported();
    auto* spec = context.storage<MixedSpec>();
    new (spec) MixedSpec;
    spec->format = small_float(from);
    for (std::string_view word : context.modifiers()) {
        bool to_integer = false;
        if (type_info(word).bytes != 0 || (rounding_from(word, spec->rounding, to_integer) && !to_integer)) continue;
        if (word != "sat") return context.unsupported();
        spec->sat = true;
    }
    if (context.operand_count() != operands) return context.invalid("wrong number of operands");
    int32_t a = context.in(1, 2), b = operands == 4 ? context.in(2, 2) : a, c = context.in(operands - 1, 4);
    int32_t d = context.out(0, 4);
    Instr& instr = context.emit(handler);
    instr.op[0] = d;
    instr.op[1] = a;
    instr.op[2] = b;
    instr.op[3] = c;
    instr.extra = spec;
    return true;
}

Decoder s_other_add = nullptr, s_other_sub = nullptr, s_other_fma = nullptr;
bool decode_add(DecodeContext& context) { return decode_mixed(context, &mixed<Mixed::add>, 3, s_other_add); }
bool decode_sub(DecodeContext& context) { return decode_mixed(context, &mixed<Mixed::sub>, 3, s_other_sub); }
bool decode_fma(DecodeContext& context) { return decode_mixed(context, &mixed<Mixed::fma>, 4, s_other_fma); }

}  // namespace

void register_half_math(Registry& registry) {
    registry.add(k_rows);
    s_other_add = registry.decoder("add");
    s_other_sub = registry.decoder("sub");
    s_other_fma = registry.decoder("fma");
    registry.add_decoder("add", &decode_add);
    registry.add_decoder("sub", &decode_sub);
    registry.add_decoder("fma", &decode_fma);
}

}  // namespace warpline::softgpu::isa
