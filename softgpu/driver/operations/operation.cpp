// Executes operations on the calling thread.
#include "softgpu/driver/operations/operation.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>

#include "common/log/log.h"
#include "cuda/abi/stream_values.h"
#include "softgpu/driver/code/module.h"
#include "softgpu/driver/context/green_context.h"
#include "softgpu/driver/device/device.h"
#include "softgpu/driver/memory/checks.h"
#include "softgpu/driver/memory/memory.h"
#include "softgpu/driver/operations/copy.h"
#include "softgpu/driver/operations/copy_checks.h"
#include "softgpu/driver/operations/host_thread.h"
#include "softgpu/driver/process/process.h"
#include "softgpu/driver/space/memory_in_use.h"

namespace warpline::softgpu::driver {

namespace {

BusyMeter* kernels_of(const Context& context) {
    DeviceUsage* usage = context.device().usage();
    return usage != nullptr ? &usage->kernels : nullptr;
}

BusyMeter* copies_of(const Context& context) {
    DeviceUsage* usage = context.device().usage();
    return usage != nullptr ? &usage->copies : nullptr;
}

template <typename T>
void fill(uint8_t* row, uint64_t count, T value) {
    T* out = reinterpret_cast<T*>(row);
    std::fill(out, out + count, value);
}

/// What becomes of work on memory that is not there any more, as of a kernel that touches it.
constexpr CUresult k_memory_gone = CUDA_ERROR_ILLEGAL_ADDRESS;

bool still_there(const CopySide& side, Access access) {
    return side.known_bytes == 0 || process().addresses.covers(reinterpret_cast<uint64_t>(side.base), side.known_bytes, access);
}

enum class Look : uint8_t { not_yet, satisfied, gone };

/// Looks whether the value at an address satisfies a wait. Flags: CUstreamWaitValue_flags.
template <typename T>
Look look(uint64_t address, T wanted, uint32_t flags) {
    MemoryInUse in_use;
    if (!process().addresses.covers(address, sizeof(T), Access::read)) return Look::gone;
    T now = std::atomic_ref<T>(*reinterpret_cast<T*>(address)).load(std::memory_order_acquire);
    bool good = false;
    switch (flags & 3U) {
        case CU_STREAM_WAIT_VALUE_GEQ: good = static_cast<std::make_signed_t<T>>(now - wanted) >= 0; break;
        case CU_STREAM_WAIT_VALUE_EQ: good = now == wanted; break;
        case CU_STREAM_WAIT_VALUE_AND: good = (now & wanted) != 0; break;
        default: good = static_cast<T>(~(now | wanted)) != 0; break;
    }
    return good ? Look::satisfied : Look::not_yet;
}

/// Nobody tells when a value in memory changes, be it by a kernel or by the host: the wait has to look, first often, then
/// every 50 microseconds. False if the memory is not there any more.
template <typename T>
bool wait_for_value(uint64_t address, T wanted, uint32_t flags) {
    for (int looks = 0;; ++looks) {
        Look seen = look(address, wanted, flags);
        if (seen != Look::not_yet) return seen == Look::satisfied;
        if (looks < 200) {
            std::this_thread::yield();
        } else {
            std::this_thread::sleep_for(std::chrono::microseconds(50));
        }
    }
}

template <typename T>
bool write_value(uint64_t address, T value) {
    MemoryInUse in_use;
    if (!process().addresses.covers(address, sizeof(T), Access::write)) return false;
    note_write(address, sizeof(T));
    std::atomic_ref<T>(*reinterpret_cast<T*>(address)).store(value, std::memory_order_release);
    return true;
}

template <typename T>
bool reduce(const cuda::abi::AtomicReduction& reduction) {
    MemoryInUse in_use;
    if (!process().addresses.covers(reduction.address, sizeof(T), Access::write)) return false;
    note_write(reduction.address, sizeof(T));
    const std::atomic_ref<T> at(*reinterpret_cast<T*>(reduction.address));
    const auto value = static_cast<T>(reduction.value);
    switch (reduction.reduction) {
        case CU_ATOMIC_OPERATION_AND: at.fetch_and(value); break;
        case CU_ATOMIC_OPERATION_OR: at.fetch_or(value); break;
        default: at.fetch_add(value); break;
    }
    return true;
}

bool execute_one(const CUstreamBatchMemOpParams& item) {
    if (cuda::abi::is_reduction(item)) {
        const cuda::abi::AtomicReduction reduction = cuda::abi::reduction_of(item);
        return reduction.bytes() == 8 ? reduce<uint64_t>(reduction) : reduce<uint32_t>(reduction);
    }
    const auto& wait = item.waitValue;
    const auto& write = item.writeValue;
    switch (item.operation) {
        case CU_STREAM_MEM_OP_WAIT_VALUE_32: return wait_for_value<uint32_t>(wait.address, wait.value, wait.flags);
        case CU_STREAM_MEM_OP_WAIT_VALUE_64: return wait_for_value<uint64_t>(wait.address, wait.value64, wait.flags);
        case CU_STREAM_MEM_OP_WRITE_VALUE_32: return write_value<uint32_t>(write.address, write.value);
        case CU_STREAM_MEM_OP_WRITE_VALUE_64: return write_value<uint64_t>(write.address, write.value64);
        default: std::atomic_thread_fence(std::memory_order_seq_cst); return true;
    }
}

}  // namespace

void execute(Context& context, const KernelOperation& operation, uint64_t stream_id) {
    if (!context.device().config().execute) return;
    exec::Launch launch;
    launch.function = &operation.function->code();
    launch.grid = operation.grid;
    launch.block = operation.block;
    launch.cluster = operation.cluster;
    launch.dynamic_shared_bytes = operation.dynamic_shared_bytes;
    launch.cooperative = operation.cooperative;
    launch.params = operation.params;
    launch.stream_id = stream_id;
    if (operation.green != nullptr) launch.multiprocessors = operation.green->multiprocessors();
    KernelRunning running;
    BusyScope busy(kernels_of(context));
    exec::Fault fault = context.device().engine().launch(launch);
    if (!fault.ok()) context.fail(fault);
}

void execute(Context& context, const CopyOperation& operation) {
    if (operation.width_bytes == 0) return;
    const CopySide &from = operation.from, &to = operation.to;
    BusyScope busy(copies_of(context));
    MemoryInUse in_use;
    if (!still_there(from, Access::read) || !still_there(to, Access::write)) {
        return context.fail(k_memory_gone, "a copy's memory was freed before its turn");
    }
    note_copy(operation);
    if (operation.height == 1 && operation.depth == 1) {
        std::memmove(to.base, from.base, operation.width_bytes);
        return;
    }
    for (uint64_t z = 0; z < operation.depth; ++z) {
        for (uint64_t y = 0; y < operation.height; ++y) {
            std::memmove(to.base + z * to.slice_pitch_bytes + y * to.row_pitch_bytes,
                         from.base + z * from.slice_pitch_bytes + y * from.row_pitch_bytes, operation.width_bytes);
        }
    }
}

void execute(Context& context, const MemsetOperation& operation) {
    const CUDA_MEMSET_NODE_PARAMS& params = operation.params;
    BusyScope busy(copies_of(context));
    MemoryInUse in_use;
    if (check_memset(params) != CUDA_SUCCESS) return context.fail(k_memory_gone, "a fill's memory was freed before its turn");
    note_memset(params);
    for (size_t y = 0; y < params.height; ++y) {
        auto* row = reinterpret_cast<uint8_t*>(params.dst + y * params.pitch);
        switch (params.elementSize) {
            case 1: std::memset(row, static_cast<int>(params.value & 0xff), params.width); break;
            case 2: fill(row, params.width, static_cast<uint16_t>(params.value)); break;
            default: fill(row, params.width, params.value); break;
        }
    }
}

bool is_alike(const BatchMemoryOperation& a, const BatchMemoryOperation& b) {
    return std::equal(a.operations.begin(), a.operations.end(), b.operations.begin(), b.operations.end(),
                      [](const auto& one, const auto& other) { return one.operation == other.operation; });
}

void execute(Context& context, const BatchMemoryOperation& operation) {
    for (const CUstreamBatchMemOpParams& item : operation.operations) {
        if (!execute_one(item)) return context.fail(k_memory_gone, "a stream waits for or writes freed memory");
    }
}

void execute(Context& context, const HostOperation& operation) {
    if (context.sticky() != CUDA_SUCCESS && !process().config().profile.called_after_error) return;
    call_host_function([&operation] { operation.function(operation.user); });
}

}  // namespace warpline::softgpu::driver
