// Managed allocations: small ones out of slabs of 2 MiB, large ones with blocks of their own.
#include "client/call/managed.h"

#include <map>

#include "client/call/allocate.h"
#include "client/managed/system_calls.h"
#include "client/session/address_window.h"
#include "common/log/log.h"

namespace warpline::client {

namespace {

constexpr uint64_t k_small_managed_bytes = 256ull << 10;
/// What is as large as a page has pages of its own, so that it can be attached to a stream.
constexpr uint64_t k_attachable_bytes = 4096;
/// Smaller pieces lie closer together than other memory: lists of small nodes take fewer pages that way.
constexpr uint64_t k_small_alignment = 256;

uint64_t alignment_of(uint64_t size_bytes) { return size_bytes >= k_attachable_bytes ? k_attachable_bytes : k_small_alignment; }
uint64_t rounded_piece(uint64_t size_bytes) {
    const uint64_t alignment = alignment_of(size_bytes);
    return (size_bytes + alignment - 1) / alignment * alignment;
}

/// Free pieces of the slabs of each device.
struct Slabs {
    Mutex mutex;
    std::map<int, RangeHeap> pieces WL_GUARDED_BY(mutex);
    RangeHeap& of(int device) WL_REQUIRES(mutex) {
        return pieces.try_emplace(device, RangeHeap(DeviceMemory::k_block_bytes)).first->second;
    }
};
Slabs& slabs() {
    static auto* made = new Slabs;  // never destroyed: calls come after the end of main
    return *made;
}

/// Addresses, memory of the device behind them, and of this process.
CUresult make_region(Call& call, uint64_t size_bytes, bool host_only, RangeHeap::Range& block) {
    settle_freed(call);
    const auto taken = call.state.memory.take_block(size_bytes);
    if (!taken) return CUDA_ERROR_OUT_OF_MEMORY;
    block = *taken;
    if (CUresult result = map_block(call, block, call.device(), Reach::every_device); result != CUDA_SUCCESS) {
        call.state.memory.return_block(block);
        return result;
    }
    const bool answered = start_pager(call);
    auto region = answered ? PageRegion::make({block.base, block.size_bytes}, {}) : nullptr;
    // The rest of the block's last piece does not travel.
    if (region) region->add_extent(region->pages_of({block.base, size_bytes}));
    if (!region) {
        WL_LOG(error, "client", "{} bytes of managed memory cannot be mapped into this process", block.size_bytes);
        unmap_block(call, block);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    SharedPages& pages = SharedPages::instance();
    MutexLock lock(pages.mutex);
    pages.add(std::move(region), call.context).host_only = host_only;
    if (host_only) SharedPages::note_attached();
    return CUDA_SUCCESS;
}

void drop_region(Call& call, RangeHeap::Range block) {
    {
        SharedPages& pages = SharedPages::instance();
        MutexLock lock(pages.mutex);
        pages.remove(block.base);
    }
    unmap_block(call, block);
}

CUresult take_piece(Call& call, uint64_t size_bytes, uint64_t& address) {
    const uint64_t rounded = rounded_piece(size_bytes), alignment = alignment_of(size_bytes);
    Slabs& all = slabs();
    {
        MutexLock lock(all.mutex);
        if (const auto piece = all.of(call.device()).take(rounded, alignment)) {
            address = *piece;
            return CUDA_SUCCESS;
        }
    }
    RangeHeap::Range block;
    if (CUresult result = make_region(call, DeviceMemory::k_block_bytes, false, block); result != CUDA_SUCCESS) return result;
    MutexLock lock(all.mutex);
    RangeHeap& pieces = all.of(call.device());
    pieces.add(block.base, block.size_bytes);
    const auto piece = pieces.take(rounded, alignment);
    if (!piece) return CUDA_ERROR_OUT_OF_MEMORY;
    address = *piece;
    return CUDA_SUCCESS;
}

/// What is small is in place between kernels, also where the program has not used it yet.
void expect_use(AddressRange range) {
    SharedPages& pages = SharedPages::instance();
    MutexLock lock(pages.mutex);
    if (const SharedRegion* shared = pages.find(range.base)) {
        const AddressRange units = shared->region->units_of(range);
        for (uint64_t at = units.base; at < units.end(); at += shared->region->unit_bytes()) shared->region->note_used(at);
    }
}

}  // namespace

CUresult allocate_managed(Call& call, uint64_t size_bytes, unsigned flags, uint64_t& address) {
    if (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST) return CUDA_ERROR_INVALID_VALUE;
    if (!call.state.memory.has_window())
        return WL_REFUSE_CALL("cuMemAllocManaged", "the server's driver has no virtual memory management");
    DeviceRange range;
    range.size_bytes = size_bytes;
    range.context = call.context;
    range.device = call.device();
    range.kind = MemoryKind::managed;
    // Memory that is attached to the host has pages of its own.
    const bool small = size_bytes <= k_small_managed_bytes && flags == CU_MEM_ATTACH_GLOBAL;
    RangeHeap::Range block;
    const CUresult result =
        small ? take_piece(call, size_bytes, range.base) : make_region(call, size_bytes, flags == CU_MEM_ATTACH_HOST, block);
    if (result != CUDA_SUCCESS) return result;
    if (!small) range.base = block.base;
    range.capacity_bytes = small ? rounded_piece(size_bytes) : block.size_bytes;
    call.state.memory.register_range(range);
    address = range.base;
    if (small) expect_use({range.base, size_bytes});
    return CUDA_SUCCESS;
}

void release_managed(Call& call, const DeviceRange& range) {
    call.context = range.context;
    if (range.capacity_bytes >= DeviceMemory::k_block_bytes) return drop_region(call, {range.base, range.capacity_bytes});
    {
        SharedPages& pages = SharedPages::instance();
        MutexLock lock(pages.mutex);
        if (SharedRegion* shared = pages.find(range.base)) shared->attach({range.base, range.capacity_bytes}, nullptr);
    }
    Slabs& all = slabs();
    RangeHeap::Range free;
    {
        MutexLock lock(all.mutex);
        RangeHeap& pieces = all.of(range.device);
        free = pieces.give(range.base, range.capacity_bytes);
        // One slab is kept: programs allocate and free in turn.
        const bool is_last = pieces.free_bytes() < 2 * DeviceMemory::k_block_bytes;
        if (free.size_bytes != DeviceMemory::k_block_bytes || is_last) return;
        pieces.take_at(free.base, free.size_bytes);
    }
    drop_region(call, free);
}

void attach_managed(const DeviceRange& range, CUstream stream, unsigned flags) {
    SharedPages& pages = SharedPages::instance();
    MutexLock lock(pages.mutex);
    SharedRegion* shared = pages.find(range.base);
    if (!shared) return;
    const AddressRange own = {range.base, range.capacity_bytes};
    const AddressRange units = shared->region->units_of(own);
    const bool has_pages = units.base == own.base && units.size_bytes == own.size_bytes;
    if (!has_pages) return;
    // A default stream's work is not told from that of others.
    const uint64_t alone = flags == CU_MEM_ATTACH_GLOBAL || is_special_stream(stream) ? 0 : to_token(stream);
    const Attachment attachment{own, alone, flags == CU_MEM_ATTACH_HOST};
    shared->attach(own, &attachment);
    if (attachment.host_only || alone != 0) SharedPages::note_attached();
}

CUresult share_variable(Call& call, uint64_t context, uint64_t address, uint64_t size_bytes) {
    constexpr uint64_t k_block = DeviceMemory::k_block_bytes;
    if (!claim_server_range(address, size_bytes) || !start_pager(call)) {
        WL_LOG(error, "client", "a managed variable at {:#x} on the server: these addresses are in use in this program",
               address);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    system_calls::attend();  // its pages are the device's from the beginning
    SharedPages& pages = SharedPages::instance();
    MutexLock lock(pages.mutex);
    for (uint64_t block = address / k_block * k_block; block < address + size_bytes; block += k_block) {
        SharedRegion* shared = pages.find(block);
        if (!shared) {
            PageRegion::Options options;
            options.valid_here = false;
            auto region = PageRegion::make({block, k_block}, options);
            if (!region) return CUDA_ERROR_OUT_OF_MEMORY;
            shared = &pages.add(std::move(region), context);
        }
        shared->region->add_extent({address, size_bytes});
    }
    return CUDA_SUCCESS;
}

void unshare_variable(uint64_t address, uint64_t size_bytes) {
    constexpr uint64_t k_block = DeviceMemory::k_block_bytes;
    SharedPages& pages = SharedPages::instance();
    MutexLock lock(pages.mutex);
    for (uint64_t block = address / k_block * k_block; block < address + size_bytes; block += k_block) {
        if (SharedRegion* shared = pages.find(block)) shared->region->remove_extent(address);
    }
}

CUresult check_managed(const Call& call, uint64_t address, uint64_t size_bytes) {
    const auto range = call.state.memory.find(address);
    const bool managed = range && (range->kind == MemoryKind::managed || range->managed_variable);
    if (!managed || size_bytes == 0 || size_bytes > range->base + range->size_bytes - address) return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

}  // namespace warpline::client
