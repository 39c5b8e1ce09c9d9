// What decoders emit beside their own instructions, and the usual forms of operands.
#include "softgpu/isa/decode_helpers.h"

#include "softgpu/exec/warp.h"

namespace warpline::softgpu::isa {

namespace {

Flow spin_hint(Warp& w, const Instr&, uint32_t) {
    w.spend(exec::k_spin_cost, true);
    return Flow::next;
}

Flow widen_address(Warp& w, const Instr& i, uint32_t mask) {
    const uint32_t* a = exec::source<uint32_t>(w, i.op[1]);
    uint64_t* d = exec::dest<uint64_t>(w, i.op[0]);
    for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
        auto lane = uint32_t(__builtin_ctz(rest));
        d[lane] = a[lane];
    }
    return Flow::next;
}

}  // namespace

TypeInfo type_info(std::string_view m) {
    if (m == "u8" || m == "b8") return {1, false, false};
    if (m == "s8") return {1, true, false};
    if (m == "u16" || m == "b16") return {2, false, false};
    if (m == "s16") return {2, true, false};
    if (m == "f16" || m == "bf16") return {2, false, true};
    if (m == "u32" || m == "b32") return {4, false, false};
    if (m == "s32") return {4, true, false};
    if (m == "f32" || m == "f16x2" || m == "bf16x2") return {4, false, true};
    if (m == "u64" || m == "b64") return {8, false, false};
    if (m == "s64") return {8, true, false};
    if (m == "f64" || m == "f32x2") return {8, false, true};
    if (m == "b128") return {16, false, false};
    return {};
}

TypeInfo last_type(const DecodeContext& context) {
    TypeInfo found;
    for (std::string_view modifier : context.modifiers()) {
        TypeInfo type = type_info(modifier);
        if (type.bytes != 0) found = type;
    }
    return found;
}

void emit_spin_hint(DecodeContext& context) { context.emit(&spin_hint); }

int32_t emit_widen_address(DecodeContext& context, int32_t slot) {
    int32_t row = context.scratch(8);
    emit_simple(context, &widen_address, row, slot);
    return row;
}

void emit_simple(DecodeContext& context, Handler handler, int32_t out, int32_t in) {
    Instr& instr = context.emit(handler);
    instr.op[0] = out;
    instr.op[1] = in;
}

}  // namespace warpline::softgpu::isa
