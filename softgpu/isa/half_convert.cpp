// cvt with types of 16 bits and fewer, apart from the frequent ones in level/half_convert.cpp. PTX ISA: cvt.
#include <cmath>

#include "softgpu/isa/decode_helpers.h"
#include "softgpu/isa/families.h"
#include "softgpu/isa/half_format.h"

namespace warpline::softgpu::isa {

namespace {

using exec::dest;
using exec::source;

enum class Kind : uint8_t { integer, f32, f64, small };

/// One side of a scalar conversion.
struct Side {
    Kind kind = Kind::integer;
    TypeInfo type;
    const SmallFloat* format = nullptr;
    uint8_t row_bytes = 0;
};

struct Spec {
    Side to, from;
    Rounding rounding = Rounding::nearest;
    bool to_integer = false, ftz = false, sat = false, relu = false, finite = false;
};

double flushed(double value) { return std::fabs(value) < 0x1p-126 ? std::copysign(0.0, value) : value; }

template <typename F>
void each_lane(uint32_t mask, F f) {
    for (uint32_t rest = mask; rest != 0; rest &= rest - 1) f(uint32_t(__builtin_ctz(rest)));
}

uint64_t read_bits(Warp& w, int32_t slot, uint8_t bytes, uint32_t lane) {
    switch (bytes) {
        case 2: return source<uint16_t>(w, slot)[lane];
        case 4: return source<uint32_t>(w, slot)[lane];
        default: return source<uint64_t>(w, slot)[lane];
    }
}
void write_bits(Warp& w, int32_t slot, uint8_t bytes, uint32_t lane, uint64_t bits) {
    switch (bytes) {
        case 2: dest<uint16_t>(w, slot)[lane] = uint16_t(bits); break;
        case 4: dest<uint32_t>(w, slot)[lane] = uint32_t(bits); break;
        default: dest<uint64_t>(w, slot)[lane] = bits; break;
    }
}

double value_of(uint64_t bits, const Spec& spec) {
    switch (spec.from.kind) {
        case Kind::f32: {
            double value = __builtin_bit_cast(float, uint32_t(bits));
            return spec.ftz ? flushed(value) : value;
        }
        case Kind::f64: return __builtin_bit_cast(double, bits);
        case Kind::small: return decode(*spec.from.format, uint32_t(bits));
        case Kind::integer: break;
    }
    const int unused = 64 - 8 * spec.from.type.bytes;
    if (!spec.from.type.is_signed) return odd_double(bits << unused >> unused, false);
    int64_t value = int64_t(bits << unused) >> unused;
    return odd_double(value < 0 ? 0 - uint64_t(value) : uint64_t(value), value < 0);
}

double to_integral(double value, Rounding rounding) {
    switch (rounding) {
        case Rounding::nearest: return std::nearbyint(value);
        case Rounding::zero: return std::trunc(value);
        case Rounding::down: return std::floor(value);
        case Rounding::up: return std::ceil(value);
    }
    return value;
}

uint64_t integer_of(double value, const Spec& spec) {
    if (std::isnan(value)) return 0;
    value = to_integral(value, spec.rounding);
    const int bits = 8 * spec.to.type.bytes;
    if (spec.to.type.is_signed) {
        double limit = std::ldexp(1.0, bits - 1);
        if (value >= limit) return (uint64_t{1} << (bits - 1)) - 1;
        return value < -limit ? ~uint64_t{0} << (bits - 1) : uint64_t(int64_t(value));
    }
    if (value <= 0) return 0;
    if (value >= std::ldexp(1.0, bits)) return ~uint64_t{0} >> (64 - bits);
    return uint64_t(value);
}

uint64_t convert_one(uint64_t bits, const Spec& spec) {
    double value = value_of(bits, spec);
    if (spec.to.kind == Kind::integer) return integer_of(value, spec);
    if (spec.to_integer) value = to_integral(value, spec.rounding);
    if (spec.sat) value = value > 0 ? std::fmin(value, 1.0) : 0.0;  // NaN becomes +0
    if (spec.relu && !std::isnan(value)) value = value > 0 ? value : 0.0;
    switch (spec.to.kind) {
        case Kind::f32: {
            if (std::isnan(value)) return 0x7fffffffu;
            return __builtin_bit_cast(uint32_t, float(spec.ftz ? flushed(value) : value));
        }
        case Kind::f64: return __builtin_bit_cast(uint64_t, value);
        default: return encode(*spec.to.format, value, spec.to_integer ? Rounding::nearest : spec.rounding, spec.finite);
    }
}

Flow convert(Warp& w, const Instr& i, uint32_t mask) {
    const Spec& spec = *static_cast<const Spec*>(i.extra);
    each_lane(mask, [&](uint32_t lane) {
        uint64_t bits = read_bits(w, i.op[1], spec.from.row_bytes, lane);
        write_bits(w, i.op[0], spec.to.row_bytes, lane, convert_one(bits, spec));
    });
    return Flow::next;
}

// --- packed formats. imm: bits of one value in its packed form.

/// ue8m0 is a power of two without a sign: 2^(code - 127), 255 being NaN. Negative values keep only their exponent.
uint32_t encode_ue8m0(double value, Rounding rounding, bool saturate) {
    if (std::isnan(value)) return 0xff;
    value = std::fabs(value);
    if (std::isinf(value)) return saturate ? 0xfe : 0xff;
    if (value <= 0x1p-127) return 0;
    int exponent;
    double fraction = std::frexp(value, &exponent);  // [0.5, 1)
    int code = exponent - 1 + 127;
    if (code < 0) code = 0;
    if (code == 0 && value < 0x1p-126) return rounding == Rounding::up ? 1 : 0;
    if (rounding == Rounding::up && fraction != 0.5) ++code;
    return code > 0xfe ? (saturate ? 0xfe : 0xff) : uint32_t(code);
}

struct PackSpec {
    const SmallFloat* to = nullptr;    ///< null: ue8m0
    const SmallFloat* from = nullptr;  ///< null: f32, or ue8m0 where the source is packed
    Rounding rounding = Rounding::nearest;
    bool relu = false, finite = false;
    uint8_t to_bits = 8, from_bits = 16;
};

uint32_t pack_one(float value, const PackSpec& spec) {
    if (spec.to == nullptr) return encode_ue8m0(double(value), spec.rounding, spec.finite);
    if (spec.relu && !(value > 0) && !std::isnan(value)) value = 0;
    return encode(*spec.to, double(value), spec.rounding, spec.finite);
}

void write_packed(Warp& w, const Instr& i, const PackSpec& spec, uint32_t lane, uint32_t high, uint32_t low) {
    write_bits(w, i.op[0], spec.to_bits == 16 ? 4 : 2, lane, high << spec.to_bits | low);
}

Flow pack_floats(Warp& w, const Instr& i, uint32_t mask) {
    const PackSpec& spec = *static_cast<const PackSpec*>(i.extra);
    const float* a = source<float>(w, i.op[1]);
    const float* b = source<float>(w, i.op[2]);
    each_lane(mask, [&](uint32_t lane) { write_packed(w, i, spec, lane, pack_one(a[lane], spec), pack_one(b[lane], spec)); });
    return Flow::next;
}

float unpack_one(uint32_t code, const PackSpec& spec) {
    if (spec.from != nullptr) return decode(*spec.from, code);
    return code == 0xff ? __builtin_nanf("") : std::ldexp(1.0f, int(code) - 127);
}

/// Both values of a packed register to both of another.
Flow repack(Warp& w, const Instr& i, uint32_t mask) {
    const PackSpec& spec = *static_cast<const PackSpec*>(i.extra);
    const uint32_t field = (1u << spec.from_bits) - 1;
    each_lane(mask, [&](uint32_t lane) {
        auto bits = uint32_t(read_bits(w, i.op[1], spec.from_bits == 16 ? 4 : 2, lane));
        uint32_t high = pack_one(unpack_one(bits >> spec.from_bits & field, spec), spec);
        write_packed(w, i, spec, lane, high, pack_one(unpack_one(bits & field, spec), spec));
    });
    return Flow::next;
}

uint8_t packed_bits(std::string_view type) {
    if (type == "f16x2" || type == "bf16x2") return 16;
    return type == "e2m1x2" ? 4 : 8;
}

bool decode_packed(DecodeContext& context, std::string_view to, std::string_view from, const Spec& spec) {
    auto* pack = context.storage<PackSpec>();
    new (pack) PackSpec{
        small_float(to),  from == "f32" ? nullptr : small_float(from), spec.rounding, spec.relu, spec.finite, packed_bits(to),
        packed_bits(from)};
    const uint8_t to_row = pack->to_bits == 16 ? 4 : 2;
    const bool known =
        (pack->to != nullptr || to == "ue8m0x2") && (from == "f32" || pack->from != nullptr || from == "ue8m0x2");
    const bool narrow = to != "f16x2" && to != "bf16x2";
    // Narrow formats saturate in every form that exists, ue8m0 if asked to.
    if (!known || (narrow && to != "ue8m0x2" && !spec.finite)) return context.unsupported();
    int32_t a, b = 0;
    if (from == "f32") {
        if (context.operand_count() != 3) return context.unsupported();
        a = context.in(1, 4);
        b = context.in(2, 4);
    } else {
        if (context.operand_count() != 2) return context.unsupported();
        a = context.in(1, pack->from_bits == 16 ? 4 : 2);
    }
    int32_t d = context.out(0, to_row);
    Instr& instr = context.emit(from == "f32" ? &pack_floats : &repack);
    instr.op[0] = d;
    instr.op[1] = a;
    instr.op[2] = b;
    instr.extra = pack;
    return true;
}

bool side_of(std::string_view name, Side& side) {
    side.format = name.ends_with("x2") ? nullptr : small_float(name);
    if (name == "f32" || name == "f64") {
        side.kind = name == "f32" ? Kind::f32 : Kind::f64;
    } else if (side.format != nullptr) {
        side.kind = Kind::small;
        if (name != "f16" && name != "bf16") return false;
    }
    side.type = type_info(name);
    return side.type.bytes != 0 && side.type.bytes <= 8;
}

bool decode_scalar(DecodeContext& context, std::string_view to, std::string_view from, const Spec& parsed) {
    auto* spec = context.storage<Spec>();
    new (spec) Spec(parsed);
    if (!side_of(to, spec->to) || !side_of(from, spec->from) || context.operand_count() != 2) return context.unsupported();
    auto row_bytes = [&](uint32_t operand, const Side& side) {
        uint8_t natural = side.type.bytes == 1 ? 2 : side.type.bytes;
        return side.kind == Kind::integer ? std::max(natural, context.register_width(operand)) : natural;
    };
    spec->to.row_bytes = row_bytes(0, spec->to);
    spec->from.row_bytes = row_bytes(1, spec->from);
    int32_t a = context.in(1, spec->from.row_bytes);
    int32_t d = context.out(0, spec->to.row_bytes);
    Instr& instr = context.emit(&convert);
    instr.op[0] = d;
    instr.op[1] = a;
    instr.extra = spec;
    return true;
}

bool is_type(std::string_view word) {
    return type_info(word).bytes != 0 || small_float(word) != nullptr || word == "ue8m0x2" || word == "tf32";
}

Decoder s_wide_cvt = nullptr;  ///< of the types that are not ours

bool decode_cvt(DecodeContext& context) {
    std::string_view types[2];
    uint32_t type_count = 0;
    for (std::string_view word : context.modifiers()) {
        if (is_type(word) && type_count < 2) types[type_count++] = word;
    }
    auto ours = [](std::string_view type) { return small_float(type) != nullptr || type == "ue8m0x2" || type == "tf32"; };
    if (type_count != 2 || (!ours(types[0]) && !ours(types[1]))) {
        return s_wide_cvt != nullptr ? s_wide_cvt(context) : context.unsupported();
    }
    Spec spec;
    for (std::string_view word : context.modifiers()) {
        if (is_type(word) || rounding_from(word, spec.rounding, spec.to_integer)) continue;
        if (word == "ftz") {
            spec.ftz = true;
        } else if (word == "sat") {
            spec.sat = true;
        } else if (word == "relu") {
            spec.relu = true;
        } else if (word == "satfinite") {
            spec.finite = true;
        } else {
            return context.unsupported();
        }
    }
    auto packed = [](std::string_view type) { return type.ends_with("x2") || type.ends_with("x4"); };
    if (packed(types[0]) || packed(types[1])) return decode_packed(context, types[0], types[1], spec);
    return decode_scalar(context, types[0], types[1], spec);
}

}  // namespace

void register_half_convert(Registry& registry) {
    s_wide_cvt = registry.decoder("cvt");
    registry.add_decoder("cvt", &decode_cvt);
}

}  // namespace warpline::softgpu::isa
