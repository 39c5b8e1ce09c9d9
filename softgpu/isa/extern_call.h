// Arguments and results of functions that PTX calls and that are written here, lane by lane.
#pragma once

#include <algorithm>
#include <cstring>
#include <string_view>

#include "softgpu/exec/body.h"
#include "softgpu/isa/row.h"

namespace warpline::softgpu::isa {

inline const exec::CallInfo& info_of(const Instr& instr) { return *static_cast<const exec::CallInfo*>(instr.extra); }

template <typename T>
T argument(const Warp& w, const Instr& i, uint32_t number, uint32_t lane) {
    const exec::ParamSlot& slot = info_of(i).args[number];
    T value{};
    std::memcpy(&value, exec::source<std::byte>(w, slot.slot) + lane * slot.size_bytes,
                std::min<size_t>(sizeof(T), slot.size_bytes));
    return value;
}

template <typename T>
void set_result(Warp& w, const Instr& i, uint32_t lane, T value) {
    if (info_of(i).ret_count == 0 || info_of(i).rets[0].slot < 0) return;
    const exec::ParamSlot& slot = info_of(i).rets[0];
    std::memcpy(exec::dest<std::byte>(w, slot.slot) + lane * slot.size_bytes, &value,
                std::min<size_t>(sizeof(T), slot.size_bytes));
}

template <typename F>
Flow each_lane(uint32_t mask, F&& f) {
    for (uint32_t rest = mask; rest != 0; rest &= rest - 1) f(uint32_t(__builtin_ctz(rest)));
    return Flow::next;
}

/// Handler of an entrance of the device run time (kernels that launch kernels); null if it is not offered.
Handler device_runtime_function(std::string_view name, uint32_t arg_count);

}  // namespace warpline::softgpu::isa
