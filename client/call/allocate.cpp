// Device memory at addresses of our choice: backed by the server in blocks, and given back when the device is done with it.
#include "client/call/allocate.h"

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

/// Memory with a driver that cannot map: at its own address, which the program must not use for something else.
CUresult allocate_by_driver(Call& call, DeviceRange& range) {
    constexpr int k_attempts = 8;
    std::vector<uint64_t> unusable;
    CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
    for (int attempt = 0; attempt < k_attempts && range.base == 0; ++attempt) {
        gen::WlAllocValues answer{};
        result = gen::request_wlAlloc(call, range.capacity_bytes, answer);
        if (result != CUDA_SUCCESS) break;
        if (claim_server_range(answer.address, range.capacity_bytes)) {
            range.base = answer.address;
        } else {
            unusable.push_back(answer.address);  // kept while others are asked for, lest they be the same
        }
    }
    for (const uint64_t address : unusable) gen::issue_wlUnmap(call, address, range.capacity_bytes);
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
    return !over.empty();
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
        unmap_block(call, {range.base, range.capacity_bytes});
        return CUDA_SUCCESS;
    }
    std::optional<RangeHeap::Range> block = call.state.memory.release(range.device, range.base, range.capacity_bytes);
    if (block) unmap_block(call, *block);
    return CUDA_SUCCESS;
}

}  // namespace warpline::client
