// cvt: all pairs of 8- to 64-bit integers, f32 and f64, with rounding, .sat and .ftz. PTX ISA: cvt.
#include <cfloat>
#include <cmath>
#include <limits>
#include <type_traits>

#include "softgpu/isa/decode_helpers.h"
#include "softgpu/isa/families.h"
#include "softgpu/isa/rounding.h"

namespace warpline::softgpu::isa {

namespace {

using exec::dest;
using exec::source;

/// Instr::imm of a conversion.
struct Spec {
    Rounding rounding = Rounding::nearest;
    bool to_integer = false;  ///< rni … between floating-point types
    bool ftz = false, sat = false;
    uint64_t pack() const { return uint64_t(rounding) | uint64_t{to_integer} << 8 | uint64_t{ftz} << 9 | uint64_t{sat} << 10; }
    static Spec unpack(uint64_t bits) {
        return {Rounding(bits & 0xff), (bits >> 8 & 1) != 0, (bits >> 9 & 1) != 0, (bits >> 10 & 1) != 0};
    }
};

template <typename T>
T flush(T value, bool ftz) {
    if constexpr (std::is_same_v<T, float>) {
        if (ftz && std::fabs(value) < FLT_MIN) return std::copysign(0.0f, value);
    }
    return value;
}

template <typename D, typename S>
D convert_one(S value, const Spec& spec) {
    using Limits = std::numeric_limits<D>;
    if constexpr (std::is_integral_v<D> && std::is_integral_v<S>) {
        if (!spec.sat) return D(value);
        if constexpr (std::is_signed_v<S>) {
            if (value < 0 && std::is_unsigned_v<D>) return 0;
            if (std::is_signed_v<D> && int64_t(value) < int64_t(Limits::min())) return Limits::min();
        }
        if (value > 0 && uint64_t(value) > uint64_t(Limits::max())) return Limits::max();
        return D(value);
    } else if constexpr (std::is_integral_v<D>) {
        if (std::isnan(value)) return 0;
        S rounded = std::rint(flush(value, spec.ftz));
        // 2^digits is exact in both types, max() is not.
        if (rounded >= std::ldexp(S(1), Limits::digits)) return Limits::max();
        if (rounded < S(Limits::min())) return Limits::min();
        return D(rounded);
    } else {
        D result;
        if constexpr (std::is_integral_v<S>) {
            result = D(value);
        } else {
            S in = flush(value, spec.ftz);
            result = flush(D(spec.to_integer ? std::rint(in) : in), spec.ftz);
            if (std::isnan(result) && std::is_same_v<D, float>) result = __builtin_bit_cast(float, 0x7fffffffu);
        }
        if (!spec.sat) return result;
        return result > D(0) ? (result < D(1) ? result : D(1)) : D(0);  // NaN and -0 become +0
    }
}

// 8-bit values live in 16-bit rows.
template <typename T>
using RowType = std::conditional_t<sizeof(T) == 1, std::conditional_t<std::is_signed_v<T>, int16_t, uint16_t>, T>;

template <typename D, typename S>
Flow convert(Warp& w, const Instr& i, uint32_t mask) {
    const Spec spec = Spec::unpack(i.imm);
    const auto* a = source<RowType<S>>(w, i.op[1]);
    auto* d = dest<RowType<D>>(w, i.op[0]);
    RoundingScope scope(spec.rounding);
    for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
        auto lane = uint32_t(__builtin_ctz(rest));
        d[lane] = RowType<D>(convert_one<D, S>(S(a[lane]), spec));
    }
    return Flow::next;
}

constexpr std::string_view k_types[] = {"u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64", "f32", "f64"};

template <typename S>
constexpr Handler k_from[] = {&convert<uint8_t, S>,  &convert<int8_t, S>,  &convert<uint16_t, S>, &convert<int16_t, S>,
                              &convert<uint32_t, S>, &convert<int32_t, S>, &convert<uint64_t, S>, &convert<int64_t, S>,
                              &convert<float, S>,    &convert<double, S>};
const Handler* const k_table[] = {k_from<uint8_t>, k_from<int8_t>,   k_from<uint16_t>, k_from<int16_t>, k_from<uint32_t>,
                                  k_from<int32_t>, k_from<uint64_t>, k_from<int64_t>,  k_from<float>,   k_from<double>};

int type_number(std::string_view name) {
    for (size_t i = 0; i < std::size(k_types); ++i) {
        if (k_types[i] == name) return int(i);
    }
    return -1;
}

uint8_t row_bytes(const TypeInfo& type) { return type.bytes == 1 ? 2 : type.bytes; }

const char* width_name(uint8_t bytes, bool is_signed) {
    switch (bytes) {
        case 2: return is_signed ? "s16" : "u16";
        case 4: return is_signed ? "s32" : "u32";
        default: return is_signed ? "s64" : "u64";
    }
}

/// Moves a value between rows of different widths.
bool resize(DecodeContext& context, int32_t into, uint8_t into_bytes, int32_t from, uint8_t from_bytes, bool is_signed) {
    std::string name = std::string("$cvt.") + width_name(into_bytes, is_signed) + "." + width_name(from_bytes, is_signed);
    Handler handler = context.handler(name);
    if (handler == nullptr) return false;
    emit_simple(context, handler, into, from);
    return true;
}

bool decode_cvt(DecodeContext& context) {
    Spec spec;
    std::string_view types[2];
    uint32_t type_count = 0;
    std::string_view rounding;
    for (std::string_view modifier : context.modifiers()) {
        if (type_info(modifier).bytes != 0 && type_count < 2) {
            types[type_count++] = modifier;
        } else if (rounding_from(modifier, spec.rounding, spec.to_integer)) {
            rounding = modifier;
        } else if (modifier == "ftz") {
            spec.ftz = true;
        } else if (modifier == "sat") {
            spec.sat = true;
        } else {
            return context.unsupported();
        }
    }
    int d = type_number(types[0]), s = type_number(types[1]);
    if (type_count != 2 || d < 0 || s < 0 || context.operand_count() != 2 || context.element_count(1) != 1)
        return context.unsupported();
    TypeInfo into = type_info(types[0]), from = type_info(types[1]);
    uint8_t into_bytes = std::max(context.register_width(0), row_bytes(into));
    uint8_t from_bytes = std::max(context.register_width(1), row_bytes(from));
    if ((into.is_float && into_bytes != into.bytes) || (from.is_float && from_bytes != from.bytes)) {
        return context.invalid("a register of another size than the type");
    }
    int32_t source_row = context.in(1, from_bytes, 0);
    if (from_bytes != row_bytes(from)) {
        int32_t narrow = context.scratch(row_bytes(from));
        if (!resize(context, narrow, row_bytes(from), source_row, from_bytes, from.is_signed)) return false;
        source_row = narrow;
    }
    int32_t target = context.out(0, into_bytes, 0);
    int32_t result = into_bytes == row_bytes(into) ? target : context.scratch(row_bytes(into));
    std::string name = "$cvt.";
    if (!rounding.empty()) name.append(rounding).append(".");
    if (spec.ftz) name += "ftz.";
    if (spec.sat) name += "sat.";
    name.append(types[0]).append(".").append(types[1]);
    Handler fast = Registry::instance().handler(name);
    Instr& instr = context.emit(fast != nullptr ? fast : k_table[s][d]);
    instr.op[0] = result;
    instr.op[1] = source_row;
    instr.imm = spec.pack();
    if (result == target) return true;
    return resize(context, target, into_bytes, result, row_bytes(into), into.is_signed);
}

}  // namespace

void register_convert(Registry& registry) { registry.add_decoder("cvt", &decode_cvt); }

}  // namespace warpline::softgpu::isa
