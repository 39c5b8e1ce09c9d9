// setp and set where packed halves are compared, or where a half or a 16-bit integer is the result; the rest of both opcodes is
// the business of misc.cpp. PTX ISA: Half Precision Comparison Instructions.
#include <string>

#include "softgpu/isa/combine.h"
#include "softgpu/isa/decode_helpers.h"
#include "softgpu/isa/families.h"

namespace warpline::softgpu::isa {

namespace {

using exec::dest;
using exec::predicate;
using exec::set_predicate;

/// op[0], op[1] = results of the lower and upper halves, op[2], op[3] = their comparisons, op[4] = the third source.
Flow combine_both(Warp& w, const Instr& i, uint32_t mask) {
    uint32_t low = predicate(w, i.op[2]), high = predicate(w, i.op[3]), c = predicate(w, i.op[4]);
    set_predicate(w, i.op[0], combine(i.imm, low, c), mask);
    set_predicate(w, i.op[1], combine(i.imm, high, c), mask);
    return Flow::next;
}

/// What `set` writes. imm: the value where the comparison holds; for pairs, both halves of it.
template <typename D>
Flow set_scalar(Warp& w, const Instr& i, uint32_t mask) {
    const uint32_t holds = predicate(w, i.op[1]);
    D* d = dest<D>(w, i.op[0]);
    for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
        auto lane = uint32_t(__builtin_ctz(rest));
        d[lane] = (holds >> lane & 1) != 0 ? D(i.imm) : D(0);
    }
    return Flow::next;
}
Flow set_pair(Warp& w, const Instr& i, uint32_t mask) {
    const uint32_t low = predicate(w, i.op[1]), high = predicate(w, i.op[2]);
    auto* d = dest<uint32_t>(w, i.op[0]);
    for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
        auto lane = uint32_t(__builtin_ctz(rest));
        uint32_t value = ((low >> lane & 1) != 0 ? 0x0000ffffu : 0) | ((high >> lane & 1) != 0 ? 0xffff0000u : 0);
        d[lane] = uint32_t(i.imm) & value;
    }
    return Flow::next;
}

struct Comparison {
    std::string name;  ///< "lt.ftz.f16x2"
    uint64_t combine = combine_none;
    TypeInfo type;
    bool pairs = false;
};

/// The words of a comparison without the result's type.
bool parse(DecodeContext& context, std::span<const std::string_view> words, Comparison& out) {
    std::string cmp, ftz, type;
    for (std::string_view word : words) {
        if (const uint64_t how = combine_of(word); how != combine_none) {
            out.combine = how;
        } else if (word == "ftz") {
            ftz = "ftz.";
        } else if (type_info(word).bytes != 0) {
            type = word;
            out.type = type_info(word);
        } else {
            cmp = std::string(word) + ".";
        }
    }
    if (type.empty() || cmp.empty()) return context.unsupported();
    out.pairs = type == "f16x2" || type == "bf16x2";
    out.name = cmp + ftz + type;
    bool has_third = context.operand_count() == 4;
    if (has_third != (out.combine != combine_none)) return context.invalid("wrong number of operands");
    return true;
}

/// Emits the comparison and the combination; `low` and `high` are predicates (high is used by pairs only).
bool emit_comparison(DecodeContext& context, const Comparison& comparison, int32_t low, int32_t high) {
    Handler handler = context.handler((comparison.pairs ? "$setp2." : "$setp.") + comparison.name);
    if (handler == nullptr) return false;
    int32_t a = context.in(1, comparison.type.bytes), b = context.in(2, comparison.type.bytes);
    int32_t c = context.operand_count() == 4 ? context.in_pred(3) : context.constant_pred(false);
    int32_t compared_low = context.scratch(2), compared_high = context.scratch(2);
    Instr& compare = context.emit(handler);
    compare.op[0] = compared_low;
    compare.op[1] = a;
    compare.op[2] = b;
    compare.op[3] = compared_high;
    Instr& join = context.emit(&combine_both);
    join.op[0] = low;
    join.op[1] = high;
    join.op[2] = compared_low;
    join.op[3] = comparison.pairs ? compared_high : compared_low;
    join.op[4] = c;
    join.imm = comparison.combine;
    return true;
}

Decoder s_other_setp = nullptr, s_other_set = nullptr;

bool decode_setp(DecodeContext& context) {
    if (!context.has("f16x2") && !context.has("bf16x2"))
        return s_other_setp != nullptr ? s_other_setp(context) : context.unsupported();
    Comparison comparison;
    if (!parse(context, context.modifiers(), comparison)) return false;
    int32_t low = context.out_pred(0, 0);
    int32_t high = context.element_count(0) == 2 ? context.out_pred(0, 1) : context.scratch(2);
    return emit_comparison(context, comparison, low, high);
}

/// What a lane gets if the comparison holds; for pairs in both halves.
bool result_of(std::string_view into, bool pairs, uint32_t& value) {
    if (into == "f16")
        value = 0x3c00u;
    else if (into == "bf16")
        value = 0x3f80u;
    else if (into == "f16x2")
        value = 0x3c003c00u;
    else if (into == "bf16x2")
        value = 0x3f803f80u;
    else if (into == "u16" || into == "s16")
        value = 0xffffu;
    else if (into == "u32" || into == "s32")
        value = 0xffffffffu;
    else
        return false;
    bool wide = type_info(into).bytes == 4;
    return wide || !pairs;
}

bool decode_set(DecodeContext& context) {
    auto words = context.modifiers();
    // set.cmp[.bool][.ftz].dtype.stype
    if (words.size() < 3) return context.unsupported();
    std::string_view into = words[words.size() - 2], from = words.back();
    bool pairs = from == "f16x2" || from == "bf16x2";
    bool ours = pairs || type_info(into).bytes == 2;
    if (!ours) return s_other_set != nullptr ? s_other_set(context) : context.unsupported();
    std::vector<std::string_view> without_result(words.begin(), words.end() - 2);
    without_result.push_back(from);
    Comparison comparison;
    uint32_t value = 0;
    if (!result_of(into, pairs, value)) return context.unsupported();
    if (!parse(context, without_result, comparison)) return false;
    int32_t low = context.scratch(2), high = context.scratch(2);
    if (!emit_comparison(context, comparison, low, high)) return false;
    uint8_t bytes = type_info(into).bytes;
    int32_t d = context.out(0, bytes);
    Instr& set = context.emit(pairs ? &set_pair : bytes == 2 ? &set_scalar<uint16_t> : &set_scalar<uint32_t>);
    set.op[0] = d;
    set.op[1] = low;
    set.op[2] = high;
    set.imm = value;
    return true;
}

}  // namespace

void register_half_compare(Registry& registry) {
    s_other_setp = registry.decoder("setp");
    s_other_set = registry.decoder("set");
    registry.add_decoder("setp", &decode_setp);
    registry.add_decoder("set", &decode_set);
}

}  // namespace warpline::softgpu::isa
