// The basic blocks of a body.
#pragma once

#include <cstdint>
#include <vector>

#include "softgpu/ptx/ast.h"

namespace warpline::softgpu::exec {

/// Basic blocks of a PTX body, with the order in which divergent lanes run through them.
struct FlowGraph {
    struct BasicBlock {
        uint32_t begin = 0, end = 0;  ///< instructions [begin, end)
        uint32_t order = 0;  ///< number in the scheduling order: blocks of a loop are contiguous, what follows comes after
        bool falls_through = false;
        bool in_loop = false;  ///< can run more than once
        std::vector<uint32_t> successors;
        uint32_t predecessors = 0;
    };
    std::vector<BasicBlock> blocks;  ///< in the order of the text
    std::vector<uint32_t> block_of;  ///< by instruction
    uint32_t block_at(uint32_t instruction) const { return block_of[instruction]; }
};

/// Divides a body into blocks and orders them. A call ends its block, because lanes come back there one by one.
FlowGraph build_flow_graph(const ptx::Body& body);

/// True if an instruction can change what runs next: bra, brx, call, ret, exit, trap.
bool ends_block(const ptx::Instruction& instruction);

}  // namespace warpline::softgpu::exec
