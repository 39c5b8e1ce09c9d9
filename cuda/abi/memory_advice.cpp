// Pieces of managed memory with what was said of each, and the answers about ranges of them.
#include "cuda/abi/memory_advice.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

namespace warpline::cuda::abi {

namespace {

constexpr uint64_t k_page = 4096;

/// The ordinal that attributes from before there were locations give.
int ordinal_of(const CUmemLocation& location) {
    if (location.type == CU_MEM_LOCATION_TYPE_INVALID) return CU_DEVICE_INVALID;
    return location.type == CU_MEM_LOCATION_TYPE_DEVICE ? location.id : CU_DEVICE_CPU;
}

}  // namespace

CUmemLocation location_of(CUdevice device) {
    if (device == CU_DEVICE_CPU) return {CU_MEM_LOCATION_TYPE_HOST, 0};
    return {CU_MEM_LOCATION_TYPE_DEVICE, device};
}

bool names_location(CUmem_advise advice) {
    return advice == CU_MEM_ADVISE_SET_PREFERRED_LOCATION || advice == CU_MEM_ADVISE_SET_ACCESSED_BY ||
           advice == CU_MEM_ADVISE_UNSET_ACCESSED_BY;
}

void MemoryAdvice::split(uint64_t at) {
    const auto after = m_pieces.upper_bound(at);
    if (after == m_pieces.begin()) return;
    const auto before = std::prev(after);
    if (before->first == at || before->second.end <= at) return;
    Entry second{before->second.end, before->second.piece};
    before->second.end = at;
    m_pieces.emplace(at, std::move(second));
}

template <typename Change>
void MemoryAdvice::change(uint64_t address, uint64_t size_bytes, Change change) {
    MutexLock lock(m_mutex);
    const uint64_t begin = address / k_page * k_page, end = (address + size_bytes + k_page - 1) / k_page * k_page;
    split(begin);
    split(end);
    for (uint64_t at = begin; at < end;) {
        const auto found = m_pieces.lower_bound(at);
        if (found == m_pieces.end() || found->first > at) {
            const uint64_t until = found == m_pieces.end() ? end : std::min(end, found->first);
            change(m_pieces.emplace(at, Entry{until, {}}).first->second.piece);
            at = until;
        } else {
            change(found->second.piece);
            at = found->second.end;
        }
    }
}

CUresult MemoryAdvice::advise(uint64_t address, uint64_t size_bytes, CUmem_advise advice, const CUmemLocation& location) {
    const auto say = [&](auto apply) {
        change(address, size_bytes, apply);
        return CUDA_SUCCESS;
    };
    switch (advice) {
        case CU_MEM_ADVISE_SET_READ_MOSTLY: return say([](Piece& piece) { piece.read_mostly = true; });
        case CU_MEM_ADVISE_UNSET_READ_MOSTLY: return say([](Piece& piece) { piece.read_mostly = false; });
        case CU_MEM_ADVISE_SET_PREFERRED_LOCATION: return say([&](Piece& piece) { piece.preferred = location; });
        case CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION: return say([](Piece& piece) { piece.preferred = Piece{}.preferred; });
        case CU_MEM_ADVISE_SET_ACCESSED_BY: return say([&](Piece& piece) { piece.accessed_by.insert(ordinal_of(location)); });
        case CU_MEM_ADVISE_UNSET_ACCESSED_BY: return say([&](Piece& piece) { piece.accessed_by.erase(ordinal_of(location)); });
        default: return CUDA_ERROR_INVALID_VALUE;
    }
}

void MemoryAdvice::note_prefetch(uint64_t address, uint64_t size_bytes, const CUmemLocation& location) {
    change(address, size_bytes, [&](Piece& piece) { piece.prefetched = location; });
}

/// What was never spoken of is a piece without advice.
std::vector<MemoryAdvice::Piece> MemoryAdvice::pieces_of(uint64_t address, uint64_t size_bytes) const {
    std::vector<Piece> out;
    const uint64_t end = address + size_bytes;
    MutexLock lock(m_mutex);
    auto it = m_pieces.upper_bound(address);
    if (it != m_pieces.begin() && std::prev(it)->second.end > address) --it;
    uint64_t at = address;
    for (; it != m_pieces.end() && it->first < end; ++it) {
        if (it->first > at) out.emplace_back();
        out.push_back(it->second.piece);
        at = it->second.end;
    }
    if (at < end) out.emplace_back();
    return out;
}

CUmemLocation MemoryAdvice::common(const std::vector<Piece>& pieces, CUmemLocation Piece::*member) {
    const CUmemLocation first = pieces.front().*member;
    const bool same = std::all_of(pieces.begin(), pieces.end(), [&](const Piece& piece) {
        return (piece.*member).type == first.type && (piece.*member).id == first.id;
    });
    return same ? first : CUmemLocation{CU_MEM_LOCATION_TYPE_INVALID, CU_DEVICE_INVALID};
}

CUresult MemoryAdvice::list_accessors(const std::vector<Piece>& pieces, void* data, size_t data_bytes) {
    if (data_bytes == 0 || data_bytes % sizeof(int) != 0) return CUDA_ERROR_INVALID_VALUE;
    std::vector<int> everywhere;
    for (const int who : pieces.front().accessed_by) {
        const bool of_all =
            std::all_of(pieces.begin(), pieces.end(), [who](const Piece& piece) { return piece.accessed_by.contains(who); });
        if (of_all) everywhere.push_back(who);
    }
    everywhere.resize(data_bytes / sizeof(int), CU_DEVICE_INVALID);
    std::memcpy(data, everywhere.data(), data_bytes);
    return CUDA_SUCCESS;
}

CUresult MemoryAdvice::read(void* data, size_t data_bytes, CUmem_range_attribute attribute, uint64_t address,
                            uint64_t size_bytes) const {
    const auto pieces = pieces_of(address, size_bytes);
    const auto put = [data, data_bytes](int value) {
        if (data_bytes != sizeof value) return CUDA_ERROR_INVALID_VALUE;
        std::memcpy(data, &value, sizeof value);
        return CUDA_SUCCESS;
    };
    switch (attribute) {
        case CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY:
            return put(std::all_of(pieces.begin(), pieces.end(), [](const Piece& piece) { return piece.read_mostly; }) ? 1 : 0);
        case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION: return put(ordinal_of(common(pieces, &Piece::preferred)));
        case CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY: return list_accessors(pieces, data, data_bytes);
        case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION: return put(ordinal_of(common(pieces, &Piece::prefetched)));
        case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE: return put(common(pieces, &Piece::preferred).type);
        case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID: return put(common(pieces, &Piece::preferred).id);
        case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE: return put(common(pieces, &Piece::prefetched).type);
        case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID: return put(common(pieces, &Piece::prefetched).id);
        default: return CUDA_ERROR_INVALID_VALUE;
    }
}

void MemoryAdvice::forget(uint64_t address, uint64_t size_bytes) {
    MutexLock lock(m_mutex);
    const uint64_t end = address + size_bytes;
    split(address);
    split(end);
    m_pieces.erase(m_pieces.lower_bound(address), m_pieces.lower_bound(end));
}

}  // namespace warpline::cuda::abi
