// Device memory at addresses of our choice: backed by the server in blocks, and given back when the device is done with it.
#include "client/call/allocate.h"

#include <utility>

#include "client/call/pooled.h"
#include "client/gen/internal_calls.gen.h"
#include "client/session/address_window.h"
#include "common/log/log.h"

namespace warpline::client {

CUresult map_block(Call& call, RangeHeap::Range block, int device, Reach reach) {
    const bool every_device = reach == Reach::every_device;
    MemoryCredit& credit = call.session.memory_credit();
    {
        MutexLock lock(credit.order);
        if (credit.take(device, block.size_bytes))
            return gen::issue_wlMap(call, block.base, block.size_bytes, device, every_device);
        credit.give_up(device);
    }
    gen::WlMapNowValues answer{};
    const CUresult result = gen::request_wlMapNow(call, block.base, block.size_bytes, device, every_device, answer);
    credit.answered(device, call.number, answer.credit);
    return result;
}

void took_memory(Call& call, int device) {
    if (call.session.info().memory_limit_bytes != 0) call.session.memory_credit().drop(device);
}

void unmap_block(Call& call, RangeHeap::Range block) {
    // The server grants credit anew when it sees what is free again, and tells when the addresses can be used again.
    if (gen::issue_wlUnmap(call, block.base, block.size_bytes) == CUDA_SUCCESS) call.state.freed_memory.put(call.number, block);
}

namespace {

/// A driver that cannot map waits in its free for all that the device does, and keeps other threads' calls out meanwhile: also
/// those that what it does may wait for. So memory of its is given back when the device is known to rest. False if none was.
bool release_at_rest(Call& call) {
    if (!call.state.freed_memory.any_postponed()) return false;
    const auto over =
        call.state.freed_memory.take_postponed([&](const DeviceRange& range) { return rests(call, range.context); });
    for (const DeviceRange& range : over) {
        Call own = call;
        own.context = range.context;
        unmap_block(own, {range.base, range.capacity_bytes});
    }
    return !over.empty();
}

/// There is no more memory: gives back what was freed, and what pools keep. False if that was nothing.
bool release_all_of_driver(Call& call, int device) {
    const bool kept = release_kept_of_device(call, device);
    for (const uint64_t context : call.state.freed_memory.contexts_of_postponed()) {
        Call own = call;
        own.context = context;
        (void)come_to_rest(own);  // where that fails it does not rest
    }
    return release_at_rest(call) || kept;
}

/// Memory with a driver that cannot map: at its own address, which the program must not use for something else.
CUresult allocate_by_driver(Call& call, DeviceRange& range) {
    constexpr int k_attempts = 8;
    std::vector<uint64_t> unusable;
    bool released = false;
    CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
    for (int attempt = 0; attempt < k_attempts && range.base == 0; ++attempt) {
        gen::WlAllocValues answer{};
        result = gen::request_wlAlloc(call, range.capacity_bytes, answer);
        if (result == CUDA_ERROR_OUT_OF_MEMORY && !std::exchange(released, true) && release_all_of_driver(call, range.device))
            continue;
        if (result != CUDA_SUCCESS) break;
        if (claim_server_range(answer.address, range.capacity_bytes)) {
            range.base = answer.address;
        } else {
            unusable.push_back(answer.address);  // kept while others are asked for, lest they be the same
        }
    }
    for (const uint64_t address : unusable) {
        DeviceRange refused = range;
        refused.base = address;
        (void)release_device_memory(call, refused);
    }
    if (range.base != 0) return CUDA_SUCCESS;
    if (!unusable.empty())
        WL_LOG(warn, "client", "{} device addresses of the server are in use in this program", unusable.size());
    return result == CUDA_SUCCESS ? CUDA_ERROR_OUT_OF_MEMORY : result;
}

}  // namespace

bool settle_freed(Call& call) {
    const auto over = call.state.freed_memory.take(call.session.freed_through());
    for (const FreedMemory::Freed& freed : over) {
        if (const auto* block = std::get_if<RangeHeap::Range>(&freed)) {
            if (call.state.host_memory.in_window(block->base))
                call.state.host_memory.return_block(*block);
            else if (call.state.memory.has_window())
                call.state.memory.return_block(*block);
        } else {
            release_device_memory(call, std::get<DeviceRange>(freed));
        }
    }
    return release_at_rest(call) || !over.empty();
}

CUresult allocate_device_memory(Call& call, uint64_t size_bytes, uint64_t& address, uint64_t pool) {
    DeviceMemory& memory = call.state.memory;
    const int device = call.device();
    DeviceRange range;
    range.size_bytes = size_bytes;
    range.capacity_bytes = DeviceMemory::rounded(size_bytes);
    range.context = call.context;
    range.device = device;
    range.owner = pool;
    settle_freed(call);
    while (memory.has_window()) {
        if (auto piece = memory.try_allocate(device, size_bytes)) {
            range.base = *piece;
            break;
        }
        std::optional<RangeHeap::Range> block = memory.take_block(size_bytes);
        if (!block) return CUDA_ERROR_OUT_OF_MEMORY;
        if (CUresult result = map_block(call, *block, device, Reach::peers); result != CUDA_SUCCESS) {
            memory.return_block(*block);
            // The answer has waited for what was freed before.
            if (result == CUDA_ERROR_OUT_OF_MEMORY && (settle_freed(call) || release_kept_of_device(call, device))) continue;
            return result;
        }
        if (size_bytes > DeviceMemory::k_small_bytes) {
            range.base = block->base;
            break;
        }
        memory.add_block(device, *block);
    }
    if (!memory.has_window()) {
        if (CUresult result = allocate_by_driver(call, range); result != CUDA_SUCCESS) return result;
    }
    memory.register_range(range);
    address = range.base;
    return CUDA_SUCCESS;
}

CUresult release_device_memory(Call& call, const DeviceRange& range) {
    if (!call.state.memory.has_window()) {
        call.state.freed_memory.postpone(range);
        release_at_rest(call);
        return CUDA_SUCCESS;
    }
    std::optional<RangeHeap::Range> block = call.state.memory.release(range.device, range.base, range.capacity_bytes);
    if (block) unmap_block(call, *block);
    return CUDA_SUCCESS;
}

void release_postponed_of_context(Call& call, uint64_t context) {
    for (const DeviceRange& range :
         call.state.freed_memory.take_postponed([context](const DeviceRange& one) { return one.context == context; }))
        unmap_block(call, {range.base, range.capacity_bytes});
}

}  // namespace warpline::client
