#pragma once

#include "softgpu/isa/registry.h"

/// The families of instructions. Add yours here and in register_all().
namespace warpline::softgpu::isa {

void register_level_families(Registry& registry);  ///< level/*.cpp for the CPU at hand
void register_memory(Registry& registry);          ///< ld, st, cvta, isspacep, prefetch
void register_convert(Registry& registry);         ///< cvt
void register_misc(Registry& registry);            ///< mov of vectors, traps, clocks, hints
void register_barrier(Registry& registry);         ///< bar, barrier, fences
void register_collective(Registry& registry);      ///< shfl, vote, match, redux, activemask
void register_atomic(Registry& registry);          ///< atom, red

inline void register_all(Registry& registry) {
    register_level_families(registry);
    register_memory(registry);
    register_convert(registry);
    register_misc(registry);
    register_barrier(registry);
    register_collective(registry);
    register_atomic(registry);
}

}  // namespace warpline::softgpu::isa
