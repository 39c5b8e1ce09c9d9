// Grid groups of the device run time, written for the machine's own PTX.
#include "softgpu/passes/device_library.h"

#include <algorithm>
#include <string_view>

#include "softgpu/ptx/parser.h"

namespace warpline::softgpu::passes {
namespace {

constexpr std::string_view k_prefix = "cudaCG";

/// A handle is the address of the memory in which blocks of a cooperative launch count each other (exec/engine.cpp); of other
/// launches it is 0, and to synchronise is an error (1, cudaErrorInvalidValue). In the fourth word blocks count who has
/// arrived, in the fifth how often all had.
constexpr std::string_view k_grid_groups = R"(
.version 7.0
.target sm_70
.address_size 64

.weak .func (.param .b64 handle) cudaCGGetIntrinsicHandle(.param .b32 scope)
{
    .reg .pred %is_grid;
    .reg .b32 %scope, %low, %high;
    .reg .b64 %handle;
    ld.param.u32 %scope, [scope];
    mov.u32 %low, %envreg2;
    mov.u32 %high, %envreg1;
    mov.b64 %handle, {%low, %high};
    setp.eq.u32 %is_grid, %scope, 1;
    selp.b64 %handle, %handle, 0, %is_grid;
    st.param.b64 [handle], %handle;
    ret;
}

.weak .func (.param .b32 error) cudaCGSynchronize(.param .b64 handle, .param .b32 flags)
{
    .reg .pred %is_none, %is_other, %is_last, %waits;
    .reg .b32 %thread, %part, %blocks, %before, %round, %now;
    .reg .b64 %handle;
    ld.param.u64 %handle, [handle];
    setp.eq.u64 %is_none, %handle, 0;
    @%is_none bra NONE;
    bar.sync 0;
    mov.u32 %thread, %tid.x;
    mov.u32 %part, %tid.y;
    or.b32 %thread, %thread, %part;
    mov.u32 %part, %tid.z;
    or.b32 %thread, %thread, %part;
    setp.ne.u32 %is_other, %thread, 0;
    @%is_other bra TOGETHER;
    mov.u32 %blocks, %nctaid.x;
    mov.u32 %part, %nctaid.y;
    mul.lo.u32 %blocks, %blocks, %part;
    mov.u32 %part, %nctaid.z;
    mul.lo.u32 %blocks, %blocks, %part;
    sub.u32 %blocks, %blocks, 1;
    ld.volatile.u32 %round, [%handle+16];
    membar.gl;
    atom.add.u32 %before, [%handle+12], 1;
    setp.eq.u32 %is_last, %before, %blocks;
    @%is_last bra LAST;
WAIT:
    ld.volatile.u32 %now, [%handle+16];
    setp.eq.u32 %waits, %now, %round;
    @%waits bra WAIT;
    bra ALL;
LAST:
    st.volatile.u32 [%handle+12], 0;
    membar.gl;
    atom.add.u32 %before, [%handle+16], 1;
ALL:
    membar.gl;
TOGETHER:
    bar.sync 0;
    st.param.b32 [error], 0;
    ret;
NONE:
    st.param.b32 [error], 1;
    ret;
}

.weak .func (.param .b32 error) cudaCGSynchronizeGrid(.param .b64 handle, .param .b32 flags)
{
    .reg .b32 %flags, %error;
    .reg .b64 %handle;
    ld.param.u64 %handle, [handle];
    ld.param.u32 %flags, [flags];
    {
        .param .b64 of;
        .param .b32 how;
        .param .b32 result;
        st.param.b64 [of], %handle;
        st.param.b32 [how], %flags;
        call.uni (result), cudaCGSynchronize, (of, how);
        ld.param.b32 %error, [result];
    }
    st.param.b32 [error], %error;
    ret;
}
)";

bool is_wanted(const ptx::Function& function) {
    return !function.has_body && !function.is_alias && function.name.substr(0, k_prefix.size()) == k_prefix;
}

}  // namespace

std::unique_ptr<ptx::Module> device_library_for(std::span<const std::unique_ptr<ptx::Module>> modules) {
    const auto asks = [](const std::unique_ptr<ptx::Module>& module) {
        return std::any_of(module->functions.begin(), module->functions.end(), is_wanted);
    };
    if (std::none_of(modules.begin(), modules.end(), asks)) return nullptr;
    return ptx::parse(k_grid_groups, {}).module;
}

}  // namespace warpline::softgpu::passes
