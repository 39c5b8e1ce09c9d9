// Finds the host addresses behind lanes' addresses, one lane at a time where it must.
#include "softgpu/isa/access.h"

#include <cstring>

namespace warpline::softgpu::isa {

namespace {

std::byte* one_lane(Warp& warp, const Instr& instr, Where where, uint64_t address, uint32_t size_bytes, uint32_t lane) {
    exec::RangeCache& cache = warp.caches[instr.cache];
    switch (where) {
        case Where::shared:
            if (address < warp.shared_bytes && warp.shared_bytes - address >= size_bytes) return warp.shared + address;
            return warp.resolve_shared(address, size_bytes);
        case Where::local: return warp.resolve_local(address, size_bytes, lane);
        case Where::global:
        case Where::generic: break;
    }
    if (address - cache.begin < cache.end - cache.begin && cache.end - address >= size_bytes) {
        return reinterpret_cast<std::byte*>(address);
    }
    if (where == Where::generic) {  // what is near is found without a search
        const uint64_t in_shared = address - reinterpret_cast<uint64_t>(warp.shared);
        if (in_shared < warp.shared_bytes && warp.shared_bytes - in_shared >= size_bytes)
            return reinterpret_cast<std::byte*>(address);
        const uint64_t in_local = address - reinterpret_cast<uint64_t>(warp.local);
        const uint64_t local_bytes = uint64_t{warp.local_stride} * exec::k_warp_size;
        if (in_local < local_bytes && local_bytes - in_local >= size_bytes) return reinterpret_cast<std::byte*>(address);
    }
    exec::RangeCache found;
    if (warp.find_range(address, found) && found.end - address >= size_bytes) {
        cache = found;
        return reinterpret_cast<std::byte*>(address);
    }
    return where == Where::generic ? warp.resolve(address, size_bytes) : nullptr;  // of another block of the cluster
}

/// All 32 lanes, four at a time.
bool all_in_window(uint64_t begin, uint64_t span, uint64_t offset, const uint64_t* addresses, uint32_t alignment,
                   std::byte** lanes) {
    typedef uint64_t Four __attribute__((vector_size(32)));
    Four outside = {}, bits = {};
    for (uint32_t lane = 0; lane < exec::k_warp_size; lane += 4) {
        Four address;
        std::memcpy(&address, addresses + lane, sizeof address);
        // The highest bit, if the distance is above the span: without a compare, which not every vector unit has for 64 bits.
        const Four distance = address - begin;
        outside |= distance | (span - distance);
        bits |= address;
        address += offset;
        std::memcpy(lanes + lane, &address, sizeof address);
    }
    const uint64_t all_outside = outside[0] | outside[1] | outside[2] | outside[3];
    return all_outside >> 63 == 0 && ((bits[0] | bits[1] | bits[2] | bits[3]) & (alignment - 1)) == 0;
}

/// All lanes in shared memory, or in the range that the instruction remembers: the rule, found without a branch per lane. Lanes
/// that are not in `mask` get any value.
bool in_one_window(const Warp& warp, const Instr& instr, uint32_t mask, Where where, const uint64_t* addresses,
                   uint32_t size_bytes, uint32_t alignment, std::byte** lanes) {
    const auto shared = reinterpret_cast<uint64_t>(warp.shared);
    const uint64_t first = addresses[__builtin_ctz(mask)];
    uint64_t begin = warp.caches[instr.cache].begin, bytes = warp.caches[instr.cache].end - begin, offset = 0;
    if (where == Where::shared || (where == Where::generic && first - shared < warp.shared_bytes)) {
        begin = where == Where::shared ? 0 : shared;
        bytes = warp.shared_bytes;
        offset = where == Where::shared ? shared : 0;
    } else if (where == Where::local) {
        return false;
    }
    if (bytes < size_bytes) return false;
    const uint64_t span = bytes - size_bytes;
    if (mask == exec::k_full_mask) return all_in_window(begin, span, offset, addresses, alignment, lanes);
    uint64_t outside = 0, bits = 0;
    for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
        const auto lane = uint32_t(__builtin_ctz(rest));
        const uint64_t address = addresses[lane];
        outside |= uint64_t{address - begin > span};
        bits |= address;
        lanes[lane] = reinterpret_cast<std::byte*>(address + offset);
    }
    return outside == 0 && (bits & (alignment - 1)) == 0;
}

}  // namespace

bool resolve_lanes(Warp& warp, const Instr& instr, uint32_t mask, Where where, const uint64_t* addresses, uint32_t size_bytes,
                   uint32_t alignment, std::byte** lanes) {
    if (in_one_window(warp, instr, mask, where, addresses, size_bytes, alignment, lanes)) return true;
    for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
        auto lane = uint32_t(__builtin_ctz(rest));
        uint64_t address = addresses[lane];
        if ((address & (alignment - 1)) != 0) {
            warp.raise(instr, 716, lane, "misaligned address", address);
            return false;
        }
        lanes[lane] = one_lane(warp, instr, where, address, size_bytes, lane);
        if (lanes[lane] == nullptr) {
            const char* what = where == Where::shared  ? "access outside of shared memory, offset"
                               : where == Where::local ? "access outside of local memory, offset"
                                                       : "illegal address";
            warp.raise(instr, 700, lane, what, address);
            return false;
        }
    }
    return true;
}

bool resolve_row(Warp& warp, const Instr& instr, uint32_t mask, Where where, int32_t slot, uint32_t width, int64_t displacement,
                 uint32_t size_bytes, uint32_t alignment, std::byte** lanes) {
    uint64_t addresses[exec::k_warp_size];
    if (width == 8) {
        const uint64_t* row = exec::source<uint64_t>(warp, slot);
        for (uint32_t lane = 0; lane < exec::k_warp_size; ++lane) addresses[lane] = row[lane] + uint64_t(displacement);
    } else {
        const uint32_t* row = exec::source<uint32_t>(warp, slot);
        for (uint32_t lane = 0; lane < exec::k_warp_size; ++lane)
            addresses[lane] = uint32_t(row[lane] + uint32_t(displacement));
    }
    return resolve_lanes(warp, instr, mask, where, addresses, size_bytes, alignment, lanes);
}

}  // namespace warpline::softgpu::isa
