// mov of vectors: putting a register together from smaller ones, and taking it apart. PTX ISA: mov (Data Movement).
#include <algorithm>
#include <cstring>

#include "softgpu/isa/access.h"
#include "softgpu/isa/decode_helpers.h"
#include "softgpu/isa/families.h"

namespace warpline::softgpu::isa {

namespace {

using exec::dest;
using exec::source;

struct Packing {
    VectorOperand vector;  // first: what level/collective.cpp reads
    uint32_t element_bytes, element_pitch, total_bytes;
};

Flow pack(Warp& w, const Instr& i, uint32_t mask) {
    const auto& packing = *static_cast<const Packing*>(i.extra);
    std::byte* d = dest<std::byte>(w, i.op[0]);
    for (uint32_t e = 0; e < packing.vector.count; ++e) {
        const std::byte* from = source<std::byte>(w, packing.vector.slots[e]);
        for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
            auto lane = uint32_t(__builtin_ctz(rest));
            std::memcpy(d + lane * packing.total_bytes + e * packing.element_bytes, from + lane * packing.element_pitch,
                        packing.element_bytes);
        }
    }
    return Flow::next;
}

Flow unpack(Warp& w, const Instr& i, uint32_t mask) {
    const auto& packing = *static_cast<const Packing*>(i.extra);
    const std::byte* from = source<std::byte>(w, i.op[1]);
    for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
        auto lane = uint32_t(__builtin_ctz(rest));
        std::byte value[16];  // the source may be one of the destinations
        std::memcpy(value, from + lane * packing.total_bytes, packing.total_bytes);
        for (uint32_t e = 0; e < packing.vector.count; ++e) {
            std::byte* d = dest<std::byte>(w, packing.vector.slots[e]) + lane * packing.element_pitch;
            std::memset(d, 0, packing.element_pitch);
            std::memcpy(d, value + e * packing.element_bytes, packing.element_bytes);
        }
    }
    return Flow::next;
}

/// The ways that are taken all lanes at once (level/collective.cpp): elements whose registers are as wide as they. Functions of
/// doubles take them apart a lot.
Handler pack_handler(const Packing& packing, bool packs) {
    if (packing.element_pitch == packing.element_bytes) {
        const Registry& registry = Registry::instance();
        if (packing.total_bytes == 8 && packing.element_bytes == 4)
            return registry.handler(packs ? "$pack.8.4" : "$unpack.8.4");
        if (packing.total_bytes == 4 && packing.element_bytes == 2)
            return registry.handler(packs ? "$pack.4.2" : "$unpack.4.2");
        if (packing.total_bytes == 8 && packing.element_bytes == 2)
            return registry.handler(packs ? "$pack.8.2" : "$unpack.8.2");
    }
    return packs ? &pack : &unpack;
}

bool decode_mov(DecodeContext& context) {
    TypeInfo type = last_type(context);
    uint32_t into = context.element_count(0), from = context.element_count(1);
    if (type.bytes == 0 || (into == 1) == (from == 1)) return context.unsupported();
    auto* packing = context.storage<Packing>();
    uint32_t count = into == 1 ? from : into, vector_operand = into == 1 ? 1 : 0;
    if (count > 8 || type.bytes % count != 0) return context.invalid("wrong number of elements");
    packing->vector.count = count;
    packing->total_bytes = type.bytes;
    packing->element_bytes = type.bytes / count;
    auto pitch = uint8_t(std::max(2u, packing->element_bytes));
    for (uint32_t e = 0; e < count; ++e) pitch = std::max(pitch, context.register_width(vector_operand, e));
    packing->element_pitch = pitch;
    int32_t whole = 0;
    if (into == 1) {
        for (uint32_t e = 0; e < count; ++e) packing->vector.slots[e] = context.in(1, pitch, e);
        whole = context.out(0, type.bytes, 0);
    } else {
        whole = context.in(1, type.bytes, 0);
        for (uint32_t e = 0; e < count; ++e) packing->vector.slots[e] = context.out(0, pitch, e);
    }
    Instr& instr = context.emit(pack_handler(*packing, into == 1));
    instr.op[into == 1 ? 0 : 1] = whole;
    instr.extra = packing;
    return true;
}

}  // namespace

void register_packing(Registry& registry) { registry.add_decoder("mov", &decode_mov); }

}  // namespace warpline::softgpu::isa
