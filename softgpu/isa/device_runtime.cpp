// What the device run time's library, which nvcc links into programs whose kernels launch kernels, calls: the version of it
// that came with CUDA 12 (cnpv2), without waiting for children. Streams and events order nothing here that the order of
// launching does not (device_launch.h).
#include <array>
#include <span>
#include <utility>

#include "softgpu/exec/device_launch.h"
#include "softgpu/exec/launch.h"
#include "softgpu/isa/extern_call.h"

namespace warpline::softgpu::isa {

namespace {

using exec::DeviceLaunches;
using exec::Dim3;

DeviceLaunches& launches_of(Warp& w) { return w.launch->services().launches; }

uint64_t thread_of(const Warp& w, uint32_t lane) { return w.cta->linear * 1024 + w.index * exec::k_warp_size + lane; }

Dim3 dim3_argument(const Warp& w, const Instr& i, uint32_t number, uint32_t lane) {
    auto words = argument<std::array<uint32_t, 3>>(w, i, number, lane);
    return {words[0], words[1], words[2]};
}

/// void* GetParameterBufferV2(void* kernel, dim3 grid, dim3 block, unsigned shared_bytes)
Flow call_parameter_buffer(Warp& w, const Instr& i, uint32_t mask) {
    return each_lane(mask, [&](uint32_t lane) {
        set_result(w, i, lane,
                   launches_of(w).prepare(thread_of(w, lane), argument<uint64_t>(w, i, 0, lane), dim3_argument(w, i, 1, lane),
                                          dim3_argument(w, i, 2, lane), argument<uint32_t>(w, i, 3, lane)));
    });
}

/// Error LaunchDeviceV2(void* buffer, stream). The library would translate an error of its own numbering; the thread's last
/// error, which kernels ask for, is set already.
Flow call_launch(Warp& w, const Instr& i, uint32_t mask) {
    return each_lane(mask, [&](uint32_t lane) {
        (void)launches_of(w).launch(thread_of(w, lane), argument<uint64_t>(w, i, 0, lane), argument<uint64_t>(w, i, 1, lane));
        set_result<int32_t>(w, i, lane, 0);
    });
}

/// Error GetLastError()
Flow call_get_error(Warp& w, const Instr& i, uint32_t mask) {
    return each_lane(mask,
                     [&](uint32_t lane) { set_result<int32_t>(w, i, lane, launches_of(w).last_error(thread_of(w, lane))); });
}

/// Error SetLastError(Error): gives it back
Flow call_set_error(Warp& w, const Instr& i, uint32_t mask) {
    return each_lane(mask, [&](uint32_t lane) {
        const auto error = argument<int32_t>(w, i, 0, lane);
        launches_of(w).set_last_error(thread_of(w, lane), error);
        set_result<int32_t>(w, i, lane, error);
    });
}

/// Error StreamCreate(stream*, flags), EventCreate(event*, flags)
Flow call_create(Warp& w, const Instr& i, uint32_t mask) {
    Flow flow = Flow::next;
    each_lane(mask, [&](uint32_t lane) {
        if (flow == Flow::fault) return;
        const auto address = argument<uint64_t>(w, i, 0, lane);
        std::byte* place = w.resolve(address, sizeof(uint64_t));
        if (place == nullptr) {
            flow = w.raise(i, 700, lane, "a handle is written to an illegal address", address);
            return;
        }
        const uint64_t handle = launches_of(w).new_handle();
        std::memcpy(place, &handle, sizeof(handle));
        set_result<int32_t>(w, i, lane, 0);
    });
    return flow;
}

/// Error StreamDestroy(stream), StreamWaitEvent(stream, event, flags), EventRecord(event, stream), EventDestroy(event)
Flow call_order(Warp& w, const Instr& i, uint32_t mask) {
    return each_lane(mask, [&](uint32_t lane) { set_result<int32_t>(w, i, lane, 0); });
}

struct Entrance {
    std::string_view name;
    uint32_t arg_count;
    Handler handler;
};
constexpr std::string_view k_prefix = "__cuda_syscall_cnpv2";
constexpr Entrance k_entrances[] = {
    {"GetParameterBufferV2", 4, &call_parameter_buffer},
    {"LaunchDeviceV2", 2, &call_launch},
    {"GetLastError", 0, &call_get_error},
    {"SetLastError", 1, &call_set_error},
    {"StreamCreate", 2, &call_create},
    {"StreamDestroy", 1, &call_order},
    {"StreamWaitEvent", 3, &call_order},
    {"EventCreate", 2, &call_create},
    {"EventRecord", 2, &call_order},
    {"EventDestroy", 1, &call_order},
};

// The library's own functions, for code that is linked at run time: there its machine code would be.
constexpr std::string_view k_library_prefix = "__cudaCDP2";
constexpr Entrance k_of_library[] = {
    {"GetParameterBufferV2", 4, &call_parameter_buffer},
    {"LaunchDeviceV2", 2, &call_launch},
    {"LaunchDeviceV2_ptsz", 2, &call_launch},
    {"StreamCreateWithFlags", 2, &call_create},
    {"StreamDestroy", 1, &call_order},
    {"StreamWaitEvent", 3, &call_order},
    {"StreamWaitEvent_ptsz", 3, &call_order},
    {"EventCreateWithFlags", 2, &call_create},
    {"EventRecord", 2, &call_order},
    {"EventRecord_ptsz", 2, &call_order},
    {"EventDestroy", 1, &call_order},
};

}  // namespace

Handler device_runtime_function(std::string_view name, uint32_t arg_count) {
    for (const auto& [prefix, entrances] : {std::pair(k_prefix, std::span<const Entrance>(k_entrances)),
                                            std::pair(k_library_prefix, std::span<const Entrance>(k_of_library))}) {
        if (!name.starts_with(prefix)) continue;
        for (const Entrance& entrance : entrances) {
            if (name.substr(prefix.size()) == entrance.name && arg_count == entrance.arg_count) return entrance.handler;
        }
    }
    return nullptr;
}

}  // namespace warpline::softgpu::isa
