// The host memory that CUDA knows of.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "client/state/range_heap.h"
#include "common/base/bytes.h"
#include "common/base/mutex.h"

namespace warpline::client {

enum class HostOrigin : uint8_t { allocated, registered };

/// Host memory that the program asked CUDA for, or told CUDA about. It is ordinary memory of this process: copies to and from
/// it are staged by the protocol.
struct HostRange {
    uint64_t base = 0;
    uint64_t size_bytes = 0;
    uint64_t context = 0;
    uint64_t buffer_id = 0;
    unsigned flags = 0;
    HostOrigin origin = HostOrigin::allocated;
    int device = 0;
    uint64_t block_bytes = 0;    ///< of the addresses that were taken for it; 0: the server does not have them as well
    uint64_t device_base = 0;    ///< where kernels find it; 0: none uses it yet
    unsigned uses = 0;           ///< copies that are reading or writing it here
    bool changes_hands = false;  ///< becomes the device's in this moment
};

class HostMemory {
public:
    /// Addresses for allocations that the server has reserved as well, so that a kernel can use them. Once, before anything
    /// else.
    void set_window(uint64_t base, uint64_t size_bytes) WL_EXCLUDES(m_mutex);
    uint64_t window_base() const { return m_window_base; }
    uint64_t window_bytes() const { return m_window_bytes; }
    bool in_window(uint64_t address) const { return address - m_window_base < m_window_bytes; }
    /// True while there is such memory that no kernel uses yet: launches look for its addresses then.
    bool may_be_passed() const { return m_unmapped.load(std::memory_order_relaxed) != 0; }
    /// Bytes go to the device. If a word of them is the address of memory that no kernel uses yet, one that runs from now on
    /// may.
    /// @param bytes  from a multiple of eight of the addresses that they have there
    void note_named(BytesView bytes) WL_EXCLUDES(m_mutex);
    /// True while there is memory of which note_named() has found the address and which no kernel uses yet. @thread any
    bool any_named() const { return m_named_count.load(std::memory_order_acquire) != 0; }
    struct Named {
        uint64_t base;
        uint64_t times;  ///< that something had been named by then
    };
    std::vector<Named> named() const WL_EXCLUDES(m_mutex);
    /// It is the device's, or cannot be. Unless it has been named again since: it may be other memory by now.
    void forget_named(Named named) WL_EXCLUDES(m_mutex);
    /// True while the program has registered memory.
    bool any_registered() const { return m_registered.load(std::memory_order_relaxed) != 0; }
    /// A copy reads or writes memory here that no kernel uses yet: it stays so until end_use(). @blocks while a call makes it
    /// the device's
    /// @returns the start of the range; nothing: there is no such memory, or it is the device's already
    std::optional<uint64_t> begin_use(uint64_t address) WL_EXCLUDES(m_mutex);
    void end_use(uint64_t base) WL_EXCLUDES(m_mutex);
    /// It is about to become the device's. False: it has gone. @blocks until no copy is at it
    bool begin_change(uint64_t base) WL_EXCLUDES(m_mutex);
    void end_change(uint64_t base) WL_EXCLUDES(m_mutex);
    /// Kernels use it from now on.
    void set_device_base(uint64_t base, uint64_t device_base) WL_EXCLUDES(m_mutex);
    /// Forgets memory that kernels use, whose pages are another's business. Nothing: it is unknown, or not such memory.
    std::optional<HostRange> forget_mapped(uint64_t base, HostOrigin origin) WL_EXCLUDES(m_mutex);
    /// The device has done with these addresses.
    void return_block(RangeHeap::Range block) WL_EXCLUDES(m_mutex);
    /// The range that kernels find at this address.
    std::optional<HostRange> find_mapped(uint64_t device_address) const WL_EXCLUDES(m_mutex);

    /// Page-aligned, zeroed memory; nullptr if there is none.
    void* allocate(uint64_t size_bytes, uint64_t context, int device, unsigned flags) WL_EXCLUDES(m_mutex);
    /// False if the address is not the start of an allocation.
    bool free(void* address) WL_EXCLUDES(m_mutex);

    enum class Registered : uint8_t { ok, overlaps };
    Registered register_range(HostRange range) WL_EXCLUDES(m_mutex);
    bool unregister(void* address) WL_EXCLUDES(m_mutex);

    /// What this context has.
    std::vector<HostRange> of_context(uint64_t context) const WL_EXCLUDES(m_mutex);
    /// The range that contains the address.
    std::optional<HostRange> find(uint64_t address) const WL_EXCLUDES(m_mutex);

private:
    std::map<uint64_t, HostRange>::const_iterator containing(uint64_t address) const WL_REQUIRES(m_mutex);
    uint64_t base_of(uint64_t address) const WL_REQUIRES(m_mutex);  // 0: it is in none

    uint64_t m_window_base = 0;  // set before threads exist, then constant
    uint64_t m_window_bytes = 0;
    std::atomic<size_t> m_unmapped{0};
    std::atomic<size_t> m_registered{0};
    std::atomic<size_t> m_named_count{0};
    mutable Mutex m_mutex;       // protects the ranges
    ConditionVariable m_change;  // a use, or a change, is over
    std::map<uint64_t, HostRange> m_ranges WL_GUARDED_BY(m_mutex);
    uint64_t m_next_buffer_id WL_GUARDED_BY(m_mutex) = 1ull << 40;  // apart from those of device memory
    RangeHeap m_window WL_GUARDED_BY(m_mutex);
    std::map<uint64_t, uint64_t> m_named WL_GUARDED_BY(m_mutex);  // the base, and the time that it was named last
    uint64_t m_times_named WL_GUARDED_BY(m_mutex) = 0;
    /// Where there was memory that kernels have used: the device may still have such an address, and find other memory there.
    std::set<uint64_t> m_once_mapped WL_GUARDED_BY(m_mutex);
};

/// What a copy that is made here, and not by the device, reads and writes of page-locked memory. Its pages must not be taken
/// meanwhile: who reads them may have a lock without which they do not come back, or be a thread of ours.
class HostUses {
public:
    explicit HostUses(HostMemory& memory) : m_memory(memory) {}
    ~HostUses() {
        for (size_t i = 0; i < m_count; ++i) m_memory.end_use(m_bases[i]);
    }
    HostUses(const HostUses&) = delete;
    HostUses& operator=(const HostUses&) = delete;
    /// For at most two. Of memory that is not page-locked, or the device's, nothing. @blocks as HostMemory::begin_use()
    void begin(const void* address) {
        const auto at = reinterpret_cast<uint64_t>(address);
        if (!m_memory.in_window(at)) [[likely]]
            return;
        if (const auto base = m_memory.begin_use(at)) m_bases[m_count++] = *base;
    }

private:
    HostMemory& m_memory;
    std::array<uint64_t, 2> m_bases{};
    size_t m_count = 0;
};

}  // namespace warpline::client
