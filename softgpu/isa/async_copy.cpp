// cp.async: copies of 4, 8 or 16 bytes from global to shared memory, and the groups they are waited for in. PTX ISA: cp.async.
#include "softgpu/isa/async_copy.h"

#include <cstring>

#include "softgpu/isa/families.h"
#include "softgpu/isa/row_address.h"

namespace warpline::softgpu::isa {

namespace {

using exec::k_warp_size;
using exec::source;

enum class Limit : uint8_t { none, size, ignore };

struct Spec {
    RowAddress to, from;
    uint32_t bytes = 0;
    Limit limit = Limit::none;
    int32_t operand = 0;  ///< row of source sizes, or predicate
};

/// Bytes that a lane reads; the rest is filled with zeros.
uint32_t bytes_read(const Warp& w, const Spec& spec, uint32_t lane) {
    switch (spec.limit) {
        case Limit::none: return spec.bytes;
        case Limit::ignore: return (exec::predicate(w, spec.operand) >> lane & 1) != 0 ? 0 : spec.bytes;
        case Limit::size: break;
    }
    uint32_t size = source<uint32_t>(w, spec.operand)[lane];
    return size < spec.bytes ? size : spec.bytes;
}

/// True only if every lane of the warp, active or not, says that it reads all that it writes: what compilers make of
/// __pipeline_memcpy_async, whose size is a row of the same number. (Sizes from 2 GiB on are looked at one by one.)
bool all_read_all(const Warp& w, const Spec& spec) {
    if (spec.limit != Limit::size) return spec.limit == Limit::none;
    const uint32_t* sizes = source<uint32_t>(w, spec.operand);
    uint32_t less = 0;
    for (uint32_t lane = 0; lane < k_warp_size; ++lane) less |= sizes[lane] - spec.bytes;
    return less >> 31 == 0;
}

/// The rule: every lane reads all that it writes.
template <uint32_t Bytes>
void copy_whole(uint32_t mask, std::byte* const* to, std::byte* const* from) {
    if (mask == exec::k_full_mask) {
        for (uint32_t lane = 0; lane < k_warp_size; ++lane) std::memcpy(to[lane], from[lane], Bytes);
        return;
    }
    for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
        auto lane = uint32_t(__builtin_ctz(rest));
        std::memcpy(to[lane], from[lane], Bytes);
    }
}

Flow copy(Warp& w, const Instr& i, uint32_t mask) {
    const Spec& spec = *static_cast<const Spec*>(i.extra);
    std::byte *to[k_warp_size], *from[k_warp_size];
    uint32_t sizes[k_warp_size], whole = all_read_all(w, spec) ? mask : 0;
    for (uint32_t rest = mask & ~whole; rest != 0; rest &= rest - 1) {
        auto lane = uint32_t(__builtin_ctz(rest));
        sizes[lane] = bytes_read(w, spec, lane);
        whole |= uint32_t{sizes[lane] == spec.bytes} << lane;
    }
    if (!resolve(w, i, mask, spec.to, spec.bytes, spec.bytes, to)) return Flow::fault;
    if (whole != 0 && !resolve(w, i, whole, spec.from, spec.bytes, spec.bytes, from)) return Flow::fault;
    note_access(w, i, whole, from, spec.bytes, exec::AccessKind::read);
    note_access(w, i, mask, to, spec.bytes, exec::AccessKind::write);
    if (whole == mask) {
        switch (spec.bytes) {
            case 4: copy_whole<4>(mask, to, from); break;
            case 8: copy_whole<8>(mask, to, from); break;
            default: copy_whole<16>(mask, to, from); break;
        }
        return Flow::next;
    }
    for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
        auto lane = uint32_t(__builtin_ctz(rest));
        // What is not read need not exist.
        if (sizes[lane] != spec.bytes && sizes[lane] != 0 &&
            !resolve(w, i, 1u << lane, spec.from, sizes[lane], spec.bytes, from))
            return Flow::fault;
        std::byte value[16] = {};
        if (sizes[lane] != 0) std::memcpy(value, from[lane], sizes[lane]);
        std::memcpy(to[lane], value, spec.bytes);
    }
    return Flow::next;
}

bool decode_copy(DecodeContext& context) {
    bool hint = context.has("L2::cache_hint");
    const uint32_t operands = context.operand_count() - (hint ? 1 : 0);
    int64_t bytes = 0;
    if (context.operand_count() < 3 || operands < 3 || operands > 4 || !context.constant(2, bytes))
        return context.invalid("wrong operands");
    if (bytes != 4 && bytes != 8 && bytes != 16) return context.invalid("a copy has 4, 8 or 16 bytes");
    auto* spec = context.storage<Spec>();
    new (spec) Spec;
    spec->bytes = uint32_t(bytes);
    spec->to = row_address(context, 0, Space::shared, true);
    spec->from = row_address(context, 1, Space::global, false);
    if (operands == 4) {
        spec->limit = context.is_predicate(3) ? Limit::ignore : Limit::size;
        spec->operand = spec->limit == Limit::ignore ? context.in_pred(3) : context.in(3, 4);
    }
    if (hint) context.in(operands, 8);
    uint32_t cache = context.new_range_cache();
    Instr& instr = context.emit(&copy);
    instr.extra = spec;
    instr.cache = cache;
    return true;
}

bool decode_cp(DecodeContext& context) {
    if (context.has("tensor")) return decode_tensor_copy(context);
    if (context.has("reduce")) return decode_bulk_reduce(context);
    // Groups: all copies are complete already.
    if (context.has("commit_group") || context.has("wait_group") || context.has("wait_all")) return true;
    if (context.has("bulk")) return decode_bulk_copy(context);
    if (context.has("mbarrier")) return decode_async_arrive(context);
    return context.has("ca") || context.has("cg") ? decode_copy(context) : context.unsupported();
}

}  // namespace

void register_async_copy(Registry& registry) { registry.add_decoder("cp", &decode_cp); }

}  // namespace warpline::softgpu::isa
