// Copies, handed to streams: which of them the caller waits for. Source: CUDA Driver API 13.0, "API synchronization behavior",
// and docs/driver-behaviour.md, DB-11 to DB-14.
#include <algorithm>
#include <cstring>

#include "softgpu/driver/device/device.h"
#include "softgpu/driver/graph/capture.h"
#include "softgpu/driver/graph/enqueue.h"
#include "softgpu/driver/memory/memory.h"
#include "softgpu/driver/memory/reach.h"
#include "softgpu/driver/process/process.h"

namespace warpline::softgpu::driver {

namespace {

/// The guide's border of small copies to a device, which return before they have been made.
constexpr uint64_t k_small_copy_bytes = uint64_t{64} << 10;

bool pageable(const CopySide& side) { return side.array == nullptr && is_pageable(reinterpret_cast<uint64_t>(side.base)); }

bool on_host(const CopySide& side) {
    if (side.array != nullptr) return false;
    auto allocation = process().addresses.find(reinterpret_cast<uint64_t>(side.base));
    return allocation == nullptr || allocation->on_host();
}

/// Memory that the program may look at as soon as a synchronous copy has returned.
bool seen_by_host(const CopySide& side) {
    if (side.array != nullptr) return false;
    const auto allocation = process().addresses.find(reinterpret_cast<uint64_t>(side.base));
    return allocation == nullptr || allocation->on_host() || allocation->kind == MemoryKind::managed;
}

/// How much pageable memory a copy to a device takes along, instead of waiting for its turn.
uint64_t most_staged_bytes(CopyMode mode) {
    const Profile& profile = process().config().profile;
    if (mode != CopyMode::synchronous) return profile.pageable_staging_bytes;
    return profile.small_copies_staged ? k_small_copy_bytes : 0;
}

bool staged(const CopyOperation& operation, CopyMode mode) {
    const bool linear = operation.height == 1 && operation.depth == 1 && mode != CopyMode::in_order;
    return linear && operation.width_bytes <= most_staged_bytes(mode) && pageable(operation.from) && !on_host(operation.to);
}

bool waited_for(const Stream& stream, const CopyOperation& operation, CopyMode mode) {
    if (mode == CopyMode::synchronous)
        return seen_by_host(operation.from) || seen_by_host(operation.to) || always_waits(stream, operation.from.base) ||
               always_waits(stream, operation.to.base);
    if (mode == CopyMode::read_now || pageable(operation.from)) return true;
    return pageable(operation.to) && process().config().profile.pageable_landed;
}

CUresult check_reach(const Stream& stream, const CopySide& side) {
    if (side.known_bytes == 0) return CUDA_SUCCESS;
    const Device& device = side.named != nullptr ? *side.named : stream.context().device();
    return reaches(device, reinterpret_cast<uint64_t>(side.base), side.known_bytes) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

}  // namespace

bool always_waits(const Stream& stream, const void* address) {
    if ((stream.context().flags.load() & CU_CTX_SYNC_MEMOPS) != 0) return true;
    const auto allocation = process().addresses.find(reinterpret_cast<uint64_t>(address));
    return allocation != nullptr && allocation->sync_memops;
}

CUresult enqueue_copy(Stream& stream, CopyOperation operation, CopyMode mode) {
    if (mode == CopyMode::synchronous) CU_TRY(check_not_capturing(stream));
    CU_TRY(check_reach(stream, operation.from));
    CU_TRY(check_reach(stream, operation.to));
    std::shared_ptr<Capture> capture;
    CU_TRY(capture_of(stream, capture));
    if (capture != nullptr) return capture->add(stream, std::move(operation));
    if (staged(operation, mode) && !(mode == CopyMode::synchronous && always_waits(stream, operation.to.base))) {
        auto staging = std::make_shared<Bytes>(operation.width_bytes);
        std::memcpy(staging->data(), operation.from.base, staging->size());
        operation.from.base = reinterpret_cast<uint8_t*>(staging->data());
        stream.submit([context = stream.context_ptr(), operation, staging] { execute(*context, operation); });
        return CUDA_SUCCESS;
    }
    if (!waited_for(stream, operation, mode)) {
        stream.submit([context = stream.context_ptr(), operation] { execute(*context, operation); });
        return CUDA_SUCCESS;
    }
    // One to or from pageable memory that is asynchronous by name holds up less.
    const bool synchronous = mode == CopyMode::synchronous;
    if (!synchronous) stream.wait_for_room();
    CallGate::Held held(stream.context(), synchronous ? CallGate::while_waiting() : CallGate::while_queueing());
    stream.submit_and_wait([&] { execute(stream.context(), operation); });
    stream.context().device().flush_printf();
    return stream.context().sticky();
}

}  // namespace warpline::softgpu::driver
