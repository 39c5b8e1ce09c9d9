// Data movement, atomics, textures and surfaces. PTX ISA 9.0, "Data Movement and Conversion Instructions", "Texture
// Instructions", "Surface Instructions", and atom/red of "Parallel Synchronization and Communication Instructions".
#include "softgpu/passes/rules.h"

namespace warpline::softgpu::passes {
namespace {

using Op = ptx::Opcode;

#define SPACES "const global local param param::entry param::func shared shared::cta shared::cluster"
#define ORDER "weak relaxed acquire release volatile mmio cta cluster gpu sys"
#define CACHE "ca cg cs lu cv wb wt nc"
#define EVICTION                                                                                                     \
    "L1::evict_normal L1::evict_unchanged L1::evict_first L1::evict_last L1::no_allocate L2::evict_normal "          \
    "L2::evict_first L2::evict_last L2::cache_hint L2::64B L2::128B L2::256B level::evict_last level::evict_normal " \
    "unified v2 v4 v8"

constexpr RuleText k_memory_rules[] = {
    {Op::mov, "", "", "pred", "d0 p!"},
    {Op::mov, "v2|v4", "", "b8|b16|b32|b64|u8|u16|u32|u64|s8|s16|s32|s64|f32|f64", "x x"},
    {Op::mov, "", "", "scalar|b128", "x x"},  // packing, names and special registers: see check_mov
    {Op::ld, "", SPACES " " ORDER " " CACHE " " EVICTION, "memory", "o0~ a sb64?"},
    {Op::ldu, "", "global v2 v4", "memory", "o0~ a"},
    {Op::st, "async", "*", "b32|b64|u32|u64|s32|s64|f32|f64", "a v0 a?"},
    {Op::st, "bulk", "*", "", "a s i?"},
    {Op::st, "", SPACES " " ORDER " " CACHE " " EVICTION, "memory", "a v0~ sb64?"},
    {Op::cvta, "to", "global shared shared::cta shared::cluster local const param param::entry", "u32|u64", "d0 s0@"},
    {Op::cvta, "", "global shared shared::cta shared::cluster local const param param::entry", "u32|u64", "d0 s0@"},
    {Op::isspacep, "", "global shared shared::cta shared::cluster local const param param::entry param::func", "", "dpred s@"},
    {Op::mapa, "", "shared::cluster", "u32|u64", "d0 s0@ su32"},
    {Op::getctarank, "", "shared::cluster", "u32|u64", "du32 s0@"},
    {Op::prefetch, "", "global local const param generic L1 L2 L2::evict_last L2::evict_normal tensormap", "", "a"},
    {Op::prefetchu, "L1", "", "", "a"},
    {Op::applypriority, "L2::evict_normal", "global", "", "a i"},
    {Op::discard, "", "global L2 L2::128B", "", "a i"},
    {Op::createpolicy, "", "*", "b64", "d0 x*"},
    // atomics
    {Op::atom, "cas", ORDER " acq_rel " SPACES " L2::cache_hint", "b16|b32|b64|u32|u64|s32|s64|b128", "d0_ a s0 s0 sb64?"},
    {Op::atom, "and|or|xor|exch", ORDER " acq_rel " SPACES " L2::cache_hint", "b32|b64|u32|u64|s32|s64|b128", "d0_ a s0 sb64?"},
    {Op::atom, "add|min|max|inc|dec noftz", ORDER " acq_rel " SPACES " L2::cache_hint v2 v4 v8", "half", "o0_ a v0 sb64?"},
    {Op::atom, "add|min|max|inc|dec", ORDER " acq_rel " SPACES " L2::cache_hint v2 v4 v8", "u32|u64|s32|s64|f32|f64",
     "o0_ a v0 sb64?"},
    {Op::red, "async", "*", "*", "a s a?"},
    {Op::red, "and|or|xor", ORDER " " SPACES " L2::cache_hint", "b32|b64|u32|u64|s32|s64", "a s0 sb64?"},
    {Op::red, "add|min|max|inc|dec noftz", ORDER " " SPACES " L2::cache_hint v2 v4 v8", "half", "a v0 sb64?"},
    {Op::red, "add|min|max|inc|dec", ORDER " " SPACES " L2::cache_hint v2 v4 v8", "u32|u64|s32|s64|f32|f64", "a v0 sb64?"},
    // asynchronous copies
    {Op::cp, "async commit_group", "bulk", "", ""},
    {Op::cp, "async wait_all", "", "", ""},
    {Op::cp, "async wait_group", "bulk read", "", "i"},
    {Op::cp, "async mbarrier arrive", "noinc shared shared::cta", "b64", "a"},
    {Op::cp, "async !bulk ca|cg", "shared shared::cta global L2::cache_hint L2::64B L2::128B L2::256B ignore_src", "",
     "a a i x?  x?"},
    {Op::cp, "async bulk", "*", "*", "x x*"},
    {Op::cp, "reduce async", "*", "*", "x x*"},
    // textures and surfaces: the geometry decides how long the vectors are, which the decoder checks
    {Op::tex, "", "1d 2d 3d a1d a2d cube acube 2dms a2dms base level grad v4", "u32|s32|f32|f16x2 s32|f32", "o| a x*"},
    {Op::tex, "", "1d 2d 3d a1d a2d cube acube base level grad v2 v4", "f16x2|f16 s32|f32|f16", "o| a x*"},
    {Op::tld4, "r|g|b|a", "2d a2d cube acube v4", "u32|s32|f32 f32", "o| a x*"},
    {Op::txq, "", "*", "b32", "d0 x x?"},
    {Op::suq, "", "*", "b32", "d0 x"},
    {Op::suld, "b", "1d 2d 3d a1d a2d v2 v4 trap clamp zero ca cg cs cv", "b8|b16|b32|b64", "o0~ a"},
    {Op::sust, "b|p", "1d 2d 3d a1d a2d v2 v4 trap clamp zero wb cg cs wt", "b8|b16|b32|b64|u32|s32|f32", "a v0~"},
    {Op::sured, "b|p", "1d 2d 3d a1d a2d trap clamp zero add min max and or", "u32|u64|s32|b32|s64|b64", "a s"},
    {Op::istypep, "", "*", "*", "dpred x"},
};

}  // namespace

std::span<const RuleText> memory_rules() { return k_memory_rules; }

}  // namespace warpline::softgpu::passes
