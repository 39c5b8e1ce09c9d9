// Marks bytes as written, asks for unwritten ones, and carries marks along with copies.
#include "softgpu/check/written.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <new>

namespace warpline::softgpu::check {

WrittenBlock::WrittenBlock(uint64_t address, uint64_t size_bytes)
    : m_begin(address), m_size(size_bytes), m_bytes(static_cast<uint8_t*>(std::calloc(std::max<uint64_t>(1, size_bytes), 1))) {
    if (m_bytes == nullptr) throw std::bad_alloc();
}

uint64_t WrittenBlock::end_of(uint64_t address, uint64_t size_bytes) const {
    return std::min(address + size_bytes, m_begin + m_size);
}

void WrittenBlock::write(uint64_t address, uint64_t size_bytes) {
    uint64_t end = end_of(address, size_bytes);
    address = std::max(address, m_begin);
    if (address < end) std::memset(m_bytes.get() + (address - m_begin), 1, end - address);
}

void WrittenBlock::copy(uint64_t to, const WrittenBlock& block, uint64_t from, uint64_t size_bytes) {
    uint64_t bytes = std::min(end_of(to, size_bytes) - to, block.end_of(from, size_bytes) - from);
    std::memmove(m_bytes.get() + (to - m_begin), block.m_bytes.get() + (from - block.m_begin), bytes);
}

bool WrittenBlock::lacks(uint64_t address, uint64_t size_bytes, uint64_t& first) const {
    constexpr uint64_t k_word = 4;
    const uint64_t end = end_of(address, size_bytes);
    for (uint64_t at = std::max(address, m_begin); at < end;) {
        uint64_t word_end = std::min(end, (at / k_word + 1) * k_word);
        const uint8_t* bytes = m_bytes.get() + (at - m_begin);
        bool whole = word_end - at == k_word || size_bytes < k_word;
        if (whole && std::all_of(bytes, bytes + (word_end - at), [](uint8_t byte) { return byte == 0; })) {
            first = at;
            return true;
        }
        at = word_end;
    }
    return false;
}

void WrittenMap::track(uint64_t address, uint64_t size_bytes) {
    auto block = std::make_shared<WrittenBlock>(address, size_bytes);
    MutexLock lock(m_mutex);
    m_blocks[address] = std::move(block);
    m_generation++;
}

void WrittenMap::forget(uint64_t address) {
    MutexLock lock(m_mutex);
    m_blocks.erase(address);
    m_generation++;
}

std::shared_ptr<WrittenBlock> WrittenMap::find(uint64_t address) const {
    MutexLock lock(m_mutex);
    auto after = m_blocks.upper_bound(address);
    if (after == m_blocks.begin() || !std::prev(after)->second->holds(address)) return nullptr;
    return std::prev(after)->second;
}

}  // namespace warpline::softgpu::check
