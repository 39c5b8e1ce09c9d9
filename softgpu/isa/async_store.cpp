// st.async, red.async and st.bulk: stores that report to a barrier in the shared memory of the receiver. PTX ISA: st.async,
// red.async, st.bulk.
#include <cstring>

#include "softgpu/isa/async_reduce.h"
#include "softgpu/isa/decode_helpers.h"
#include "softgpu/isa/families.h"
#include "softgpu/isa/mbarrier.h"

namespace warpline::softgpu::isa {

namespace {

using exec::k_warp_size;
using exec::source;

struct Spec {
    RowAddress to, barrier;
    bool has_barrier = false;
    uint8_t element_bytes = 4, count = 1;
    BulkReduction reduce = nullptr;  ///< null: store
    int32_t slots[4] = {};
};

Flow store(Warp& w, const Instr& i, uint32_t mask) {
    const Spec& spec = *static_cast<const Spec*>(i.extra);
    const uint32_t bytes = uint32_t{spec.element_bytes} * spec.count;
    std::byte *to[k_warp_size], *barriers[k_warp_size];
    if (!resolve(w, i, mask, spec.to, bytes, bytes, to)) return Flow::fault;
    if (spec.has_barrier && !resolve(w, i, mask, spec.barrier, k_mbarrier_bytes, k_mbarrier_bytes, barriers))
        return Flow::fault;
    note_access(w, i, mask, to, bytes, spec.reduce != nullptr ? exec::AccessKind::atomic : exec::AccessKind::write);
    if (spec.has_barrier) note_access(w, i, mask, barriers, k_mbarrier_bytes, exec::AccessKind::atomic);
    for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
        auto lane = uint32_t(__builtin_ctz(rest));
        for (uint32_t e = 0; e < spec.count; ++e) {
            const std::byte* from = source<std::byte>(w, spec.slots[e]) + lane * spec.element_bytes;
            std::byte* at = to[lane] + e * spec.element_bytes;
            if (spec.reduce != nullptr)
                spec.reduce(at, from, spec.element_bytes);
            else
                std::memcpy(at, from, spec.element_bytes);
        }
        if (spec.has_barrier) MbarrierObject(barriers[lane]).complete_transaction(bytes);
    }
    return Flow::next;
}

/// op[1] = number of bytes, set to zero.
Flow fill(Warp& w, const Instr& i, uint32_t mask) {
    const Spec& spec = *static_cast<const Spec*>(i.extra);
    for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
        auto lane = uint32_t(__builtin_ctz(rest));
        uint64_t bytes = source<uint64_t>(w, i.op[1])[lane];
        std::byte* to[k_warp_size];
        if (bytes > UINT32_MAX) return w.raise(i, 700, lane, "st.bulk outside of shared memory, size", bytes);
        if (!resolve(w, i, 1u << lane, spec.to, uint32_t(bytes), 8, to)) return Flow::fault;
        note_access(w, i, 1u << lane, to, uint32_t(bytes), exec::AccessKind::write);
        std::memset(to[lane], 0, bytes);
    }
    return Flow::next;
}

Decoder s_other_st = nullptr, s_other_red = nullptr;

/// st.async … [a], b, [mbar] and red.async … .op.type [a], b, [mbar]; the forms for global memory have no barrier.
bool decode_store(DecodeContext& context, bool reduces) {
    auto* spec = context.storage<Spec>();
    new (spec) Spec;
    Space space = Space::generic;
    std::string_view operation, type;
    for (std::string_view word : context.modifiers()) {
        space = space_word(word, space);
        if (word == "v2") spec->count = 2;
        if (word == "v4") spec->count = 4;
        if (is_reduction(word)) operation = word;
        if (type_info(word).bytes != 0) type = word;
    }
    spec->has_barrier = context.has("mbarrier::complete_tx::bytes");
    spec->element_bytes = type_info(type).bytes;
    if (reduces) {
        spec->reduce = bulk_reduction(operation, type);
        if (spec->reduce == nullptr || spec->count != 1) return context.unsupported();
    }
    if (spec->element_bytes < 2 || uint32_t{spec->element_bytes} * spec->count > 16) return context.unsupported();
    if (context.operand_count() != (spec->has_barrier ? 3u : 2u) || context.element_count(1) != spec->count)
        return context.invalid("wrong operands");
    spec->to = row_address(context, 0, space, true);
    if (spec->has_barrier) spec->barrier = row_address(context, 2, space, true);
    for (uint32_t e = 0; e < spec->count; ++e) spec->slots[e] = context.in(1, spec->element_bytes, e);
    uint32_t cache = context.new_range_cache();
    Instr& instr = context.emit(&store);
    instr.extra = spec;
    instr.cache = cache;
    return true;
}

bool decode_fill(DecodeContext& context) {
    int64_t value = 0;
    if (context.operand_count() != 3 || !context.constant(2, value) || value != 0) return context.unsupported();
    auto* spec = context.storage<Spec>();
    new (spec) Spec;
    Space space = Space::generic;
    for (std::string_view word : context.modifiers()) space = space_word(word, space);
    spec->to = row_address(context, 0, space, true);
    int32_t size = context.in(1, 8);
    uint32_t cache = context.new_range_cache();
    Instr& instr = context.emit(&fill);
    instr.op[1] = size;
    instr.extra = spec;
    instr.cache = cache;
    return true;
}

bool decode_st(DecodeContext& context) {
    if (context.has("bulk")) return decode_fill(context);
    if (context.has("async")) return decode_store(context, false);
    return s_other_st != nullptr ? s_other_st(context) : context.unsupported();
}
bool decode_red(DecodeContext& context) {
    if (context.has("async")) return decode_store(context, true);
    return s_other_red != nullptr ? s_other_red(context) : context.unsupported();
}

}  // namespace

void register_async_store(Registry& registry) {
    s_other_st = registry.decoder("st");
    s_other_red = registry.decoder("red");
    registry.add_decoder("st", &decode_st);
    registry.add_decoder("red", &decode_red);
}

}  // namespace warpline::softgpu::isa
