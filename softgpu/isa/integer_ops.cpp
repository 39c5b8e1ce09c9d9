// Integer instructions that are too rare for level/: masks of bits, the modes of prmt, 24-bit products.
// PTX ISA: Integer Arithmetic, Logic and Shift Instructions.
#include <algorithm>
#include <limits>
#include <type_traits>

#include "softgpu/isa/decode_helpers.h"
#include "softgpu/isa/families.h"

namespace warpline::softgpu::isa {

namespace {

using exec::dest;
using exec::source;

template <typename D, typename F>
Flow each(Warp& w, const Instr& i, uint32_t mask, F&& f) {
    D* d = dest<D>(w, i.op[0]);
    for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
        auto l = uint32_t(__builtin_ctz(rest));
        d[l] = D(f(l));
    }
    return Flow::next;
}

// --- bits

/// fns: the |offset|-th set bit from `base` upwards (or downwards).
Flow fns(Warp& w, const Instr& i, uint32_t mask) {
    const uint32_t* a = source<uint32_t>(w, i.op[1]);
    const uint32_t* base = source<uint32_t>(w, i.op[2]);
    const int32_t* offset = source<int32_t>(w, i.op[3]);
    return each<uint32_t>(w, i, mask, [&](uint32_t l) -> uint32_t {
        if (base[l] > 31) return 0xffffffffu;
        if (offset[l] == 0) return (a[l] >> base[l] & 1) != 0 ? base[l] : 0xffffffffu;
        int step = offset[l] > 0 ? 1 : -1, left = std::abs(std::clamp(offset[l], -64, 64));
        for (int at = int(base[l]); at >= 0 && at < 32; at += step) {
            if ((a[l] >> at & 1) != 0 && --left == 0) return uint32_t(at);
        }
        return 0xffffffffu;
    });
}

template <bool Wrap>
Flow bmsk(Warp& w, const Instr& i, uint32_t mask) {
    const uint32_t* a = source<uint32_t>(w, i.op[1]);
    const uint32_t* b = source<uint32_t>(w, i.op[2]);
    return each<uint32_t>(w, i, mask, [&](uint32_t l) -> uint32_t {
        uint32_t start = Wrap ? a[l] & 31 : std::min(a[l], 32u), length = Wrap ? b[l] & 31 : std::min(b[l], 32u);
        if (length == 0 || start >= 32) return 0;
        uint64_t ones = (1ull << length) - 1;
        return uint32_t(ones << start);
    });
}

template <typename T, bool Wrap>
Flow szext(Warp& w, const Instr& i, uint32_t mask) {
    const uint32_t* a = source<uint32_t>(w, i.op[1]);
    const uint32_t* b = source<uint32_t>(w, i.op[2]);
    return each<uint32_t>(w, i, mask, [&](uint32_t l) -> uint32_t {
        uint32_t length = Wrap ? b[l] & 31 : std::min(b[l], 32u);
        if (length == 0) return 0;
        if (length == 32) return a[l];
        uint32_t low = a[l] & ((1u << length) - 1);
        bool negative = std::is_signed_v<T> && (low >> (length - 1) & 1) != 0;
        return negative ? low | ~0u << length : low;
    });
}

// --- prmt

enum class Permute { f4e, b4e, rc8, ecl, ecr, rc16 };

uint32_t selector_of(Permute mode, uint32_t control) {
    constexpr uint16_t k_f4e[] = {0x3210, 0x4321, 0x5432, 0x6543};
    constexpr uint16_t k_b4e[] = {0x5670, 0x6701, 0x7012, 0x0123};
    constexpr uint16_t k_rc8[] = {0x0000, 0x1111, 0x2222, 0x3333};
    constexpr uint16_t k_ecl[] = {0x3210, 0x3211, 0x3222, 0x3333};
    constexpr uint16_t k_ecr[] = {0x0000, 0x1110, 0x2210, 0x3210};
    constexpr uint16_t k_rc16[] = {0x1010, 0x3232, 0x1010, 0x3232};
    switch (mode) {
        case Permute::f4e: return k_f4e[control & 3];
        case Permute::b4e: return k_b4e[control & 3];
        case Permute::rc8: return k_rc8[control & 3];
        case Permute::ecl: return k_ecl[control & 3];
        case Permute::ecr: return k_ecr[control & 3];
        case Permute::rc16: return k_rc16[control & 3];
    }
    return 0;
}

template <Permute Mode>
Flow prmt(Warp& w, const Instr& i, uint32_t mask) {
    const uint32_t* a = source<uint32_t>(w, i.op[1]);
    const uint32_t* b = source<uint32_t>(w, i.op[2]);
    const uint32_t* c = source<uint32_t>(w, i.op[3]);
    return each<uint32_t>(w, i, mask, [&](uint32_t l) -> uint32_t {
        uint64_t bytes = uint64_t{b[l]} << 32 | a[l];
        uint32_t selector = selector_of(Mode, c[l]), out = 0;
        for (uint32_t n = 0; n < 4; ++n) {
            uint32_t choice = selector >> (4 * n) & 0xf;
            auto byte = uint32_t(bytes >> (8 * (choice & 7)) & 0xff);
            out |= byte << (8 * n);
        }
        return out;
    });
}

// --- 24-bit products

template <typename T>
int64_t low24(T value) {
    if (std::is_signed_v<T>) return int64_t(int32_t(uint32_t(value) << 8) >> 8);
    return int64_t(uint32_t(value) & 0xffffff);
}
template <typename T, bool High>
uint32_t product24(T a, T b) {
    auto product = uint64_t(low24(a) * low24(b));
    return uint32_t(High ? product >> 16 : product);
}
template <typename T, bool High>
Flow mul24(Warp& w, const Instr& i, uint32_t mask) {
    const T* a = source<T>(w, i.op[1]);
    const T* b = source<T>(w, i.op[2]);
    return each<uint32_t>(w, i, mask, [&](uint32_t l) { return product24<T, High>(a[l], b[l]); });
}
template <typename T, bool High>
Flow mad24(Warp& w, const Instr& i, uint32_t mask) {
    const T* a = source<T>(w, i.op[1]);
    const T* b = source<T>(w, i.op[2]);
    const uint32_t* c = source<uint32_t>(w, i.op[3]);
    return each<uint32_t>(w, i, mask, [&](uint32_t l) { return product24<T, High>(a[l], b[l]) + c[l]; });
}
Flow mad24_hi_sat(Warp& w, const Instr& i, uint32_t mask) {
    const int32_t* a = source<int32_t>(w, i.op[1]);
    const int32_t* b = source<int32_t>(w, i.op[2]);
    const int32_t* c = source<int32_t>(w, i.op[3]);
    return each<int32_t>(w, i, mask, [&](uint32_t l) {
        int64_t sum = int64_t(int32_t(product24<int32_t, true>(a[l], b[l]))) + c[l];
        return int32_t(std::clamp<int64_t>(sum, INT32_MIN, INT32_MAX));
    });
}
Flow mad_hi_sat(Warp& w, const Instr& i, uint32_t mask) {
    const int32_t* a = source<int32_t>(w, i.op[1]);
    const int32_t* b = source<int32_t>(w, i.op[2]);
    const int32_t* c = source<int32_t>(w, i.op[3]);
    return each<int32_t>(w, i, mask, [&](uint32_t l) {
        int64_t sum = (int64_t{a[l]} * b[l] >> 32) + c[l];
        return int32_t(std::clamp<int64_t>(sum, INT32_MIN, INT32_MAX));
    });
}

#define WL_THREE \
    { out(4), in(4), in(4), in(4) }
const Row k_rows[] = {
    {"fns.b32", &fns, WL_THREE, 0},
    {"bmsk.clamp.b32", &bmsk<false>, {out(4), in(4), in(4)}, 0},
    {"bmsk.wrap.b32", &bmsk<true>, {out(4), in(4), in(4)}, 0},
    {"szext.clamp.u32", &szext<uint32_t, false>, {out(4), in(4), in(4)}, 0},
    {"szext.clamp.s32", &szext<int32_t, false>, {out(4), in(4), in(4)}, 0},
    {"szext.wrap.u32", &szext<uint32_t, true>, {out(4), in(4), in(4)}, 0},
    {"szext.wrap.s32", &szext<int32_t, true>, {out(4), in(4), in(4)}, 0},
    {"prmt.b32.f4e", &prmt<Permute::f4e>, WL_THREE, 0},
    {"prmt.b32.b4e", &prmt<Permute::b4e>, WL_THREE, 0},
    {"prmt.b32.rc8", &prmt<Permute::rc8>, WL_THREE, 0},
    {"prmt.b32.ecl", &prmt<Permute::ecl>, WL_THREE, 0},
    {"prmt.b32.ecr", &prmt<Permute::ecr>, WL_THREE, 0},
    {"prmt.b32.rc16", &prmt<Permute::rc16>, WL_THREE, 0},
    {"mul24.lo.u32", &mul24<uint32_t, false>, {out(4), in(4), in(4)}, 0},
    {"mul24.lo.s32", &mul24<int32_t, false>, {out(4), in(4), in(4)}, 0},
    {"mul24.hi.u32", &mul24<uint32_t, true>, {out(4), in(4), in(4)}, 0},
    {"mul24.hi.s32", &mul24<int32_t, true>, {out(4), in(4), in(4)}, 0},
    {"mad24.lo.u32", &mad24<uint32_t, false>, WL_THREE, 0},
    {"mad24.lo.s32", &mad24<int32_t, false>, WL_THREE, 0},
    {"mad24.hi.u32", &mad24<uint32_t, true>, WL_THREE, 0},
    {"mad24.hi.s32", &mad24<int32_t, true>, WL_THREE, 0},
    {"mad24.hi.sat.s32", &mad24_hi_sat, WL_THREE, 0},
    {"mad.hi.sat.s32", &mad_hi_sat, WL_THREE, 0},
};

}  // namespace

void register_integer(Registry& registry) { registry.add(k_rows); }

}  // namespace warpline::softgpu::isa
