// Memory as calls allocate it.
#pragma once

#include <cstdint>

#include "cuda/abi/cuda_types.h"
#include "softgpu/driver/space/address_map.h"

namespace warpline::softgpu::driver {

class Device;

/// Memory of a device, of the host or managed, made known to copies and kernels. It ends with the context that owns it.
/// Errors: out of memory.
CUresult allocate_device(Device& device, CUcontext owner, uint64_t size_bytes, AllocationPtr& allocation);
CUresult allocate_pages(Device& device, CUcontext owner, uint64_t size_bytes, MemoryKind kind, uint32_t flags,
                        AllocationPtr& allocation);

/// Takes memory back. Nobody may use it any more: the caller has waited.
void release_allocation(const Allocation& allocation);

/// Everything that the calls of a context allocated and did not free.
void free_memory_of_context(uint64_t context);

/// Checks that a parameter points at device memory (or memory that devices reach): invalid value.
CUresult check_device_range(uint64_t address, uint64_t size_bytes, Access access);

/// True for memory of the host that the driver does not know: asynchronous copies of it are staged.
bool is_pageable(uint64_t address);

}  // namespace warpline::softgpu::driver
