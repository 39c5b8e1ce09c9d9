// Allocates and frees memory of every kind.
#include "softgpu/driver/memory/memory.h"

#include <sys/mman.h>

#include "softgpu/driver/device/device.h"
#include "softgpu/driver/memory/checks.h"
#include "softgpu/driver/memory/imported_memory.h"
#include "softgpu/driver/memory/memory_pool.h"
#include "softgpu/driver/process/process.h"
#include "softgpu/driver/space/memory_in_use.h"
#include "softgpu/exec/rounding.h"

namespace warpline::softgpu::driver {

CUresult allocate_device(Device& device, CUcontext owner, uint64_t size_bytes, AllocationPtr& allocation) {
    const uint64_t wanted = with_red_zone(device, size_bytes);
    uint64_t address = device.heap().allocate(wanted);
    if (address == 0) {
        device.end_quarantine();
        for (const auto& pool : process().pools.all()) {
            if (&pool->device() == &device) pool->trim(0);
        }
        address = device.heap().allocate(wanted);
        if (address == 0) return CUDA_ERROR_OUT_OF_MEMORY;
    }
    allocation = std::make_shared<Allocation>();
    allocation->address = address;
    allocation->size_bytes = size_bytes;
    allocation->kind = MemoryKind::device;
    allocation->device = device.ordinal();
    allocation->context = reinterpret_cast<uint64_t>(owner);
    process().addresses.insert(allocation);
    if (device.config().exact_bounds) process().ranges.add(device.ordinal(), address, size_bytes);
    note_uninitialised(address, size_bytes);
    return CUDA_SUCCESS;
}

CUresult allocate_pages(Device& device, CUcontext owner, uint64_t size_bytes, MemoryKind kind, uint32_t flags,
                        AllocationPtr& allocation) {
    uint64_t span = round_up(size_bytes, k_page_bytes);
    if (span < size_bytes) return CUDA_ERROR_OUT_OF_MEMORY;
    // Managed memory may exceed the device's, as where pages migrate; the machine's own memory bounds it, with overcommit as
    // the machine is configured (no MAP_NORESERVE).
    void* mapped = mmap(nullptr, span, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
    allocation = std::make_shared<Allocation>();
    allocation->address = reinterpret_cast<uint64_t>(mapped);
    allocation->size_bytes = size_bytes;
    allocation->kind = kind;
    allocation->device = device.ordinal();
    allocation->context = reinterpret_cast<uint64_t>(owner);
    allocation->flags = flags;
    process().addresses.insert(allocation);
    bool exact = device.config().exact_bounds;
    process().ranges.add(VisibleRanges::k_all_devices, allocation->address, exact ? size_bytes : span);
    return CUDA_SUCCESS;
}

void release_allocation(const Allocation& allocation) {
    Device& device = *process().device(allocation.device);
    switch (allocation.kind) {
        case MemoryKind::device:
            note_freed(allocation.address);
            if (!device.config().exact_bounds) {
                device.heap().free(allocation.address, k_chunk_bytes);
                break;
            }
            process().ranges.remove(allocation.address);
            for (uint64_t address : device.quarantine().add(allocation.address, allocation.size_bytes)) {
                device.heap().free(address, k_chunk_bytes);
            }
            break;
        case MemoryKind::host:
        case MemoryKind::managed: {
            uint64_t span = round_up(allocation.size_bytes, k_page_bytes);
            process().ranges.remove(allocation.address);
            {
                MemoryGoing going;
                munmap(reinterpret_cast<void*>(allocation.address), span);
            }
            if (allocation.kind == MemoryKind::managed) process().advice.forget(allocation.address, span);
            break;
        }
        case MemoryKind::imported: ImportedMemory::instance().close(allocation); break;
        case MemoryKind::registered: process().ranges.remove(allocation.address); break;
        case MemoryKind::pool:
        case MemoryKind::graph:
        case MemoryKind::mapped:
        case MemoryKind::module: break;  // their owners take them back
    }
}

void free_memory_of_context(uint64_t context) {
    auto removed = process().addresses.remove_if([context](const Allocation& a) { return a.context == context; });
    report_leaks(removed);
    for (const AllocationPtr& allocation : removed) release_allocation(*allocation);
}

CUresult check_device_range(uint64_t address, uint64_t size_bytes, Access access) {
    if (size_bytes == 0) return CUDA_SUCCESS;
    return process().addresses.covers(address, size_bytes, access) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

bool is_pageable(uint64_t address) { return process().addresses.find(address) == nullptr; }

}  // namespace warpline::softgpu::driver
