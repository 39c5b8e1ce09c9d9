// cp.async.bulk and cp.reduce.async.bulk without tensor maps: blocks of memory, 16 bytes and multiples. PTX ISA: cp.async.bulk,
// cp.reduce.async.bulk, cp.async.bulk.prefetch.
#include <algorithm>
#include <cstring>

#include "softgpu/isa/async_copy.h"
#include "softgpu/isa/async_reduce.h"
#include "softgpu/isa/decode_helpers.h"
#include "softgpu/isa/mbarrier.h"

namespace warpline::softgpu::isa {

namespace {

using exec::k_warp_size;
using exec::source;

constexpr uint32_t k_granule = 16;

struct Spec {
    RowAddress to, from, barrier;
    bool has_barrier = false;
    bool multicast = false;  ///< op[2] = mask of CTAs
    bool to_is_shared = false;
    bool byte_mask = false;  ///< .cp_mask: op[3] says which bytes of 16 are copied
    BulkReduction reduce = nullptr;
};

/// The address of a lane, checked. Null after a fault.
std::byte* find(Warp& w, const Instr& i, const RowAddress& address, uint32_t lane, uint64_t size, uint32_t alignment) {
    std::byte* found[k_warp_size];
    if (size > UINT32_MAX || !resolve(w, i, 1u << lane, address, uint32_t(size), alignment, found)) return nullptr;
    return found[lane];
}

void copy_bytes(std::byte* to, const std::byte* from, uint32_t size, const Spec& spec, uint32_t byte_mask) {
    if (spec.reduce != nullptr) return spec.reduce(to, from, size);
    if (!spec.byte_mask) {
        std::memmove(to, from, size);
        return;
    }
    for (uint32_t byte = 0; byte < size; ++byte) {
        if ((byte_mask >> (byte % k_granule) & 1) != 0) to[byte] = from[byte];
    }
}

/// The same place in the shared memory of another CTA of the cluster.
std::byte* in_other_cta(Warp& w, std::byte* at, uint32_t size, uint32_t rank) {
    if (rank >= w.cta->cluster_size) return nullptr;
    for (uint32_t owner = 0; owner < w.cta->cluster_size; ++owner) {
        auto offset = uint64_t(at - w.cta->cluster[owner]->shared);
        if (offset >= w.cta->cluster[owner]->shared_bytes) continue;
        const exec::Cta& other = *w.cta->cluster[rank];
        return offset <= other.shared_bytes && other.shared_bytes - offset >= size ? other.shared + offset : nullptr;
    }
    return nullptr;
}

void note_lane(Warp& w, const Instr& i, uint32_t lane, std::byte* at, uint32_t size, exec::AccessKind kind) {
    std::byte* lanes[k_warp_size] = {};
    lanes[lane] = at;
    note_access(w, i, 1u << lane, lanes, size, kind);
}

bool copy_lane(Warp& w, const Instr& i, const Spec& spec, uint32_t lane) {
    const uint32_t size = source<uint32_t>(w, i.op[1])[lane];
    if (size % k_granule != 0) {
        w.raise(i, 716, lane, "a bulk copy whose size is no multiple of 16:", size);
        return false;
    }
    if (size == 0) return true;
    std::byte* from = find(w, i, spec.from, lane, size, k_granule);
    std::byte* to = from == nullptr ? nullptr : find(w, i, spec.to, lane, size, k_granule);
    if (to == nullptr) return false;
    std::byte* barrier = spec.has_barrier ? find(w, i, spec.barrier, lane, k_mbarrier_bytes, k_mbarrier_bytes) : nullptr;
    if (spec.has_barrier && barrier == nullptr) return false;
    note_lane(w, i, lane, from, size, exec::AccessKind::read);
    if (!spec.multicast) {
        note_lane(w, i, lane, to, size, spec.reduce != nullptr ? exec::AccessKind::atomic : exec::AccessKind::write);
        if (barrier != nullptr) note_lane(w, i, lane, barrier, k_mbarrier_bytes, exec::AccessKind::atomic);
        uint32_t byte_mask = spec.byte_mask ? source<uint16_t>(w, i.op[3])[lane] : 0;
        copy_bytes(to, from, size, spec, byte_mask);
        if (barrier != nullptr) MbarrierObject(barrier).complete_transaction(size);
        return true;
    }
    for (uint32_t rest = source<uint16_t>(w, i.op[2])[lane]; rest != 0; rest &= rest - 1) {
        auto rank = uint32_t(__builtin_ctz(rest));
        std::byte* there = in_other_cta(w, to, size, rank);
        std::byte* there_barrier = in_other_cta(w, barrier, k_mbarrier_bytes, rank);
        if (there == nullptr || there_barrier == nullptr) {
            w.raise(i, 700, lane, "a multicast to a block that the cluster does not have:", rank);
            return false;
        }
        note_lane(w, i, lane, there, size, exec::AccessKind::write);
        note_lane(w, i, lane, there_barrier, k_mbarrier_bytes, exec::AccessKind::atomic);
        std::memmove(there, from, size);
        MbarrierObject(there_barrier).complete_transaction(size);
    }
    return true;
}

Flow copy(Warp& w, const Instr& i, uint32_t mask) {
    const Spec& spec = *static_cast<const Spec*>(i.extra);
    for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
        if (!copy_lane(w, i, spec, uint32_t(__builtin_ctz(rest)))) return Flow::fault;
    }
    return Flow::next;
}

/// The two spaces: destination, then source.
bool spaces_of(const DecodeContext& context, Space& to, Space& from) {
    uint32_t count = 0;
    for (std::string_view word : context.modifiers()) {
        Space space = space_word(word);
        if (space == Space::generic) continue;
        (count++ == 0 ? to : from) = space;
    }
    return count == 2;
}

/// [dst], [src], size, [mbar]{, ctaMask}{, policy}; or, with .bulk_group, [dst], [src], size{, policy}{, byteMask}.
bool decode(DecodeContext& context, BulkReduction reduce) {
    Space to = Space::generic, from = Space::generic;
    if (!spaces_of(context, to, from)) return context.unsupported();
    auto* spec = context.storage<Spec>();
    new (spec) Spec;
    spec->reduce = reduce;
    spec->has_barrier = context.has("mbarrier::complete_tx::bytes");
    spec->multicast = context.has("multicast::cluster");
    spec->byte_mask = context.has("cp_mask");
    const bool hint = context.has("L2::cache_hint");
    if (spec->has_barrier == context.has("bulk_group") || (spec->multicast && !spec->has_barrier)) return context.unsupported();
    const uint32_t wanted = 3 + spec->has_barrier + spec->multicast + hint + spec->byte_mask;
    if (context.operand_count() != wanted) return context.invalid("wrong number of operands");
    spec->to = row_address(context, 0, to, true);
    spec->from = row_address(context, 1, from, false);
    int32_t size = context.in(2, 4), ctas = 0, bytes = 0;
    uint32_t next = 3;
    // The barrier is where the data goes: in shared memory.
    if (spec->has_barrier) spec->barrier = row_address(context, next++, to, true);
    if (spec->multicast) ctas = context.in(next++, 2);
    if (hint) context.in(next++, 8);
    if (spec->byte_mask) bytes = context.in(next++, 2);
    uint32_t cache = context.new_range_cache();
    Instr& instr = context.emit(&copy);
    instr.op[1] = size;
    instr.op[2] = ctas;
    instr.op[3] = bytes;
    instr.extra = spec;
    instr.cache = cache;
    return true;
}

}  // namespace

bool decode_bulk_copy(DecodeContext& context) {
    if (context.has("prefetch")) return true;  // a hint
    return decode(context, nullptr);
}

bool decode_bulk_reduce(DecodeContext& context) {
    std::string_view operation, type;
    for (std::string_view word : context.modifiers()) {
        if (is_reduction(word)) operation = word;
        if (type_info(word).bytes != 0) type = word;
    }
    BulkReduction reduce = bulk_reduction(operation, type);
    return reduce != nullptr ? decode(context, reduce) : context.unsupported();
}

}  // namespace warpline::softgpu::isa
