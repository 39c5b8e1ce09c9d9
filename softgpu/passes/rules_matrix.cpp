// Matrix operations. PTX ISA 9.0, "Warp Level Matrix Multiply-Accumulate Instructions". How long the vectors of a shape are is
// for the decoder, which has a table of shapes; here the forms and the operand kinds are checked.
#include "softgpu/passes/rules.h"

namespace warpline::softgpu::passes {
namespace {

using Op = ptx::Opcode;

#define WMMA_SHAPES "m16n16k16|m32n8k16|m8n32k16|m8n8k32|m8n8k128|m8n8k4|m16n16k8"

constexpr RuleText k_matrix_rules[] = {
    {Op::wmma, "load a|b|c sync aligned row|col " WMMA_SHAPES, "global shared shared::cta", "*", "o a sb32?"},
    {Op::wmma, "store d sync aligned row|col " WMMA_SHAPES, "global shared shared::cta", "*", "a v sb32?"},
    {Op::wmma, "mma sync aligned " WMMA_SHAPES, "*", "*", "o v v v"},
    {Op::mma, "sync aligned !sp !sp::ordered_metadata !block_scale", "*", "*", "o v v v"},
    {Op::mma, "sync aligned", "*", "*", "o v v v x*"},
    {Op::ldmatrix, "sync aligned m8n8|m16n16|m8n16 x1|x2|x4", "trans shared shared::cta b4x16_p64 b6x16_p32", "b16|b8 b8?",
     "o a"},
    {Op::ldmatrix, "sync aligned", "*", "*", "o a"},
    {Op::stmatrix, "sync aligned m8n8|m16n8 x1|x2|x4", "trans shared shared::cta", "b16|b8", "a v"},
    {Op::movmatrix, "sync aligned m8n8 trans", "", "b16", "db32 rb32"},
    {Op::wgmma, "", "*", "*", "x*"},
    {Op::tcgen05, "", "*", "*", "x*"},
    {Op::multimem, "", "*", "*", "x*"},
};

}  // namespace

std::span<const RuleText> matrix_rules() { return k_matrix_rules; }

}  // namespace warpline::softgpu::passes
