// Takes the smallest free piece that fits, and chunks where none does.
#include "softgpu/driver/space/heap.h"

#include <iterator>

namespace warpline::softgpu::driver {

namespace {

constexpr uint64_t k_alignment_bytes = 512;
/// From this size on an allocation has chunks of its own.
constexpr uint64_t k_own_chunk_bytes = uint64_t{1} << 20;

}  // namespace

Heap::Chunks::iterator Heap::chunk_of(uint64_t address) { return std::prev(m_chunks.upper_bound(address)); }

void Heap::add_free(uint64_t address, uint64_t size_bytes) {
    m_free.emplace(address, size_bytes);
    m_free_by_size.emplace(size_bytes, address);
}

void Heap::remove_free(uint64_t address, uint64_t size_bytes) {
    m_free.erase(address);
    m_free_by_size.erase({size_bytes, address});
}

uint64_t Heap::allocate(uint64_t size_bytes) {
    uint64_t wanted = round_up(size_bytes, k_alignment_bytes);
    if (wanted < size_bytes || wanted > uint64_t{1} << 48) return 0;
    MutexLock lock(m_mutex);
    auto fit = m_free_by_size.lower_bound({wanted, 0});
    // A large allocation only reuses what fits well, or a small one would keep a large chunk from going back.
    if (fit != m_free_by_size.end() && wanted >= k_own_chunk_bytes && fit->first > wanted + wanted / 4) {
        fit = m_free_by_size.end();
    }
    if (fit == m_free_by_size.end()) {
        uint64_t chunk_bytes = round_up(wanted, k_chunk_bytes);
        uint64_t chunk = m_source.take_chunk(chunk_bytes);
        if (chunk == 0) return 0;
        m_chunks.emplace(chunk, Chunk{chunk_bytes, 0, false});
        m_reserved_bytes += chunk_bytes;
        add_free(chunk, chunk_bytes);
        fit = m_free_by_size.find({chunk_bytes, chunk});
    }
    auto [free_bytes, address] = *fit;
    remove_free(address, free_bytes);
    if (free_bytes > wanted) add_free(address + wanted, free_bytes - wanted);
    chunk_of(address)->second.used_bytes += wanted;
    m_used.emplace(address, wanted);
    m_used_bytes += wanted;
    return address;
}

void Heap::free(uint64_t address, uint64_t keep_bytes) {
    std::vector<std::pair<uint64_t, uint64_t>> given;
    {
        MutexLock lock(m_mutex);
        auto used = m_used.find(address);
        if (used == m_used.end()) return;
        uint64_t size_bytes = used->second;
        m_used.erase(used);
        m_used_bytes -= size_bytes;
        auto chunk = chunk_of(address);
        chunk->second.used_bytes -= size_bytes;
        if (chunk->second.shared) {
            free_shared(chunk, given);
        } else {
            join_free(chunk, address, size_bytes);
            if (chunk->second.used_bytes == 0) trim_locked(keep_bytes, given);
        }
    }
    give(given);
}

void Heap::join_free(Chunks::iterator chunk, uint64_t address, uint64_t size_bytes) {
    auto next = m_free.find(address + size_bytes);
    if (next != m_free.end() && next->first < chunk->first + chunk->second.size_bytes) {
        uint64_t next_bytes = next->second;
        remove_free(next->first, next_bytes);
        size_bytes += next_bytes;
    }
    auto after = m_free.lower_bound(address);
    if (after != m_free.begin()) {
        auto [before, before_bytes] = *std::prev(after);
        if (before >= chunk->first && before + before_bytes == address) {
            remove_free(before, before_bytes);
            address = before;
            size_bytes += before_bytes;
        }
    }
    add_free(address, size_bytes);
}

void Heap::free_shared(Chunks::iterator chunk, std::vector<std::pair<uint64_t, uint64_t>>& given) {
    if (chunk->second.used_bytes != 0) return;
    const uint64_t end = chunk->first + chunk->second.size_bytes;
    for (auto piece = m_free.lower_bound(chunk->first); piece != m_free.end() && piece->first < end;) {
        m_free_by_size.erase({piece->second, piece->first});
        piece = m_free.erase(piece);
    }
    m_reserved_bytes -= chunk->second.size_bytes;
    given.emplace_back(chunk->first, chunk->second.size_bytes);
    m_chunks.erase(chunk);
}

bool Heap::share(uint64_t address, uint64_t* chunk, uint64_t* chunk_bytes) {
    MutexLock lock(m_mutex);
    if (!m_used.contains(address)) return false;
    auto found = chunk_of(address);
    found->second.shared = true;
    *chunk = found->first;
    *chunk_bytes = found->second.size_bytes;
    return true;
}

void Heap::trim_locked(uint64_t keep_bytes, std::vector<std::pair<uint64_t, uint64_t>>& given) {
    for (auto chunk = m_chunks.begin(); chunk != m_chunks.end() && m_reserved_bytes > keep_bytes;) {
        if (chunk->second.used_bytes != 0) {
            ++chunk;
            continue;
        }
        remove_free(chunk->first, chunk->second.size_bytes);
        m_reserved_bytes -= chunk->second.size_bytes;
        given.emplace_back(chunk->first, chunk->second.size_bytes);
        chunk = m_chunks.erase(chunk);
    }
}

void Heap::trim(uint64_t keep_bytes) {
    std::vector<std::pair<uint64_t, uint64_t>> given;
    {
        MutexLock lock(m_mutex);
        trim_locked(keep_bytes, given);
    }
    give(given);
}

void Heap::give(const std::vector<std::pair<uint64_t, uint64_t>>& chunks) {
    for (auto [address, size_bytes] : chunks) m_source.give_chunk(address, size_bytes);
}

uint64_t Heap::reserved_bytes() const {
    MutexLock lock(m_mutex);
    return m_reserved_bytes;
}

uint64_t Heap::used_bytes() const {
    MutexLock lock(m_mutex);
    return m_used_bytes;
}

}  // namespace warpline::softgpu::driver
