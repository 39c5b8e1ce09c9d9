// Who owns which device addresses.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "client/state/range_heap.h"
#include "common/base/mutex.h"

namespace warpline::client {

enum class MemoryKind : uint8_t {
    device,       ///< cuMemAlloc and the pools: an address of ours
    global,       ///< a variable of a module: the server's address
    mapped,       ///< a range that the program mapped itself (cuMemMap)
    page_locked,  ///< of the program's, which kernels use
    managed,      ///< memory that the program uses as well: an address of ours
    imported,     ///< of another process: an address of ours
};

/// What the client knows about a range of device addresses.
struct DeviceRange {
    uint64_t base = 0;
    uint64_t size_bytes = 0;
    uint64_t capacity_bytes = 0;  ///< what was taken for it, if more: device memory that is reused for something smaller
    uint64_t context = 0;         ///< token of the context that it was made in
    uint64_t buffer_id = 0;       ///< unique in the process (CU_POINTER_ATTRIBUTE_BUFFER_ID)
    uint64_t owner = 0;           ///< token of the module, pool or VMM allocation; 0: none
    int device = 0;
    MemoryKind kind = MemoryKind::device;
    bool sync_memops = false;
    bool managed_variable = false;  ///< of a module: kind global, and the program uses it as well
};

/// The addresses of device memory: which are free, which are backed by the server's memory, who owns which. Addresses are
/// chosen here, so that an allocation need not wait; what has to be told to the server is said by the caller, between the calls
/// named in each comment, because no lock is held while a message is sent.
class DeviceMemory {
public:
    /// Addresses [base, base + size) belong to this class. Called once, before anything else.
    void set_window(uint64_t base, uint64_t size_bytes) WL_EXCLUDES(m_mutex);
    uint64_t window_base() const { return m_window_base; }
    uint64_t window_bytes() const { return m_window_bytes; }
    /// False with a driver that cannot map: then device memory has the driver's addresses.
    bool has_window() const { return m_window_bytes != 0; }
    bool in_window(uint64_t address) const { return address - m_window_base < m_window_bytes; }

    /// A piece of backed memory, if a block of this device has room for it. Larger pieces than k_small_bytes never have.
    std::optional<uint64_t> try_allocate(int device, uint64_t size_bytes) WL_EXCLUDES(m_mutex);

    /// Addresses for a block that shall hold a piece of this size: multiples of k_block_bytes. Nothing is behind them yet:
    /// map them on the server, then call add_block (small pieces) or register_range.
    std::optional<RangeHeap::Range> take_block(uint64_t size_bytes) WL_EXCLUDES(m_mutex);
    void add_block(int device, RangeHeap::Range block) WL_EXCLUDES(m_mutex);
    /// Gives a block's addresses back, after its memory was unmapped (or could not be mapped).
    void return_block(RangeHeap::Range block) WL_EXCLUDES(m_mutex);

    /// Addresses for cuMemAddressReserve. The hint is honoured if it is free.
    std::optional<uint64_t> reserve(uint64_t size_bytes, uint64_t alignment, uint64_t hint) WL_EXCLUDES(m_mutex);

    /// False if the range was not reserved like this, or something is mapped in it.
    bool unreserve(uint64_t base, uint64_t size_bytes) WL_EXCLUDES(m_mutex);
    bool is_reserved(uint64_t base, uint64_t size_bytes) const WL_EXCLUDES(m_mutex);
    /// True if nothing that is known lies in [base, base + size).
    bool is_vacant(uint64_t base, uint64_t size_bytes) const WL_EXCLUDES(m_mutex);
    /// The program's own reservation in which an address lies.
    std::optional<RangeHeap::Range> reservation_of(uint64_t address) const WL_EXCLUDES(m_mutex);
    /// The ranges that the program has mapped and that make up exactly this one. Empty: they do not.
    std::vector<DeviceRange> mapped_in(uint64_t base, uint64_t size_bytes) const WL_EXCLUDES(m_mutex);
    /// Forgets them.
    std::vector<DeviceRange> forget_mapped(uint64_t base, uint64_t size_bytes) WL_EXCLUDES(m_mutex);

    /// Makes a range known: it is now a valid argument of copies, and has attributes. Where the server's driver has given the
    /// address, what the same owner had there before is gone. @returns its buffer_id
    uint64_t register_range(DeviceRange range) WL_EXCLUDES(m_mutex);

    /// The known range that contains the address.
    std::optional<DeviceRange> find(uint64_t address) const WL_EXCLUDES(m_mutex);
    /// True if all of [address, address + size) is in known ranges.
    bool contains(uint64_t address, uint64_t size_bytes) const WL_EXCLUDES(m_mutex);
    /// Forgets the range that begins here. Empty if there is none, or it is of another kind.
    std::optional<DeviceRange> forget(uint64_t base, MemoryKind kind) WL_EXCLUDES(m_mutex);
    /// Forgets a range unless another one is known at its address now.
    void forget_buffer(const DeviceRange& range) WL_EXCLUDES(m_mutex);
    /// Forgets all ranges of an owner or of a context, and returns them.
    std::vector<DeviceRange> forget_owner(uint64_t owner) WL_EXCLUDES(m_mutex);
    std::vector<DeviceRange> forget_context(uint64_t context) WL_EXCLUDES(m_mutex);
    void set_sync_memops(uint64_t base, bool on) WL_EXCLUDES(m_mutex);

    /// Gives a piece back, after the server was told. The block that is now wholly free and shall be unmapped, if any.
    std::optional<RangeHeap::Range> release(int device, uint64_t base, uint64_t size_bytes) WL_EXCLUDES(m_mutex);

    static constexpr uint64_t k_block_bytes = 2ull << 20;
    static constexpr uint64_t k_small_bytes = 1ull << 20;
    /// As NVIDIA's driver places allocations: textures of linear memory begin at such addresses (CU_DEVICE_ATTRIBUTE_
    /// TEXTURE_ALIGNMENT), and programs count on it that allocations do.
    static constexpr uint64_t k_alignment = 512;
    static uint64_t rounded(uint64_t size_bytes) { return (size_bytes + k_alignment - 1) & ~(k_alignment - 1); }
    static uint64_t rounded_to_blocks(uint64_t size_bytes) { return (size_bytes + k_block_bytes - 1) & ~(k_block_bytes - 1); }

private:
    struct Device {
        RangeHeap pieces{k_block_bytes};  // free parts of backed small blocks; no piece lies in two blocks
        uint32_t free_blocks = 0;         // how many of them are wholly free
    };
    using Ranges = std::map<uint64_t, DeviceRange>;
    std::pair<Ranges::const_iterator, Ranges::const_iterator> find_mapped(uint64_t base, uint64_t size_bytes) const
        WL_REQUIRES(m_mutex);
    Ranges::const_iterator containing(uint64_t address) const WL_REQUIRES(m_mutex);
    template <typename Predicate>
    std::vector<DeviceRange> forget_if(Predicate predicate) WL_EXCLUDES(m_mutex);

    uint64_t m_window_base = 0;  // set before threads exist, then constant
    uint64_t m_window_bytes = 0;
    mutable Mutex m_mutex;  // protects what follows; no message is sent with it held
    RangeHeap m_window WL_GUARDED_BY(m_mutex);
    std::map<int, Device> m_devices WL_GUARDED_BY(m_mutex);
    Ranges m_ranges WL_GUARDED_BY(m_mutex);
    std::map<uint64_t, uint64_t> m_reserved WL_GUARDED_BY(m_mutex);  // base → size: the program's own reservations
    uint64_t m_next_buffer_id WL_GUARDED_BY(m_mutex) = 1;
};

}  // namespace warpline::client
