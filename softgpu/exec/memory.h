// Which memory kernels may touch.
#pragma once

#include <atomic>
#include <map>
#include <vector>

#include "common/base/mutex.h"
#include "softgpu/exec/api.h"
#include "softgpu/exec/machine.h"

namespace warpline::softgpu::exec {

/// A reader of the table of valid ranges: one per worker. Writers wait until no reader can still use what they took away.
struct RangeReader {
    static constexpr uint64_t k_idle = ~0ull;
    std::atomic<uint64_t> epoch{k_idle};  ///< release by the worker, acquire by the writer that waits
};

/// One reserved window of the process's addresses, and the ranges in it (and outside) that kernels may touch.
class MemoryImpl final : public Memory {
public:
    /// Reserves the window. Tries smaller ones if the machine refuses.
    MemoryImpl();
    ~MemoryImpl() override;

    Result<uint64_t> reserve(uint64_t size_bytes, uint64_t alignment_bytes, uint64_t hint) override;
    Result<void> release(uint64_t address, uint64_t size_bytes) override;
    Result<void> map(uint64_t address, uint64_t size_bytes) override;
    Result<void> unmap(uint64_t address, uint64_t size_bytes) override;
    Result<void> add_range(uint64_t address, uint64_t size_bytes) override;
    /// @blocks until running kernels have passed a point where they remember nothing of the range (milliseconds at most)
    Result<void> remove_range(uint64_t address, uint64_t size_bytes) override;
    bool contains(uint64_t address, uint64_t size_bytes) const override;

    /// The valid range around `address`. Lock-free; only by threads whose RangeReader is active.
    bool find(uint64_t address, RangeCache& out) const;

    /// Reserves, maps and makes valid in one; 0 if there is no memory. For globals, parameters and the device heap.
    uint64_t allocate(uint64_t size_bytes, uint64_t alignment_bytes);
    void free(uint64_t address, uint64_t size_bytes);

    /// Tagged addresses of functions: the start of a region in the window that is never mapped.
    uint64_t code_window() const { return m_base; }
    static constexpr uint64_t k_code_window_bytes = 1ull << 32;

    void add_reader(RangeReader& reader);
    void remove_reader(RangeReader& reader);
    /// Called by a worker when it starts and between slices. True if ranges went away since: forget all RangeCaches.
    bool refresh(RangeReader& reader);
    void set_idle(RangeReader& reader);

private:
    struct Range {
        uint64_t begin, end;
    };
    using Table = std::vector<Range>;

    bool in_window(uint64_t address, uint64_t size_bytes) const;
    void publish() WL_REQUIRES(m_mutex);
    void wait_for_readers() WL_REQUIRES(m_mutex);

    uint64_t m_base = 0, m_size = 0;
    mutable Mutex m_mutex;
    ConditionVariable m_reader_moved;
    std::map<uint64_t, uint64_t> m_free WL_GUARDED_BY(m_mutex);     ///< begin -> end of free addresses in the window
    std::map<uint64_t, uint64_t> m_outside WL_GUARDED_BY(m_mutex);  ///< reservations outside the window
    std::map<uint64_t, uint64_t> m_ranges WL_GUARDED_BY(m_mutex);   ///< valid ranges
    std::vector<std::unique_ptr<const Table>> m_retired WL_GUARDED_BY(m_mutex);
    std::vector<RangeReader*> m_readers WL_GUARDED_BY(m_mutex);
    std::atomic<const Table*> m_table;  ///< release in publish, acquire in find
    std::atomic<uint64_t> m_epoch{1};   ///< raised when a range goes away
    std::atomic<uint32_t> m_waiters{0};
};

}  // namespace warpline::softgpu::exec
