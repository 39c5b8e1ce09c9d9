// The families of instructions. Add yours here and in register_all().
#pragma once

#include "softgpu/isa/registry.h"

namespace warpline::softgpu::isa {

void register_level_families(Registry& registry);  ///< level/*.cpp for the CPU at hand
void register_integer(Registry& registry);         ///< integer instructions that are not hot
void register_float(Registry& registry);           ///< rounding modes, saturation, approximations
void register_video(Registry& registry);           ///< vadd … vset4
void register_stack(Registry& registry);           ///< alloca, stacksave, stackrestore
void register_memory(Registry& registry);          ///< ld, st, cvta, isspacep, prefetch
void register_convert(Registry& registry);         ///< cvt
void register_misc(Registry& registry);            ///< traps, clocks, hints
void register_packing(Registry& registry);         ///< mov of vectors
void register_barrier(Registry& registry);         ///< bar, barrier, fences
void register_collective(Registry& registry);      ///< shfl, vote, match, redux, activemask
void register_atomic(Registry& registry);          ///< atom, red
void register_half_convert(
    Registry& registry);  ///< cvt of 16 bits and fewer. What extends an opcode comes after what it extends
void register_half_compare(Registry& registry);  ///< setp, set of packed halves
void register_half_math(Registry& registry);     ///< ex2, tanh; sums of halves and f32
void register_half_atomic(Registry& registry);   ///< atom, red on halves and vectors
void register_mma(Registry& registry);           ///< mma
void register_wmma(Registry& registry);          ///< wmma
void register_ldmatrix(Registry& registry);      ///< ldmatrix, stmatrix, movmatrix
void register_async_copy(Registry& registry);    ///< cp
void register_async_store(Registry& registry);   ///< st.async, st.bulk, red.async
void register_mbarrier(Registry& registry);      ///< mbarrier
void register_cluster(Registry& registry);       ///< mapa, getctarank, barrier.cluster
void register_texture(Registry& registry);       ///< tex, tld4, txq
void register_surface(Registry& registry);       ///< suld, sust, sured, suq

inline void register_all(Registry& registry) {
    register_integer(registry);
    register_float(registry);
    register_video(registry);
    register_stack(registry);
    register_memory(registry);
    register_convert(registry);
    register_misc(registry);
    register_packing(registry);
    register_barrier(registry);
    register_collective(registry);
    register_atomic(registry);
    register_half_convert(registry);
    register_half_compare(registry);
    register_half_math(registry);
    register_half_atomic(registry);
    register_mma(registry);
    register_wmma(registry);
    register_ldmatrix(registry);
    register_async_copy(registry);
    register_async_store(registry);
    register_mbarrier(registry);
    register_cluster(registry);
    register_texture(registry);
    register_surface(registry);
    register_level_families(registry);  // last: what is there for the CPU at hand replaces the general form
}

}  // namespace warpline::softgpu::isa
