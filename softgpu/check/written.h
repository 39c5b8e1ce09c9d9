// The check for memory that is read before anything has written it.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>

#include "common/base/mutex.h"

namespace warpline::softgpu::check {

/// Which bytes of an allocation have been written: one byte each, as zero pages until they are.
class WrittenBlock {
public:
    WrittenBlock(uint64_t address, uint64_t size_bytes);
    bool holds(uint64_t address) const { return address >= m_begin && address - m_begin < m_size; }
    uint64_t begin() const { return m_begin; }
    uint64_t size_bytes() const { return m_size; }

    /// Ranges are cut to the block.
    void write(uint64_t address, uint64_t size_bytes);
    bool is_written(uint64_t address) const { return m_bytes.get()[address - m_begin] != 0; }
    /// Copies the states of another block's bytes.
    void copy(uint64_t to, const WrittenBlock& block, uint64_t from, uint64_t size_bytes);

    /// True if a whole aligned word of the range (or all of a smaller one) was never written. Single bytes are not looked at:
    /// the padding of structures is copied without being written.
    bool lacks(uint64_t address, uint64_t size_bytes, uint64_t& first) const;

private:
    struct Free {
        void operator()(uint8_t* bytes) const { std::free(bytes); }
    };
    uint64_t end_of(uint64_t address, uint64_t size_bytes) const;

    const uint64_t m_begin, m_size;
    std::unique_ptr<uint8_t, Free> m_bytes;
};

/// The memory of devices that begins without contents. Any thread may call.
class WrittenMap {
public:
    void track(uint64_t address, uint64_t size_bytes);
    void forget(uint64_t address);
    /// The block that holds an address; null if that memory is not tracked.
    std::shared_ptr<WrittenBlock> find(uint64_t address) const;
    /// Changes when blocks come or go: what find() said before no longer holds.
    uint64_t generation() const { return m_generation.load(std::memory_order_acquire); }

private:
    mutable Mutex m_mutex;
    std::map<uint64_t, std::shared_ptr<WrittenBlock>> m_blocks WL_GUARDED_BY(m_mutex);
    std::atomic<uint64_t> m_generation{1};
};

}  // namespace warpline::softgpu::check
