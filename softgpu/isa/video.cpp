// Video instructions: arithmetic on bytes and halves of 32-bit registers. PTX ISA: Video Instructions.
#include <algorithm>

#include "softgpu/isa/decode_helpers.h"
#include "softgpu/isa/families.h"

namespace warpline::softgpu::isa {

namespace {

using exec::dest;
using exec::source;

enum class Operation : uint8_t { add, sub, absdiff, min, max, shl, shr, mad, average, compare };
enum class Comparison : uint8_t { eq, ne, lt, le, gt, ge };
enum class Second : uint8_t { none, add, min, max, merge };

/// Everything about one instruction; handlers read it at run time, since these instructions are rare.
struct Video {
    Operation operation = Operation::add;
    Comparison comparison = Comparison::eq;
    Second second = Second::none;
    bool d_signed = false, a_signed = false, b_signed = false, saturate = false, wrap = false, plus_one = false;
    uint8_t shift = 0;     ///< vmad: .shr7, .shr15
    uint8_t elements = 1;  ///< 1: scalar; 2, 4: packed
    Part d, a, b, c;
};

/// The lane's part, sign- or zero-extended.
int64_t take(uint32_t value, const Part& part, bool is_signed) {
    switch (part.kind) {
        case Part::Kind::byte: value >>= 8 * part.selector; return is_signed ? int64_t(int8_t(value)) : int64_t(uint8_t(value));
        case Part::Kind::half:
            value >>= 16 * part.selector;
            return is_signed ? int64_t(int16_t(value)) : int64_t(uint16_t(value));
        default: return is_signed ? int64_t(int32_t(value)) : int64_t(value);
    }
}

int64_t clamp_to(int64_t value, uint32_t bits, bool is_signed) {
    int64_t low = is_signed ? -(int64_t{1} << (bits - 1)) : 0;
    int64_t high = is_signed ? (int64_t{1} << (bits - 1)) - 1 : (int64_t{1} << bits) - 1;
    return std::clamp(value, low, high);
}

bool holds(Comparison comparison, int64_t a, int64_t b) {
    switch (comparison) {
        case Comparison::eq: return a == b;
        case Comparison::ne: return a != b;
        case Comparison::lt: return a < b;
        case Comparison::le: return a <= b;
        case Comparison::gt: return a > b;
        default: return a >= b;
    }
}

int64_t compute(const Video& video, int64_t a, int64_t b) {
    switch (video.operation) {
        case Operation::add: return a + b;
        case Operation::sub: return a - b;
        case Operation::absdiff: return std::abs(a - b);
        case Operation::min: return std::min(a, b);
        case Operation::max: return std::max(a, b);
        case Operation::average: return a + b >= 0 ? (a + b + 1) >> 1 : -((-(a + b) + 1) >> 1);  // away from zero at ties
        case Operation::compare: return holds(video.comparison, a, b) ? 1 : 0;
        case Operation::shl:
        case Operation::shr: {
            auto amount = uint64_t(b);
            amount = video.wrap ? amount & 31 : std::min<uint64_t>(amount, 32);
            return video.operation == Operation::shl ? int64_t(uint64_t(a) << amount) : a >> amount;
        }
        default: return 0;
    }
}

uint32_t merge(uint32_t into, const Part& part, uint32_t value) {
    if (part.kind == Part::Kind::byte) {
        uint32_t shift = 8 * part.selector;
        return (into & ~(0xffu << shift)) | (value & 0xff) << shift;
    }
    if (part.kind == Part::Kind::half) {
        uint32_t shift = 16 * part.selector;
        return (into & ~(0xffffu << shift)) | (value & 0xffff) << shift;
    }
    return value;
}

uint32_t part_bits(const Part& part) { return part.kind == Part::Kind::byte ? 8 : part.kind == Part::Kind::half ? 16 : 32; }

uint32_t scalar(const Video& video, uint32_t a_bits, uint32_t b_bits, uint32_t c) {
    int64_t value = compute(video, take(a_bits, video.a, video.a_signed), take(b_bits, video.b, video.b_signed));
    if (video.saturate) value = clamp_to(value, part_bits(video.d), video.d_signed);
    auto low = uint32_t(value);
    switch (video.second) {
        case Second::add: return low + c;
        case Second::min: return video.d_signed ? uint32_t(std::min(int32_t(low), int32_t(c))) : std::min(low, c);
        case Second::max: return video.d_signed ? uint32_t(std::max(int32_t(low), int32_t(c))) : std::max(low, c);
        case Second::merge: return merge(c, video.d, low);
        default: return low;
    }
}

uint32_t multiply_add(const Video& video, uint32_t a_bits, uint32_t b_bits, uint32_t c_bits) {
    bool is_signed = video.a_signed || video.b_signed || video.a.negated || video.b.negated || video.c.negated;
    __int128 a = take(a_bits, video.a, video.a_signed), b = take(b_bits, video.b, video.b_signed);
    __int128 c = is_signed ? __int128(int32_t(c_bits)) : __int128(c_bits);
    __int128 product = a * b;
    if (video.a.negated != video.b.negated) product = -product;
    if (video.c.negated) c = -c;
    __int128 value = (product + c + (video.plus_one ? 1 : 0)) >> video.shift;
    if (!video.saturate) return uint32_t(value);
    // The result is signed if an operand is.
    __int128 low = is_signed ? -(__int128{1} << 31) : 0, high = is_signed ? (__int128{1} << 31) - 1 : (__int128{1} << 32) - 1;
    return uint32_t(std::clamp(value, low, high));
}

Flow run_scalar(Warp& w, const Instr& i, uint32_t mask) {
    const auto& video = *static_cast<const Video*>(i.extra);
    const uint32_t* a = source<uint32_t>(w, i.op[1]);
    const uint32_t* b = source<uint32_t>(w, i.op[2]);
    const uint32_t* c = source<uint32_t>(w, i.op[3]);
    uint32_t* d = dest<uint32_t>(w, i.op[0]);
    for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
        auto l = uint32_t(__builtin_ctz(rest));
        d[l] = video.operation == Operation::mad ? multiply_add(video, a[l], b[l], c[l]) : scalar(video, a[l], b[l], c[l]);
    }
    return Flow::next;
}

/// Element `e` (0: lowest) of a packed source: the selector's digits choose among the parts of a (low numbers) and b (high
/// numbers).
int64_t element(const Video& video, const Part& part, uint32_t e, uint32_t a, uint32_t b, bool is_signed, bool second) {
    uint32_t count = video.elements, bits = 32 / count;
    uint32_t choice = second ? e + count : e;
    if (part.kind == Part::Kind::halves || part.kind == Part::Kind::bytes) choice = part.selector >> (4 * e) & 0xf;
    uint32_t word = choice < count ? a : b, shift = choice % count * bits;
    uint32_t raw = word >> shift & (bits == 16 ? 0xffffu : 0xffu);
    if (!is_signed) return raw;
    return bits == 16 ? int64_t(int16_t(raw)) : int64_t(int8_t(raw));
}

/// Which elements of the destination are written; the others come from c.
uint32_t written_elements(const Video& video) {
    switch (video.d.kind) {
        case Part::Kind::whole: return (1u << video.elements) - 1;
        case Part::Kind::half:
        case Part::Kind::byte: return 1u << video.d.selector;
        default: {
            uint32_t out = 0;
            for (uint32_t e = 0; e < video.elements; ++e) out |= 1u << (video.d.selector >> (4 * e) & 0xf);
            return out;
        }
    }
}

Flow run_packed(Warp& w, const Instr& i, uint32_t mask) {
    const auto& video = *static_cast<const Video*>(i.extra);
    const uint32_t bits = 32 / video.elements, ones = bits == 16 ? 0xffffu : 0xffu, written = written_elements(video);
    const uint32_t* a = source<uint32_t>(w, i.op[1]);
    const uint32_t* b = source<uint32_t>(w, i.op[2]);
    const uint32_t* c = source<uint32_t>(w, i.op[3]);
    uint32_t* d = dest<uint32_t>(w, i.op[0]);
    for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
        auto l = uint32_t(__builtin_ctz(rest));
        uint32_t result = video.second == Second::add ? 0 : c[l], sum = c[l];
        for (uint32_t e = 0; e < video.elements; ++e) {
            if ((written >> e & 1) == 0) continue;
            int64_t value = compute(video, element(video, video.a, e, a[l], b[l], video.a_signed, false),
                                    element(video, video.b, e, a[l], b[l], video.b_signed, true));
            if (video.saturate) value = clamp_to(value, bits, video.d_signed);
            auto low = uint32_t(value) & ones;
            sum += video.d_signed && video.operation != Operation::compare ? uint32_t(bits == 16 ? int16_t(low) : int8_t(low))
                                                                           : low;
            result = (result & ~(ones << (bits * e))) | low << (bits * e);
        }
        d[l] = video.second == Second::add ? sum : result;
    }
    return Flow::next;
}

bool is_signed(std::string_view type) { return type == "s32"; }

bool parse_modifiers(DecodeContext& context, Video& video) {
    std::string_view types[3];
    uint32_t type_count = 0;
    constexpr std::string_view k_comparisons[] = {"eq", "ne", "lt", "le", "gt", "ge"};
    for (std::string_view m : context.modifiers()) {
        if (m == "s32" || m == "u32") {
            if (type_count < 3) types[type_count++] = m;
        } else if (m == "sat") {
            video.saturate = true;
        } else if (m == "add") {
            video.second = Second::add;
        } else if (m == "min") {
            video.second = Second::min;
        } else if (m == "max") {
            video.second = Second::max;
        } else if (m == "wrap") {
            video.wrap = true;
        } else if (m == "po") {
            video.plus_one = true;
        } else if (m == "shr7") {
            video.shift = 7;
        } else if (m == "shr15") {
            video.shift = 15;
        } else if (m != "clamp") {
            auto found = std::find(std::begin(k_comparisons), std::end(k_comparisons), m);
            if (found == std::end(k_comparisons)) return context.unsupported();
            video.comparison = Comparison(found - std::begin(k_comparisons));
        }
    }
    bool has_d = video.operation != Operation::compare;
    if (type_count != (has_d ? 3u : 2u)) return context.unsupported();
    video.d_signed = has_d && is_signed(types[0]);
    video.a_signed = is_signed(types[has_d ? 1 : 0]);
    video.b_signed = is_signed(types[has_d ? 2 : 1]);
    return true;
}

template <Operation Op, uint8_t Elements>
bool decode(DecodeContext& context) {
    auto* video = context.storage<Video>();
    *video = Video{};
    video->operation = Op;
    video->elements = Elements;
    if (!parse_modifiers(context, *video)) return false;
    int32_t a = context.in_part(1, video->a), b = context.in_part(2, video->b);
    bool has_c = context.operand_count() == 4;
    if (!has_c && (Elements > 1 || Op == Operation::mad)) return context.invalid("wrong number of operands");
    int32_t c = has_c ? context.in_part(3, video->c) : a;
    int32_t d = context.out_part(0, video->d);
    if (Elements == 1 && has_c && Op != Operation::mad && video->second == Second::none) video->second = Second::merge;
    Instr& instr = context.emit(Elements == 1 ? &run_scalar : &run_packed);
    instr.op[0] = d;
    instr.op[1] = a;
    instr.op[2] = b;
    instr.op[3] = c;
    instr.extra = video;
    return true;
}

}  // namespace

void register_video(Registry& registry) {
    registry.add_decoder("vadd", &decode<Operation::add, 1>);
    registry.add_decoder("vsub", &decode<Operation::sub, 1>);
    registry.add_decoder("vabsdiff", &decode<Operation::absdiff, 1>);
    registry.add_decoder("vmin", &decode<Operation::min, 1>);
    registry.add_decoder("vmax", &decode<Operation::max, 1>);
    registry.add_decoder("vshl", &decode<Operation::shl, 1>);
    registry.add_decoder("vshr", &decode<Operation::shr, 1>);
    registry.add_decoder("vmad", &decode<Operation::mad, 1>);
    registry.add_decoder("vset", &decode<Operation::compare, 1>);
    registry.add_decoder("vadd2", &decode<Operation::add, 2>);
    registry.add_decoder("vsub2", &decode<Operation::sub, 2>);
    registry.add_decoder("vavrg2", &decode<Operation::average, 2>);
    registry.add_decoder("vabsdiff2", &decode<Operation::absdiff, 2>);
    registry.add_decoder("vmin2", &decode<Operation::min, 2>);
    registry.add_decoder("vmax2", &decode<Operation::max, 2>);
    registry.add_decoder("vset2", &decode<Operation::compare, 2>);
    registry.add_decoder("vadd4", &decode<Operation::add, 4>);
    registry.add_decoder("vsub4", &decode<Operation::sub, 4>);
    registry.add_decoder("vavrg4", &decode<Operation::average, 4>);
    registry.add_decoder("vabsdiff4", &decode<Operation::absdiff, 4>);
    registry.add_decoder("vmin4", &decode<Operation::min, 4>);
    registry.add_decoder("vmax4", &decode<Operation::max, 4>);
    registry.add_decoder("vset4", &decode<Operation::compare, 4>);
}

}  // namespace warpline::softgpu::isa
