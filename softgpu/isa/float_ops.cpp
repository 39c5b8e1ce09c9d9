// Floating-point arithmetic with directed rounding and saturation, and the approximations. Round to nearest is in
// level/float.cpp. PTX ISA: Floating-Point Instructions.
#include <cfloat>
#include <cmath>
#include <type_traits>

#include "softgpu/isa/decode_helpers.h"
#include "softgpu/isa/families.h"
#include "softgpu/isa/rounding.h"

namespace warpline::softgpu::isa {

namespace {

using exec::dest;
using exec::set_predicate;
using exec::source;

/// Instr::imm.
struct Spec {
    Rounding rounding = Rounding::nearest;
    bool ftz = false, sat = false;
    uint64_t pack() const { return uint64_t(rounding) | uint64_t{ftz} << 8 | uint64_t{sat} << 9; }
    static Spec unpack(uint64_t bits) { return {Rounding(bits & 0xff), (bits >> 8 & 1) != 0, (bits >> 9 & 1) != 0}; }
};

constexpr uint32_t k_nan32 = 0x7fffffff;

float flush(float value, bool ftz) { return ftz && std::fabs(value) < FLT_MIN ? std::copysign(0.0f, value) : value; }
double flush(double value, bool) { return value; }

float finish(float value, const Spec& spec) {
    value = flush(value, spec.ftz);
    if (spec.sat) return value > 0.0f ? (value < 1.0f ? value : 1.0f) : 0.0f;  // NaN becomes +0
    return std::isnan(value) ? __builtin_bit_cast(float, k_nan32) : value;
}
double finish(double value, const Spec&) { return value; }

struct Add {
    template <typename T>
    static T run(T a, T b, T) {
        return a + b;
    }
};
struct Sub {
    template <typename T>
    static T run(T a, T b, T) {
        return a - b;
    }
};
struct Mul {
    template <typename T>
    static T run(T a, T b, T) {
        return a * b;
    }
};
struct Div {
    template <typename T>
    static T run(T a, T b, T) {
        return a / b;
    }
};
struct Fma {
    template <typename T>
    static T run(T a, T b, T c) {
        return std::fma(a, b, c);
    }
};
struct Rcp {
    template <typename T>
    static T run(T a, T, T) {
        return T(1) / a;
    }
};
struct Sqrt {
    template <typename T>
    static T run(T a, T, T) {
        return std::sqrt(a);
    }
};
struct Rsqrt {
    template <typename T>
    static T run(T a, T, T) {
        return T(1.0 / std::sqrt(double(a)));
    }
};
struct Sin {
    template <typename T>
    static T run(T a, T, T) {
        return std::sin(a);
    }
};
struct Cos {
    template <typename T>
    static T run(T a, T, T) {
        return std::cos(a);
    }
};
struct Lg2 {
    template <typename T>
    static T run(T a, T, T) {
        return std::log2(a);
    }
};
struct Ex2 {
    template <typename T>
    static T run(T a, T, T) {
        return std::exp2(a);
    }
};
struct Tanh {
    template <typename T>
    static T run(T a, T, T) {
        return std::tanh(a);
    }
};

template <typename Op, typename T>
Flow arithmetic(Warp& w, const Instr& i, uint32_t mask) {
    const Spec spec = Spec::unpack(i.imm);
    const T* a = source<T>(w, i.op[1]);
    const T* b = source<T>(w, i.op[2]);
    const T* c = source<T>(w, i.op[3]);
    T* d = dest<T>(w, i.op[0]);
    RoundingScope scope(spec.rounding);
    for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
        auto l = uint32_t(__builtin_ctz(rest));
        d[l] = finish(Op::run(flush(a[l], spec.ftz), flush(b[l], spec.ftz), flush(c[l], spec.ftz)), spec);
    }
    return Flow::next;
}

/// rcp.approx.ftz.f64 and rsqrt.approx.ftz.f64: the upper half of the result; the lower one is zero.
template <bool Root>
Flow gross64(Warp& w, const Instr& i, uint32_t mask) {
    const double* a = source<double>(w, i.op[1]);
    auto* d = dest<uint64_t>(w, i.op[0]);
    for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
        auto l = uint32_t(__builtin_ctz(rest));
        double in = std::fabs(a[l]) < DBL_MIN ? std::copysign(0.0, a[l]) : a[l];
        double out = Root ? 1.0 / std::sqrt(in) : 1.0 / in;
        if (std::fabs(out) < DBL_MIN) out = std::copysign(0.0, out);
        d[l] = std::isnan(out) ? 0x7fffffff00000000u : __builtin_bit_cast(uint64_t, out) & 0xffffffff00000000u;
    }
    return Flow::next;
}

struct Words {
    Spec spec;
    bool is_f64 = false, approx = false;
};

/// False: a modifier that this file does not know.
bool parse_words(const DecodeContext& context, Words& out) {
    bool has_type = false;
    for (std::string_view m : context.modifiers()) {
        bool to_integer = false;
        if (m == "f32" || m == "f64") {
            has_type = true;
            out.is_f64 = m == "f64";
        } else if (m == "ftz") {
            out.spec.ftz = true;
        } else if (m == "sat") {
            out.spec.sat = true;
        } else if (m == "approx" || m == "full") {
            out.approx = true;
        } else if (!rounding_from(m, out.spec.rounding, to_integer) || to_integer) {
            return false;
        }
    }
    return has_type;
}

template <typename Op>
bool decode_operation(DecodeContext& context, uint32_t sources) {
    Words words;
    if (!parse_words(context, words) || context.operand_count() != sources + 1) return context.unsupported();
    uint8_t width = words.is_f64 ? 8 : 4;
    int32_t slots[4] = {};
    for (uint32_t s = 1; s <= sources; ++s) slots[s] = context.in(s, width, 0);
    for (uint32_t s = sources + 1; s < 4; ++s) slots[s] = slots[1];
    slots[0] = context.out(0, width, 0);
    Instr& instr = context.emit(words.is_f64 ? &arithmetic<Op, double> : &arithmetic<Op, float>);
    for (uint32_t s = 0; s < 4; ++s) instr.op[s] = slots[s];
    instr.imm = words.spec.pack();
    return true;
}

template <typename Op, uint32_t Sources>
bool decode(DecodeContext& context) {
    return decode_operation<Op>(context, Sources);
}

/// rcp and rsqrt have the gross f64 forms.
template <typename Op, bool Root>
bool decode_inverse(DecodeContext& context) {
    if (!(context.has("approx") && context.has("ftz") && context.has("f64"))) return decode_operation<Op>(context, 1);
    int32_t a = context.in(1, 8, 0);
    emit_simple(context, &gross64<Root>, context.out(0, 8, 0), a);
    return true;
}

/// Only f32 exists.
template <typename Op>
bool decode_f32(DecodeContext& context) {
    if (!context.has("f32")) return context.unsupported();
    return decode_operation<Op>(context, 1);
}

// --- testp

template <typename T, int... Classes>
Flow testp(Warp& w, const Instr& i, uint32_t mask) {
    const T* a = source<T>(w, i.op[1]);
    uint32_t bits = 0;
    for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
        auto l = uint32_t(__builtin_ctz(rest));
        int kind = std::fpclassify(a[l]);
        bits |= uint32_t{((kind == Classes) || ...)} << l;
    }
    set_predicate(w, i.op[0], bits, mask);
    return Flow::next;
}

#define WL_TESTP(word, ...)                                                       \
    {"testp." word ".f32", &testp<float, __VA_ARGS__>, {out_pred(), in(4)}, 0}, { \
        "testp." word ".f64", &testp<double, __VA_ARGS__>, {out_pred(), in(8)}, 0 \
    }

const Row k_rows[] = {
    WL_TESTP("finite", FP_NORMAL, FP_SUBNORMAL, FP_ZERO),
    WL_TESTP("infinite", FP_INFINITE),
    WL_TESTP("number", FP_NORMAL, FP_SUBNORMAL, FP_ZERO, FP_INFINITE),
    WL_TESTP("notanumber", FP_NAN),
    WL_TESTP("normal", FP_NORMAL, FP_ZERO),
    WL_TESTP("subnormal", FP_SUBNORMAL),
};

}  // namespace

void register_float(Registry& registry) {
    registry.add(k_rows);
    registry.add_decoder("add", &decode<Add, 2>);
    registry.add_decoder("sub", &decode<Sub, 2>);
    registry.add_decoder("mul", &decode<Mul, 2>);
    registry.add_decoder("div", &decode<Div, 2>);
    registry.add_decoder("fma", &decode<Fma, 3>);
    registry.add_decoder("mad", &decode<Fma, 3>);
    registry.add_decoder("sqrt", &decode<Sqrt, 1>);
    registry.add_decoder("rcp", &decode_inverse<Rcp, false>);
    registry.add_decoder("rsqrt", &decode_inverse<Rsqrt, true>);
    registry.add_decoder("sin", &decode_f32<Sin>);
    registry.add_decoder("cos", &decode_f32<Cos>);
    registry.add_decoder("lg2", &decode_f32<Lg2>);
    registry.add_decoder("ex2", &decode_f32<Ex2>);
    registry.add_decoder("tanh", &decode_f32<Tanh>);
}

}  // namespace warpline::softgpu::isa
