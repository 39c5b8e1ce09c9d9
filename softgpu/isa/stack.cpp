// alloca, stacksave, stackrestore: memory on the thread's stack whose size is known only at run time. PTX ISA: Stack
// Manipulation.
#include <algorithm>

#include "softgpu/exec/body.h"
#include "softgpu/isa/decode_helpers.h"
#include "softgpu/isa/families.h"

namespace warpline::softgpu::isa {

namespace {

using exec::dest;
using exec::source;

/// op[0] = address in local memory, op[1] = size; imm = alignment. All lanes of a call share one stack, which grows by what the
/// greediest of them asks for.
template <typename T>
Flow alloca_(Warp& w, const Instr& i, uint32_t mask) {
    const T* size = source<T>(w, i.op[1]);
    T* d = dest<T>(w, i.op[0]);
    uint64_t most = 0, alignment = i.imm;
    for (uint32_t rest = mask; rest != 0; rest &= rest - 1) most = std::max<uint64_t>(most, size[__builtin_ctz(rest)]);
    uint64_t base = (w.frame->alloca_top + alignment - 1) / alignment * alignment;
    if (most > w.local_stride || base + most > w.local_stride) {
        return w.raise(i, 714, uint32_t(__builtin_ctz(mask)), "stack overflow");
    }
    for (uint32_t rest = mask; rest != 0; rest &= rest - 1) d[__builtin_ctz(rest)] = T(base);
    w.frame->alloca_top = uint32_t(base + most);
    return Flow::next;
}

template <typename T>
Flow stacksave(Warp& w, const Instr& i, uint32_t mask) {
    T* d = dest<T>(w, i.op[0]);
    for (uint32_t rest = mask; rest != 0; rest &= rest - 1) d[__builtin_ctz(rest)] = T(w.frame->alloca_top);
    return Flow::next;
}

template <typename T>
Flow stackrestore(Warp& w, const Instr& i, uint32_t mask) {
    // Only if no other lane of the call can still use what was taken since.
    const T* saved = source<T>(w, i.op[1]);
    if (mask == w.frame->lanes) w.frame->alloca_top = uint32_t(saved[__builtin_ctz(mask)]);
    return Flow::next;
}

bool decode_alloca(DecodeContext& context) {
    uint8_t width = last_type(context).bytes;
    if (width != 4 && width != 8) return context.unsupported();
    int64_t alignment = 8;
    if (context.operand_count() > 2 && !context.constant(2, alignment))
        return context.invalid("the alignment must be a constant");
    int32_t size = context.in(1, width), d = context.out(0, width);
    context.uses_stack();
    Instr& instr = context.emit(width == 4 ? &alloca_<uint32_t> : &alloca_<uint64_t>);
    instr.op[0] = d;
    instr.op[1] = size;
    instr.imm = uint64_t(std::max<int64_t>(1, alignment));
    return true;
}

bool decode_stacksave(DecodeContext& context) {
    uint8_t width = last_type(context).bytes;
    if (width != 4 && width != 8) return context.unsupported();
    int32_t d = context.out(0, width);
    context.emit(width == 4 ? &stacksave<uint32_t> : &stacksave<uint64_t>).op[0] = d;
    return true;
}

bool decode_stackrestore(DecodeContext& context) {
    uint8_t width = last_type(context).bytes;
    if (width != 4 && width != 8) return context.unsupported();
    int32_t saved = context.in(0, width);
    context.emit(width == 4 ? &stackrestore<uint32_t> : &stackrestore<uint64_t>).op[1] = saved;
    return true;
}

}  // namespace

void register_stack(Registry& registry) {
    registry.add_decoder("alloca", &decode_alloca);
    registry.add_decoder("stacksave", &decode_stacksave);
    registry.add_decoder("stackrestore", &decode_stackrestore);
}

}  // namespace warpline::softgpu::isa
