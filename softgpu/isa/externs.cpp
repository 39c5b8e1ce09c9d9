// printf, malloc, free and assert of device code.
#include "softgpu/isa/externs.h"

#include <string>

#include "common/log/log.h"
#include "softgpu/exec/graph_hook.h"
#include "softgpu/exec/launch.h"
#include "softgpu/isa/extern_call.h"
#include "softgpu/isa/printf.h"

namespace warpline::softgpu::isa {

namespace {

/// int vprintf(const char* format, void* arguments)
Flow call_vprintf(Warp& w, const Instr& i, uint32_t mask) {
    Flow flow = Flow::next;
    each_lane(mask, [&](uint32_t lane) {
        if (flow == Flow::fault) return;
        std::string text;
        int printed = 0;
        uint64_t bad = 0;
        if (!format_device_text(w, argument<uint64_t>(w, i, 0, lane), argument<uint64_t>(w, i, 1, lane), text, printed, bad)) {
            flow = w.raise(i, 700, lane, "printf reads an illegal address", bad);
            return;
        }
        set_result<int32_t>(w, i, lane, printed);
        w.launch->add_output(w.cta->linear, text);
    });
    return flow;
}

/// void* malloc(size_t)
Flow call_malloc(Warp& w, const Instr& i, uint32_t mask) {
    return each_lane(mask, [&](uint32_t lane) {
        set_result<uint64_t>(w, i, lane, w.launch->services().heap.allocate(argument<uint64_t>(w, i, 0, lane)));
    });
}

/// void free(void*)
Flow call_free(Warp& w, const Instr& i, uint32_t mask) {
    Flow flow = Flow::next;
    each_lane(mask, [&](uint32_t lane) {
        auto address = argument<uint64_t>(w, i, 0, lane);
        if (flow == Flow::next && !w.launch->services().heap.free(address)) {
            flow = w.raise(i, 719, lane, "free of an address that malloc did not give", address);
        }
    });
    return flow;
}

std::string assert_message(Warp& w, const Instr& i, uint32_t lane) {
    auto text = [&](uint32_t number) {
        std::string out;
        uint64_t bad = 0;
        (void)read_device_string(w, argument<uint64_t>(w, i, number, lane), out, bad);
        return out;
    };
    const exec::Grid& grid = w.launch->grid();
    uint32_t thread = w.index * exec::k_warp_size + lane;
    return log::format("{}:{}: {}: block: [{},{},{}], thread: [{},{},{}] Assertion `{}` failed.", text(1),
                       argument<uint32_t>(w, i, 2, lane), text(3), w.cta->id[0], w.cta->id[1], w.cta->id[2],
                       thread % grid.block[0], thread / grid.block[0] % grid.block[1], thread / grid.block[0] / grid.block[1],
                       text(0));
}

/// void __assertfail(const char* message, const char* file, unsigned line, const char* function, size_t char_size)
/// Each thread that fails together with others has its line, as on a GPU.
Flow call_assertfail(Warp& w, const Instr& i, uint32_t mask) {
    std::string messages;
    (void)each_lane(mask, [&](uint32_t lane) {
        if (!messages.empty()) messages += '\n';
        messages += assert_message(w, i, lane);
    });
    w.launch->set_fault(710, std::move(messages));
    return Flow::fault;
}

/// void cudaGraphSetConditional(cudaGraphConditionalHandle, unsigned)
Flow call_graph_set_conditional(Warp& w, const Instr& i, uint32_t mask) {
    auto hook = exec::graph_conditional_hook.load(std::memory_order_acquire);
    return each_lane(mask, [&](uint32_t lane) {
        if (hook != nullptr) hook(argument<uint64_t>(w, i, 0, lane), argument<uint32_t>(w, i, 1, lane));
    });
}

}  // namespace

bool is_extern_function(std::string_view name) {
    if (name == "vprintf" || name == "malloc" || name == "free" || name == "__assertfail") return true;
    // nvcc links the device run time's library (launches from kernels) into every -rdc=true program. Its own entrances may stay
    // undefined: a kernel that calls one is refused by name when it is decoded, all others run.
    for (std::string_view prefix : {"cnp", "__cuda_syscall_", "__cudaCDP", "cudaGraph", "cudaCDP"})
        if (name.substr(0, prefix.size()) == prefix) return true;
    return false;
}

Handler extern_function(std::string_view name, uint32_t arg_count, uint32_t) {
    if (name == "vprintf" && arg_count == 2) return &call_vprintf;
    if (name == "malloc" && arg_count == 1) return &call_malloc;
    if (name == "free" && arg_count == 1) return &call_free;
    if (name == "__assertfail" && arg_count == 5) return &call_assertfail;
    if (name == "cudaGraphSetConditional" && arg_count == 2) return &call_graph_set_conditional;
    return device_runtime_function(name, arg_count);
}

}  // namespace warpline::softgpu::isa
