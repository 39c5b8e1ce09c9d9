// Control flow, barriers, warp operations and the rest. PTX ISA 9.0, "Control Flow Instructions", "Parallel Synchronization and
// Communication Instructions", "Stack Manipulation Instructions", "Miscellaneous Instructions".
#include "softgpu/passes/rules.h"

namespace warpline::softgpu::passes {
namespace {

using Op = ptx::Opcode;

constexpr RuleText k_warp_rules[] = {
    {Op::bra, "", "uni", "", "l"},
    {Op::brx, "idx", "uni", "", "ru32 l"},
    {Op::ret, "", "uni", "", ""},
    {Op::exit, "", "", "", ""},
    {Op::trap, "", "", "", ""},
    {Op::brkpt, "", "", "", ""},
    {Op::nanosleep, "", "", "u32", "s0"},
    {Op::pmevent, "", "mask", "", "i"},
    {Op::setmaxnreg, "inc|dec sync aligned", "", "u32", "i"},
    {Op::griddepcontrol, "launch_dependents|wait", "", "", ""},
    {Op::stacksave, "", "", "u32|u64", "d0"},
    {Op::stackrestore, "", "", "u32|u64", "r0"},
    {Op::alloca_, "", "", "u32|u64", "d0 s0 i?"},
    // barriers and fences
    {Op::bar, "warp sync", "", "", "sb32"},
    {Op::bar, "red popc", "cta aligned", "u32", "d0 sb32 p"},
    {Op::bar, "red popc", "cta aligned", "u32", "d0 sb32 sb32 p"},
    {Op::bar, "red and|or", "cta aligned", "pred", "d0 sb32 p"},
    {Op::bar, "red and|or", "cta aligned", "pred", "d0 sb32 sb32 p"},
    {Op::bar, "sync", "cta", "", "sb32 sb32?"},
    {Op::bar, "arrive", "cta", "", "sb32 sb32"},
    {Op::barrier, "cluster arrive", "release relaxed aligned", "", ""},
    {Op::barrier, "cluster wait", "acquire aligned", "", ""},
    {Op::barrier, "red popc", "cta aligned", "u32", "d0 sb32 p"},
    {Op::barrier, "red popc", "cta aligned", "u32", "d0 sb32 sb32 p"},
    {Op::barrier, "red and|or", "cta aligned", "pred", "d0 sb32 p"},
    {Op::barrier, "red and|or", "cta aligned", "pred", "d0 sb32 sb32 p"},
    {Op::barrier, "sync", "cta aligned", "", "sb32 sb32?"},
    {Op::barrier, "arrive", "cta aligned", "", "sb32 sb32"},
    {Op::membar, "cta|gl|sys", "", "", ""},
    {Op::membar, "proxy", "*", "", ""},
    {Op::fence, "", "*", "", "x*"},
    // warp operations
    {Op::shfl, "sync up|down|bfly|idx", "", "b32", "d0|_ s0 sb32 sb32 sb32"},
    {Op::shfl, "!sync up|down|bfly|idx", "", "b32", "d0|_ s0 sb32 sb32"},
    {Op::vote, "sync ballot", "", "b32", "d0 p sb32"},
    {Op::vote, "sync all|any|uni", "", "pred", "d0 p sb32"},
    {Op::vote, "!sync ballot", "", "b32", "d0 p"},
    {Op::vote, "!sync all|any|uni", "", "pred", "d0 p"},
    {Op::match, "any sync", "", "b32|b64", "db32 s0 sb32"},
    {Op::match, "all sync", "", "b32|b64", "db32| s0 sb32"},
    {Op::activemask, "", "", "b32", "d0"},
    {Op::redux, "sync add|min|max", "", "int32", "d0 s0 sb32"},
    {Op::redux, "sync and|or|xor", "", "b32", "d0 s0 sb32"},
    {Op::redux, "sync min|max", "abs NaN", "f32", "d0 s0 sb32"},
    {Op::elect, "sync", "", "", "db32|_ sb32"},
    // transaction barriers
    {Op::mbarrier, "init", "shared shared::cta", "b64", "a su32"},
    {Op::mbarrier, "inval", "shared shared::cta", "b64", "a"},
    {Op::mbarrier, "expect_tx|complete_tx", "relaxed cta cluster shared shared::cta shared::cluster", "b64", "a su32"},
    {Op::mbarrier, "arrive|arrive_drop", "release relaxed cta cluster shared shared::cta shared::cluster expect_tx noComplete",
     "b64", "d0_ a su32?"},
    {Op::mbarrier, "arrive|arrive_drop", "release relaxed cta cluster shared shared::cta shared::cluster expect_tx", "b64",
     "a x?"},
    {Op::mbarrier, "test_wait parity", "acquire relaxed cta cluster shared shared::cta", "b64", "dpred a su32"},
    {Op::mbarrier, "test_wait", "acquire relaxed cta cluster shared shared::cta", "b64", "dpred a s0"},
    {Op::mbarrier, "try_wait parity", "acquire relaxed cta cluster shared shared::cta", "b64", "dpred a su32 su32?"},
    {Op::mbarrier, "try_wait", "acquire relaxed cta cluster shared shared::cta", "b64", "dpred a s0 su32?"},
    {Op::mbarrier, "pending_count", "", "b64", "du32 s0"},
    {Op::tensormap, "", "*", "*", "x*"},
    {Op::clusterlaunchcontrol, "", "*", "*", "x*"},
};

}  // namespace

std::span<const RuleText> warp_rules() { return k_warp_rules; }

}  // namespace warpline::softgpu::passes
