// cp.async.bulk.tensor, cp.reduce.async.bulk.tensor, cp.async.bulk.prefetch.tensor: boxes of tensors that a tensor map
// describes. PTX ISA, "Data Movement and Conversion Instructions: Tensor copy".
#include <cstring>
#include <new>
#include <string>

#include "softgpu/isa/async_copy.h"
#include "softgpu/isa/async_reduce.h"
#include "softgpu/isa/decode_helpers.h"
#include "softgpu/isa/mbarrier.h"
#include "softgpu/isa/tensor_box.h"
#include "softgpu/isa/tensor_row.h"

namespace warpline::softgpu::isa {

namespace {

using exec::k_max_tensor_rank;
using exec::k_warp_size;
using exec::source;
using exec::TensorMap;
using exec::TensorMode;
using exec::TensorSwizzle;
using exec::TensorType;

constexpr uint32_t k_shared_alignment = 128;
constexpr uint32_t k_map_alignment = 64;
constexpr uint32_t k_reduction_alignment = 16;  ///< of where a reduction begins in a row of the tensor
constexpr int k_invalid = 715;                  // what the hardware finds wrong with a tensor map is an illegal instruction

enum class Direction : uint8_t { load, store, prefetch };

struct Spec {
    Direction direction = Direction::load;
    TensorAccess access = TensorAccess::tile;
    uint8_t rank = 0;
    uint8_t coordinates = 0, offsets = 0;  ///< how many there are
    bool multicast = false;
    bool reduces = false;
    RowAddress map, shared, barrier;
    int32_t coordinate[k_max_tensor_rank] = {};
    int32_t offset[k_max_tensor_rank - 2] = {};
    int32_t ctas = 0;
    BulkReduction reduce[exec::k_tensor_types] = {};  ///< by type of the tensor; null: the type has no such operation
};

/// What one thread's instruction works on.
struct Copy {
    Warp& warp;
    const Instr& instr;
    const Spec& spec;
    uint32_t lane;
    TensorMap map;
    TensorStart start;

    bool refuse(const char* why, uint64_t value = 0) const {
        warp.raise(instr, k_invalid, lane, why, value);
        return false;
    }
    void note(std::byte* at, uint32_t bytes, exec::AccessKind kind) const {
        if (warp.cta->check == nullptr) return;
        std::byte* lanes[k_warp_size] = {};
        lanes[lane] = at;
        exec::check_lanes(warp, instr, 1u << lane, lanes, bytes, kind);
    }
};

uint64_t address_of(const Warp& w, const RowAddress& address, uint32_t lane) {
    const uint64_t base =
        address.width == 8 ? source<uint64_t>(w, address.slot)[lane] : source<uint32_t>(w, address.slot)[lane];
    return base + uint64_t(address.displacement);
}

/// The tensor map is in parameter, constant or global memory: all of these have global addresses.
bool read_map(Copy& copy) {
    const uint64_t address = address_of(copy.warp, copy.spec.map, copy.lane);
    if (address % k_map_alignment != 0) {
        copy.warp.raise(copy.instr, 716, copy.lane, "a tensor map at a misaligned address", address);
        return false;
    }
    const std::byte* at = copy.warp.resolve_global(address, sizeof(TensorMap));
    if (at == nullptr) {
        copy.warp.raise(copy.instr, 700, copy.lane, "a tensor map at an illegal address", address);
        return false;
    }
    std::memcpy(static_cast<void*>(&copy.map), at, sizeof(TensorMap));
    return copy.map.sound() || copy.refuse("what is there is no tensor map:", address);
}

bool check_mode(const Copy& copy) {
    const TensorMap& map = copy.map;
    if (map.rank != copy.spec.rank) return copy.refuse("a tensor map with another number of dimensions:", map.rank);
    switch (copy.spec.access) {
        case TensorAccess::tile:
            return map.mode == TensorMode::tiled || copy.refuse("a tiled copy with a tensor map for im2col");
        case TensorAccess::gather4:
            return (map.mode == TensorMode::tiled && map.box[1] == 1 && map.interleave == exec::TensorInterleave::none) ||
                   copy.refuse("tile::gather4 with a tensor map whose box is not one row");
        case TensorAccess::im2col:
            return map.mode == TensorMode::im2col || copy.refuse("an im2col copy with another tensor map");
        case TensorAccess::im2col_w:
            return map.mode == TensorMode::im2col_w || copy.refuse("an im2col::w copy with another tensor map");
    }
    return false;
}

bool check_start(const Copy& copy) {
    // PTX ISA, "Restriction on Tensor Copy instructions".
    const TensorMap& map = copy.map;
    const uint32_t granule = exec::is_padded(map.type) ? 128 : exec::elements_per_unit(map.type);
    const int32_t first = copy.start.coordinates[0];
    if (first % int32_t(granule) != 0) return copy.refuse("a coordinate that does not fit packed elements:", uint32_t(first));
    // Of what is copied to global memory an H100 asks this of sums only, whatever the tensor's width.
    const int64_t first_byte = int64_t{first} / exec::elements_per_unit(map.type) * exec::unit_bytes(map.type);
    if (copy.spec.reduces && first_byte % k_reduction_alignment != 0)
        return copy.refuse("a reduction that does not begin at a multiple of 16 bytes of a row:", uint32_t(first));
    if (const uint32_t slice = exec::slice_bytes(map.interleave) / exec::unit_bytes(map.type);
        slice != 0 && first % int32_t(slice) != 0)
        return copy.refuse("a channel that is not the first of a slice:", uint32_t(first));
    if (copy.spec.access == TensorAccess::im2col_w && copy.start.offsets[0] != 0) {
        copy.warp.raise(copy.instr, 801, copy.lane, "im2col::w with a halo is not supported");
        return false;
    }
    if (copy.spec.direction != Direction::store)
        return !exec::is_padded(map.type) || map.swizzle != TensorSwizzle::span_128_atom_64 ||
               copy.refuse("a swizzle of 64-byte chunks in a copy of padded elements to shared memory");
    for (uint32_t d = 0; d < copy.spec.coordinates; ++d)
        if (copy.start.coordinates[d] < 0) return copy.refuse("a copy to global memory that begins at a negative coordinate");
    for (uint32_t d = 0; map.mode == TensorMode::im2col && d + 2 < map.rank; ++d)
        if (map.lower[d] < 0 || map.upper[d] > 0)
            return copy.refuse("a copy to global memory whose bounding box leaves the tensor");
    if (map.swizzle == TensorSwizzle::span_128_atom_32_flip_8)
        return copy.refuse("a swizzle with flip in a copy to global memory");
    return map.type != TensorType::b4x16_p64 || copy.refuse("a copy to global memory of elements that are padded to 8 bits");
}

bool prepare(Copy& copy) {
    const Spec& spec = copy.spec;
    for (uint32_t d = 0; d < spec.coordinates; ++d)
        copy.start.coordinates[d] = source<int32_t>(copy.warp, spec.coordinate[d])[copy.lane];
    for (uint32_t d = 0; d < spec.offsets; ++d) copy.start.offsets[d] = source<uint16_t>(copy.warp, spec.offset[d])[copy.lane];
    return read_map(copy) && check_mode(copy) && check_start(copy);
}

/// A place in the shared memory of a CTA of the cluster.
struct SharedPlace {
    const exec::Cta* cta = nullptr;
    uint32_t offset = 0;
    std::byte* at(uint32_t offset_in_cta) const { return cta->shared + offset_in_cta; }
};

bool find_shared(const Copy& copy, const RowAddress& address, uint64_t bytes, uint32_t alignment, SharedPlace& place) {
    std::byte* lanes[k_warp_size];
    Warp& w = copy.warp;
    if (bytes > UINT32_MAX) return copy.refuse("a box that does not fit into shared memory, bytes", bytes);
    if (!resolve(w, copy.instr, 1u << copy.lane, address, uint32_t(bytes), 1, lanes)) return false;
    for (uint32_t rank = 0; rank < w.cta->cluster_size; ++rank) {
        const exec::Cta& cta = *w.cta->cluster[rank];
        const auto offset = uint64_t(lanes[copy.lane] - cta.shared);
        if (offset >= cta.shared_bytes) continue;
        place = {&cta, uint32_t(offset)};
        if (offset % alignment == 0) return true;
        w.raise(copy.instr, 716, copy.lane, "misaligned address in shared memory, offset", offset);
        return false;
    }
    w.raise(copy.instr, 700, copy.lane, "a tensor copy needs an address in shared memory, not",
            address_of(w, address, copy.lane));
    return false;
}

bool in_other_cta(const Copy& copy, SharedPlace& place, uint64_t bytes, uint32_t rank) {
    if (rank < copy.warp.cta->cluster_size) {
        place.cta = copy.warp.cta->cluster[rank];
        if (place.offset <= place.cta->shared_bytes && place.cta->shared_bytes - place.offset >= bytes) return true;
    }
    copy.warp.raise(copy.instr, 700, copy.lane, "a multicast to a block that the cluster does not have:", rank);
    return false;
}

/// The part of a row in global memory. Null after a fault.
std::byte* find_global(const Copy& copy, const TensorRow& row) {
    uint64_t addresses[k_warp_size] = {};
    std::byte* lanes[k_warp_size];
    addresses[copy.lane] = row.address;
    const uint32_t bytes = row.units * exec::unit_bytes(copy.map.type);
    if (!resolve_lanes(copy.warp, copy.instr, 1u << copy.lane, Where::global, addresses, bytes, 1, lanes)) return nullptr;
    return lanes[copy.lane];
}

/// Moves a row between `row` and its chunks in shared memory.
template <bool ToShared>
void move_row(const Copy& copy, const SharedPlace& place, uint32_t offset, const TensorLayout& layout, std::byte* row) {
    const bool flips = copy.map.swizzle == TensorSwizzle::span_128_atom_32_flip_8;
    const bool padded = exec::is_padded(copy.map.type) && ToShared;  // gaps are not written
    const uint32_t chunk = copy.map.swizzle == TensorSwizzle::none && !padded ? layout.row_bytes : flips ? 8 : 16;
    const uint32_t bytes = padded ? exec::unit_bytes(copy.map.type) : chunk;
    for (uint32_t at = 0; at < layout.row_bytes; at += chunk) {
        std::byte* shared = place.at(swizzled(copy.map.swizzle, place.offset + offset + at));
        copy.note(shared, bytes, ToShared ? exec::AccessKind::write : exec::AccessKind::read);
        if constexpr (ToShared) {
            std::memcpy(shared, row + at, bytes);
        } else {
            std::memcpy(row + at, shared, bytes);
        }
    }
}

bool load_box(const Copy& copy, const SharedPlace& place, const TensorLayout& layout) {
    alignas(16) std::byte row[k_max_tensor_row_bytes];
    TensorRows rows(copy.map, copy.spec.access, copy.start);
    for (uint64_t number = 0; number < layout.rows; ++number, rows.next()) {
        const TensorRow inside = rows.row();
        const std::byte* from = nullptr;
        if (inside.units != 0) {
            std::byte* at = find_global(copy, inside);
            if (at == nullptr) return false;
            copy.note(at, inside.units * exec::unit_bytes(copy.map.type), exec::AccessKind::read);
            from = at;
        }
        unpack_row(copy.map, inside, from, layout.row_bytes, row);
        move_row<true>(copy, place, uint32_t(number * layout.pitch_bytes), layout, row);
    }
    return true;
}

bool store_box(const Copy& copy, const SharedPlace& place, const TensorLayout& layout) {
    alignas(16) std::byte row[k_max_tensor_row_bytes];
    BulkReduction reduce = nullptr;
    if (copy.spec.reduces) {
        reduce = copy.spec.reduce[uint32_t(copy.map.type)];
        if (reduce == nullptr)
            return copy.refuse("a reduction that the tensor's type does not have, type", uint32_t(copy.map.type));
    }
    TensorRows rows(copy.map, copy.spec.access, copy.start);
    for (uint64_t number = 0; number < layout.rows; ++number, rows.next()) {
        const TensorRow inside = rows.row();
        if (inside.units == 0) continue;
        std::byte* to = find_global(copy, inside);
        if (to == nullptr) return false;
        const uint32_t bytes = inside.units * exec::unit_bytes(copy.map.type);
        move_row<false>(copy, place, uint32_t(number * layout.pitch_bytes), layout, row);
        copy.note(to, bytes, reduce != nullptr ? exec::AccessKind::atomic : exec::AccessKind::write);
        const std::byte* from = pack_row(copy.map, inside, row);
        if (reduce != nullptr)
            reduce(to, from, bytes);
        else
            std::memcpy(to, from, bytes);
    }
    return true;
}

bool load_and_arrive(const Copy& copy, const SharedPlace& place, const SharedPlace& barrier, const TensorLayout& layout) {
    if (!load_box(copy, place, layout)) return false;
    copy.note(barrier.at(barrier.offset), k_mbarrier_bytes, exec::AccessKind::atomic);
    MbarrierObject(barrier.at(barrier.offset)).complete_transaction(int64_t(layout.bytes()));
    return true;
}

bool load_lane(Copy& copy) {
    const TensorLayout layout = tensor_layout(copy.map, copy.spec.access);
    SharedPlace place, barrier;
    if (!find_shared(copy, copy.spec.shared, layout.extent_bytes, k_shared_alignment, place) ||
        !find_shared(copy, copy.spec.barrier, k_mbarrier_bytes, k_mbarrier_bytes, barrier))
        return false;
    if (!copy.spec.multicast) return load_and_arrive(copy, place, barrier, layout);
    for (uint32_t rest = source<uint16_t>(copy.warp, copy.spec.ctas)[copy.lane]; rest != 0; rest &= rest - 1) {
        const auto rank = uint32_t(__builtin_ctz(rest));
        if (!in_other_cta(copy, place, layout.extent_bytes, rank) || !in_other_cta(copy, barrier, k_mbarrier_bytes, rank) ||
            !load_and_arrive(copy, place, barrier, layout))
            return false;
    }
    return true;
}

bool store_lane(Copy& copy) {
    const TensorLayout layout = tensor_layout(copy.map, copy.spec.access);
    SharedPlace place;
    return find_shared(copy, copy.spec.shared, layout.extent_bytes, k_shared_alignment, place) &&
           store_box(copy, place, layout);
}

Flow tensor_copy(Warp& w, const Instr& i, uint32_t mask) {
    const Spec& spec = *static_cast<const Spec*>(i.extra);
    for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
        Copy copy{w, i, spec, uint32_t(__builtin_ctz(rest)), {}, {}};
        if (!prepare(copy)) return Flow::fault;
        if (spec.direction == Direction::load && !load_lane(copy)) return Flow::fault;
        if (spec.direction == Direction::store && !store_lane(copy)) return Flow::fault;
    }
    return Flow::next;
}

// --- decoding

/// Dimensions, and the load mode with its number of further operands.
bool decode_mode(DecodeContext& context, Spec& spec) {
    constexpr const char* k_dimensions[] = {"1d", "2d", "3d", "4d", "5d"};
    for (uint8_t rank = 1; rank <= k_max_tensor_rank; ++rank)
        if (context.has(k_dimensions[rank - 1])) spec.rank = rank;
    spec.coordinates = spec.rank;
    if (context.has("tile::gather4")) {
        spec.access = TensorAccess::gather4;
        spec.coordinates = 5;
        return spec.rank == 2;
    }
    if (context.has("im2col") || context.has("im2col_no_offs")) {
        spec.access = TensorAccess::im2col;
        spec.offsets = context.has("im2col") && spec.rank >= 3 ? uint8_t(spec.rank - 2) : 0;
        return spec.rank >= 3;
    }
    if (context.has("im2col::w")) {
        spec.access = TensorAccess::im2col_w;
        spec.offsets = 2;
        return spec.rank >= 3;
    }
    return spec.rank != 0;
}

/// [map, {coordinates}] as operand `operand`.
bool decode_place(DecodeContext& context, uint32_t operand, Spec& spec) {
    if (context.element_count(operand) != 1u + spec.coordinates) return context.invalid("wrong number of coordinates");
    spec.map = row_address(context, operand, Space::generic, false);
    for (uint32_t d = 0; d < spec.coordinates; ++d) spec.coordinate[d] = context.in(operand, 4, 1 + d);
    return true;
}

bool decode_offsets(DecodeContext& context, uint32_t operand, Spec& spec) {
    if (context.element_count(operand) != spec.offsets) return context.invalid("wrong number of im2col offsets");
    for (uint32_t d = 0; d < spec.offsets; ++d) spec.offset[d] = context.in(operand, 2, d);
    return true;
}

bool emit(DecodeContext& context, const Spec* spec) {
    const uint32_t cache = context.new_range_cache();
    Instr& instr = context.emit(&tensor_copy);
    instr.extra = spec;
    instr.cache = cache;
    return true;
}

/// load:     [dst], [map, {c}], [mbar]{, {offsets}}{, ctaMask}{, policy}
/// store:    [map, {c}], [src]{, policy}
/// prefetch: [map, {c}]{, {offsets}}{, policy}
bool decode_operands(DecodeContext& context, Spec& spec) {
    const bool hint = context.has("L2::cache_hint");
    const Space to = context.has("shared::cta") ? Space::shared : Space::shared_cluster;
    const uint32_t own = spec.direction == Direction::load ? 3 : spec.direction == Direction::store ? 2 : 1;
    if (context.operand_count() != own + (spec.offsets != 0) + spec.multicast + hint)
        return context.invalid("wrong number of operands");
    if (!decode_place(context, spec.direction == Direction::load ? 1 : 0, spec)) return false;
    uint32_t next = own;
    if (spec.direction == Direction::load) {
        spec.shared = row_address(context, 0, to, true);
        spec.barrier = row_address(context, 2, to, true);
    } else if (spec.direction == Direction::store) {
        spec.shared = row_address(context, 1, Space::shared, false);
    }
    if (spec.offsets != 0 && !decode_offsets(context, next++, spec)) return false;
    if (spec.multicast) spec.ctas = context.in(next++, 2);
    if (hint) context.in(next, 8);
    return true;
}

/// The operation for each type that a tensor can have. PTX ISA, cp.reduce.async.bulk.tensor.
void find_reductions(std::string_view operation, Spec& spec) {
    struct TypeName {
        TensorType type;
        const char* name;
    };
    constexpr TypeName k_arithmetic[] = {{TensorType::u32, "u32"}, {TensorType::s32, "s32"},    {TensorType::u64, "u64"},
                                         {TensorType::s64, "s64"}, {TensorType::f16, "f16"},    {TensorType::bf16, "bf16"},
                                         {TensorType::f32, "f32"}, {TensorType::f32_ftz, "f32"}};
    constexpr TypeName k_bits[] = {
        {TensorType::u32, "b32"}, {TensorType::s32, "b32"}, {TensorType::u64, "b64"}, {TensorType::s64, "b64"}};
    for (const auto& [type, name] : k_arithmetic) spec.reduce[uint32_t(type)] = bulk_reduction(operation, name);
    for (const auto& [type, name] : k_bits)
        if (BulkReduction found = bulk_reduction(operation, name)) spec.reduce[uint32_t(type)] = found;
}

}  // namespace

bool decode_tensor_copy(DecodeContext& context) {
    // What only targets with a suffix (sm_100a) have; their PTX runs nowhere else.
    for (const char* refused : {"tile::scatter4", "im2col::w::128", "cta_group::1", "cta_group::2"})
        if (context.has(refused)) return context.unsupported();
    auto* spec = context.storage<Spec>();
    new (spec) Spec;
    spec->reduces = context.has("reduce");
    spec->direction = context.has("prefetch")     ? Direction::prefetch
                      : context.has("bulk_group") ? Direction::store
                                                  : Direction::load;
    spec->multicast = context.has("multicast::cluster");
    const bool announces = context.has("mbarrier::complete_tx::bytes");
    if (announces != (spec->direction == Direction::load) || (spec->reduces && spec->direction != Direction::store))
        return context.unsupported();
    if (!decode_mode(context, *spec)) return context.invalid("a mode that these dimensions do not have");
    if (spec->reduces) {
        for (std::string_view word : context.modifiers())
            if (is_reduction(word)) find_reductions(word, *spec);
    }
    return decode_operands(context, *spec) && emit(context, spec);
}

}  // namespace warpline::softgpu::isa
