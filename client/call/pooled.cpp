// How much of the device's memory pools keep, and when they give it back.
#include "client/call/pooled.h"

#include "client/call/allocate.h"
#include "client/call/share.h"

namespace warpline::client {

namespace {

bool is_small(const DeviceRange& range) { return range.capacity_bytes <= DeviceMemory::k_small_bytes; }

bool release_all(Call& call, const std::vector<DeviceRange>& ranges) {
    for (const DeviceRange& range : ranges) release_pooled(call, range);
    return !ranges.empty();
}

void trim_to_threshold(Call& call, uint64_t token, Pool& pool) {
    pool.trim_pending.store(false);
    trim_pool(call, token, pool, pool.release_threshold.load());
}

}  // namespace

uint64_t reserved_bytes(const Pool& pool) {
    return DeviceMemory::rounded_to_blocks(pool.small_bytes.load()) + pool.large_bytes.load();
}

void count_reserved(Pool& pool, const DeviceRange& range) {
    if (is_small(range)) {
        pool.small_bytes.fetch_add(range.capacity_bytes);
    } else {
        pool.large_bytes.fetch_add(DeviceMemory::rounded_to_blocks(range.capacity_bytes));
    }
}

void uncount_reserved(Call& call, const DeviceRange& range) {
    Pool* pool = call.state.pools.find(range.owner);
    if (!pool) return;
    if (is_small(range)) {
        pool->small_bytes.fetch_sub(range.capacity_bytes);
    } else {
        pool->large_bytes.fetch_sub(DeviceMemory::rounded_to_blocks(range.capacity_bytes));
    }
}

void note_freed(Call& call, const DeviceRange& range) {
    if (Pool* pool = call.state.pools.find(range.owner)) pool->used_bytes.fetch_sub(DeviceMemory::rounded(range.size_bytes));
    end_share(call, range.base);
}

void release_pooled(Call& call, const DeviceRange& range) {
    uncount_reserved(call, range);
    release_device_memory(call, range);
}

void settle_pooled(Call& call, const std::vector<DeviceRange>& ranges) {
    for (const DeviceRange& range : ranges) {
        Pool* pool = call.state.pools.find(range.owner);
        if (!pool || pool->release_threshold.load() == 0) {
            release_pooled(call, range);
            continue;
        }
        call.state.pool_heap.keep(range);
        pool->trim_pending.store(true);
        call.state.pools_to_trim.store(true);
    }
    if (!call.state.pools_to_trim.load(std::memory_order_relaxed) || !call.state.pools_to_trim.exchange(false)) return;
    call.state.pools.for_each([&](uint64_t token, Pool& pool) {
        if (pool.trim_pending.load()) trim_to_threshold(call, token, pool);
    });
}

void trim_pool(Call& call, uint64_t token, Pool& pool, uint64_t keep_bytes) {
    for (uint64_t reserved = reserved_bytes(pool); reserved > keep_bytes; reserved = reserved_bytes(pool)) {
        const auto dropped = call.state.pool_heap.drop_kept(reserved - keep_bytes,
                                                            [token](const DeviceRange& range) { return range.owner == token; });
        if (!release_all(call, dropped)) return;
    }
}

void exchange_kept(Call& call, uint64_t token, uint64_t size_bytes) {
    // Small pieces share blocks, of which none may be whole before all of its pieces are given back.
    const bool small = size_bytes <= DeviceMemory::k_small_bytes;
    const auto which = [token, small](const DeviceRange& range) { return range.owner == token && is_small(range) == small; };
    release_all(call, call.state.pool_heap.drop_kept(small ? UINT64_MAX : size_bytes, which));
}

bool release_kept_of_device(Call& call, int device) {
    return release_all(call, call.state.pool_heap.drop_kept(
                                 UINT64_MAX, [device](const DeviceRange& range) { return range.device == device; }));
}

bool release_kept_of_context(Call& call, uint64_t context) {
    return release_all(call, call.state.pool_heap.drop_kept(
                                 UINT64_MAX, [context](const DeviceRange& range) { return range.context == context; }));
}

}  // namespace warpline::client
