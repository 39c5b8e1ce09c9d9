// The frequent ones of cvt with 16-bit floats and tf32: from and to f32. The others are in isa/half_convert.cpp.
#include "softgpu/isa/level/half_lanes.h"
#include "softgpu/isa/level/tables.h"

namespace warpline::softgpu::isa::WL_LEVEL {

namespace {

template <typename F>
Flow to_float(Warp& w, const Instr& i, uint32_t mask) {
    alignas(64) float out[32];
    widen_row<F, 32, false>(out, source<uint16_t>(w, i.op[1]));
    return fill(dest<float>(w, i.op[0]), mask, [&](uint32_t l) { return out[l] == out[l] ? out[l] : float_of(0x7fffffffu); });
}

template <typename F, unsigned Flags>
Flow from_float(Warp& w, const Instr& i, uint32_t mask) {
    alignas(64) uint16_t out[32];
    narrow_row<F, 32, Flags>(out, source<float>(w, i.op[1]));
    return put_row<32>(w, i.op[0], mask, out);
}

/// d = {lower half: b, upper half: a}.
template <typename F, unsigned Flags>
Flow pack_floats(Warp& w, const Instr& i, uint32_t mask) {
    alignas(64) uint16_t high[32], low[32];
    narrow_row<F, 32, Flags>(high, source<float>(w, i.op[1]));
    narrow_row<F, 32, Flags>(low, source<float>(w, i.op[2]));
    return fill(dest<uint32_t>(w, i.op[0]), mask, [&](uint32_t l) { return uint32_t{high[l]} << 16 | low[l]; });
}

enum class Tf32 { away, even, zero };

/// tf32 is a float whose last 13 bits are zero.
template <Tf32 Mode, unsigned Flags>
Flow to_tf32(Warp& w, const Instr& i, uint32_t mask) {
    const auto* a = source<uint32_t>(w, i.op[1]);
    return fill(dest<uint32_t>(w, i.op[0]), mask, [=](uint32_t l) {
        uint32_t bits = a[l], magnitude = bits & 0x7fffffffu;
        uint32_t carry = Mode == Tf32::away ? 0x1000u : Mode == Tf32::even ? 0xfffu + (magnitude >> 13 & 1u) : 0u;
        uint32_t out = magnitude >= 0x7f800000u ? magnitude : (magnitude + carry) & ~0x1fffu;
        if constexpr ((Flags & half_finite) != 0) out = out == 0x7f800000u ? 0x7f7fe000u : out;
        out |= bits & 0x80000000u;
        if constexpr ((Flags & half_relu) != 0) out = (bits & 0x80000000u) != 0 ? 0u : out;
        return magnitude > 0x7f800000u ? 0x7fffffffu : out;
    });
}

#define WL_FROM(words, type, F, flags)                                                   \
    {"cvt" words "." type ".f32", &from_float<F, flags>, {out(2), in(4)}, 0}, {          \
        "cvt" words "." type "x2.f32", &pack_floats<F, flags>, {out(4), in(4), in(4)}, 0 \
    }
#define WL_FROM_MODES(round, type, F, flags)                                            \
    WL_FROM(round, type, F, flags), WL_FROM(round ".relu", type, F, flags | half_relu), \
        WL_FROM(round ".satfinite", type, F, flags | half_finite),                      \
        WL_FROM(round ".relu.satfinite", type, F, flags | half_relu | half_finite)
#define WL_TF32(round, mode)                                                               \
    {"cvt" round ".tf32.f32", &to_tf32<mode, 0>, {out(4), in(4)}, 0}, {                    \
        "cvt" round ".satfinite.tf32.f32", &to_tf32<mode, half_finite>, {out(4), in(4)}, 0 \
    }
#define WL_TF32_RELU(round, mode)                                                                                \
    {"cvt" round ".relu.tf32.f32", &to_tf32<mode, half_relu>, {out(4), in(4)}, 0},                               \
        {"cvt" round ".satfinite.relu.tf32.f32", &to_tf32<mode, half_relu | half_finite>, {out(4), in(4)}, 0}, { \
        "cvt" round ".relu.satfinite.tf32.f32", &to_tf32<mode, half_relu | half_finite>, {out(4), in(4)}, 0      \
    }

const Row k_rows[] = {
    {"cvt.f32.f16", &to_float<F16>, {out(4), in(2)}, 0},
    {"cvt.ftz.f32.f16", &to_float<F16>, {out(4), in(2)}, 0},
    {"cvt.f32.bf16", &to_float<BF16>, {out(4), in(2)}, 0},
    WL_FROM_MODES(".rn", "f16", F16, 0),
    WL_FROM_MODES(".rz", "f16", F16, half_to_zero),
    WL_FROM_MODES(".rn", "bf16", BF16, 0),
    WL_FROM_MODES(".rz", "bf16", BF16, half_to_zero),
    WL_TF32(".rna", Tf32::away),
    WL_TF32(".rn", Tf32::even),
    WL_TF32(".rz", Tf32::zero),
    WL_TF32_RELU(".rn", Tf32::even),
    WL_TF32_RELU(".rz", Tf32::zero),
};

}  // namespace

Rows half_convert_rows() { return WL_ROWS(k_rows); }

}  // namespace warpline::softgpu::isa::WL_LEVEL
