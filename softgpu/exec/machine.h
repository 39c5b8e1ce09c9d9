// The machine as instruction handlers see it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

/// What an instruction handler sees of the machine. This header is compiled once per CPU level (x86-64-v2, -v3, -v4): it must
/// not include C++ library headers, and its inline functions live in a namespace of their own per level, so that no AVX-512
/// copy of a shared inline function can ever be linked into code that runs on an older CPU.
///
/// Registers are rows of 32 lanes; a lane is 2, 4, 8 or 16 bytes wide (a .b8 register is kept in 2), a predicate is one
/// uint32_t with a bit per lane. An operand is a slot: a byte offset into the frame's rows if >= 0, into the function's
/// constant rows (immediates and addresses of symbols, every lane filled) if negative. Handlers therefore know no kinds of
/// operand.

#ifndef WL_LEVEL
#define WL_LEVEL base
#endif
#define WL_INLINE inline __attribute__((always_inline))

namespace warpline::softgpu::exec {

constexpr uint32_t k_warp_size = 32;
constexpr uint32_t k_full_mask = 0xffffffffu;
constexpr uint32_t k_max_barriers = 16;

struct Warp;
struct Cta;
struct Instr;
struct Body;
class LaunchState;
class WorkerState;
class CtaGroup;
class CtaCheck;

/// What the interpreter does after a handler.
enum class Flow : uint32_t {
    next,     ///< go on with the following instruction
    jump,     ///< go on at Warp::jump_to; nothing else of the warp wants to run first
    switch_,  ///< the fragment list has changed (branch with several fragments, call, return, exit, block): schedule
    fault,    ///< Warp::raise() was called: the launch ends
};

/// Executes one instruction for the lanes in `mask` (never empty; the guard predicate is already applied).
/// Lanes that are not in `mask` must keep their destination values and must not touch memory.
using Handler = Flow (*)(Warp& warp, const Instr& instr, uint32_t mask);

/// One decoded instruction, 80 bytes. The meaning of operands is the handler's; by convention op[0] is the destination.
struct Instr {
    Handler fn = nullptr;           ///< the entry: the handler itself, or the guard stub
    Handler inner = nullptr;        ///< the handler behind the guard stub
    int32_t op[5] = {};             ///< slots
    int32_t guard = 0;              ///< slot of the guard predicate; used by the guard stub only
    uint64_t imm = 0;               ///< immediate: address displacement, modifier bits
    const Instr* target = nullptr;  ///< branch and call target (entry of the callee)
    const void* extra = nullptr;    ///< longer operand lists, owned by the Body
    uint32_t line = 0;              ///< line of the PTX text
    uint32_t cache = 0;             ///< index of this instruction's range cache (memory instructions)
    uint32_t flags = 0;             ///< InstrFlag
    uint32_t block = 0;             ///< reverse-post-order number of the basic block
};

enum InstrFlag : uint32_t {
    instr_guarded = 1,
    instr_guard_negated = 2,
    instr_leader = 4,         ///< first of a basic block that several blocks enter: fragments can meet here
    instr_back_edge = 8,      ///< a branch to a block of lower or equal number: counts for fairness and the watchdog
    instr_warp_barrier = 32,  ///< bar.warp.sync: lanes at different ones may meet
    instr_spin_hint = 16,     ///< a volatile, acquire or atomic access: in a loop, somebody probably waits
};

/// A valid range of memory as remembered by one instruction: [begin, end). begin == end is "nothing".
struct RangeCache {
    uint64_t begin = 0, end = 0;
};

/// A call's registers and where it returns to. The entry function's frame has parent == nullptr.
struct Frame {
    std::byte* regs = nullptr;          ///< rows
    const std::byte* consts = nullptr;  ///< END of the constant rows: constants have negative slots
    const Body* body = nullptr;
    Frame* parent = nullptr;
    const Instr* return_to = nullptr;
    uint32_t lanes = 0;       ///< lanes that are still inside this call
    uint32_t depth = 0;       ///< entry function: 0
    uint32_t local_base = 0;  ///< where this call's .local variables begin, in each lane's local memory
    uint32_t alloca_top = 0;  ///< end of what alloca has taken
    const std::byte* call_params = nullptr;
    uint64_t capacity_bytes = 0;  ///< of regs, for reuse
    const void* owner = nullptr;  ///< storage of regs
    Frame* next_free = nullptr;
};

enum class Wait : uint8_t {
    runnable,
    sync,     ///< at a .sync instruction, for other lanes of the warp
    barrier,  ///< at a CTA barrier
    poll,     ///< asked to be run again after everything else had a turn (nanosleep, cluster barriers, mbarrier waits)
};

/// Lanes of a warp that run together.
struct Fragment {
    const Instr* pc = nullptr;
    Frame* frame = nullptr;
    uint32_t mask = 0;
    Wait wait = Wait::runnable;
    bool released = false;  ///< the barrier that it waits at is complete: the instruction is executed again and finishes
    uint16_t barrier = 0;   ///< which barrier, if wait == barrier
    uint64_t key = 0;       ///< scheduling order, lower first: turn, then deepest call, then lowest block number
    uint32_t turn = 0;      ///< fairness: raised when the fragment has used up its turn
    uint32_t result = 0;    ///< what a completed bar.red hands to the waiting fragment
    bool polled = false;    ///< waits in poll and has not been run since
};

/// What a handler may know and do. Plain data first: hot handlers read regs, consts and memory windows directly.
struct Warp {
    // --- the running fragment (copies of its state, valid while a handler runs)
    std::byte* regs = nullptr;
    const std::byte* consts = nullptr;
    const Instr* jump_to = nullptr;  ///< set by handlers that return Flow::jump
    RangeCache* caches = nullptr;    ///< this worker's range caches of the running function
    Frame* frame = nullptr;
    uint32_t mask = 0;     ///< of the fragment (a guarded instruction gets a smaller mask as argument)
    uint32_t current = 0;  ///< index of the running fragment in fragments[]
    bool careful = false;  ///< the kernel has met denormals: arithmetic takes the way that they do not slow down

    // --- memory. Shared and local memory have real addresses like all other memory: the generic address of a shared variable
    // is
    //     shared + offset, that of a local one is local + lane * local_stride + offset. Ranges of global memory never contain
    //     them.
    std::byte* shared = nullptr;  ///< this CTA's shared memory, offset 0
    uint32_t shared_bytes = 0;    ///< static + dynamic
    uint32_t local_stride = 0;    ///< bytes of local memory per lane
    std::byte* local = nullptr;   ///< lane 0's local memory
    std::byte* params = nullptr;  ///< kernel parameters: global memory of this launch, so that their address can be taken
    uint32_t params_bytes = 0;

    // --- who this is
    uint32_t index = 0;                  ///< warp in its CTA: %warpid
    const uint32_t* thread_ids[3] = {};  ///< %tid of the lanes: rows of 4 bytes
    uint32_t launched = 0;               ///< lanes that exist (the last warp of a CTA may have fewer than 32)
    uint32_t live = 0;                   ///< lanes that have not exited
    uint32_t carry = 0;                  ///< the condition code register: a bit per lane
    uint32_t fragment_count = 0;
    uint64_t next_key = ~0ull;  ///< lowest key of the other runnable fragments: run on while below it
    int32_t budget = 0;         ///< back-edges left in this turn
    uint32_t spins = 0;         ///< signs of waiting in this turn
    Cta* cta = nullptr;
    LaunchState* launch = nullptr;
    WorkerState* worker = nullptr;
    CtaGroup* group = nullptr;
    Frame* free_frames = nullptr;
    bool ran = false;  ///< has executed something since the scheduler last asked
    Fragment fragments[k_warp_size];

    // --- services (defined in exec, out of line: the slow paths)

    /// Ends the launch with a sticky fault at `instr`. `lane` is the first lane at fault, `address` goes into the text if not
    /// 0. Returns Flow::fault: `return warp.raise(...)`. The first fault of a launch wins.
    Flow raise(const Instr& instr, int cu_result, uint32_t lane, const char* what, uint64_t address = 0);

    /// The valid range of device or registered memory around `address`, byte-exact and lock-free. False: no byte there is
    /// valid.
    bool find_range(uint64_t address, RangeCache& out) const;

    /// Host address of `size_bytes` bytes at a generic address: global, registered host, shared (of any CTA of the cluster) or
    /// local memory. Null if not all of them are valid. Does not check alignment. For rare instructions; ld, st and atomics
    /// have faster ways in isa/access.h.
    std::byte* resolve(uint64_t generic, uint32_t size_bytes);
    /// Same, global memory only.
    std::byte* resolve_global(uint64_t address, uint32_t size_bytes);
    /// Same, in the shared::cluster space: an offset below 16 MiB is in this CTA, (rank + 1) << 24 | offset in CTA `rank` of
    /// the cluster.
    std::byte* resolve_shared(uint64_t offset, uint32_t size_bytes);
    /// Same, in the local memory of a lane.
    std::byte* resolve_local(uint64_t offset, uint32_t size_bytes, uint32_t lane);

    /// For .sync instructions: true if for every lane in `mask` all live lanes of members[lane] stand at this instruction:
    /// execute now, for all of `mask`. False: lanes have been parked or split off, and the handler must return Flow::switch_
    /// without effect; it is called again when the others have arrived.
    WL_INLINE bool converge(const Instr& instr, uint32_t mask_here, const uint32_t* members) {
        if (mask_here != live) return converge_some(instr, mask_here, members);
        fragments[current].released = false;  // whoever there is stands here
        return true;
    }
    bool converge_some(const Instr& instr, uint32_t mask, const uint32_t* members);  ///< the general case

    /// Parks the fragment's `mask` lanes at this instruction; it is executed again after everything else of the CTA (and, in
    /// turns, other CTAs) has run. Use: `if (!ready) return warp.poll(instr, mask);`
    Flow poll(const Instr& instr, uint32_t mask);

    /// Uses up `cost` back-edges of the fragment's turn: what makes waiting loops give way to others.
    /// `waits` also tells the scheduler that the CTA probably waits for another one.
    WL_INLINE void spend(int32_t cost, bool waits = false) {
        budget -= cost;
        spins += waits;
    }
};

/// Shape and identity of a launch, as special registers report it.
struct Grid {
    uint32_t grid[3], block[3], cluster[3];  ///< cluster: 1, 1, 1 if none
    uint32_t warps_per_cta, threads_per_cta;
    uint64_t grid_id;
    uint32_t env[32];  ///< %envreg
    uint32_t device_ordinal, compute_capability;
    uint32_t dynamic_shared_bytes, static_shared_bytes;
    uint32_t multiprocessors;           ///< %nsmid
    std::span<const uint32_t> allowed;  ///< multiprocessors that its blocks run on; empty: all
};

enum class BarrierKind : uint8_t { plain, popc, all, any };

/// Threads that arrived at a CTA barrier.
struct Barrier {
    uint32_t expected = 0;    ///< threads, 0: all of the CTA
    uint32_t population = 0;  ///< of a reduction
    bool all = true, any = false;
    BarrierKind kind = BarrierKind::plain;
};

/// A block of threads on its worker.
struct Cta {
    uint64_t linear = 0;        ///< number in the grid
    uint32_t id[3] = {};        ///< %ctaid
    uint32_t cluster_rank = 0;  ///< %cluster_ctarank
    uint32_t cluster_size = 1;
    uint32_t warp_count = 0;
    uint32_t live_warps = 0;
    const Grid* grid = nullptr;
    std::byte* shared = nullptr;
    uint32_t shared_bytes = 0;
    Warp* warps = nullptr;
    Cta** cluster = nullptr;    ///< the CTAs of the cluster by rank (all of them on this worker); itself if there is none
    void* isa_state = nullptr;  ///< for families: state per CTA, freed with `isa_state_free`
    void (*isa_state_free)(void*) = nullptr;
    CtaCheck* check = nullptr;     ///< SOFTGPU_CHECK; null: nothing is checked
    uint32_t barriers_in_use = 0;  ///< a bit per barrier that somebody has arrived at
    uint32_t missing = 0;          ///< a warp that a barrier waited for when it was last looked at
    Barrier barriers[k_max_barriers];
    uint32_t* arrived = nullptr;  ///< [barrier * warp_count + warp]: lanes that arrived
};

// --- what instructions tell the checkers (checking.h), where Cta::check is not null

/// One lane's access, to memory that is known to be valid.
struct LaneAccess {
    std::byte* at = nullptr;
    uint32_t bytes = 0;
    bool reads = false, writes = false;
    bool strong = false;  ///< volatile, relaxed, acquire, release, or atomic: orders, and does not race with its like
    const std::byte* value = nullptr;  ///< of a store: what it will write
};
enum class AccessKind : uint8_t { read, write, atomic };

/// False: a fault has been raised.
bool check_lane(Warp& warp, const Instr& instr, uint32_t lane, const LaneAccess& access);
void check_lanes(Warp& warp, const Instr& instr, uint32_t mask, std::byte* const* lanes, uint32_t bytes, AccessKind kind);
/// bar.warp.sync is complete for the lanes in `mask`, members[lane] are the lanes that each met.
void check_meeting(Warp& warp, uint32_t mask, const uint32_t* members);
/// A barrier is complete; nobody has been told yet.
void check_barrier(Cta& cta, uint32_t number);
void check_cluster_barrier(Cta& cta);

inline namespace WL_LEVEL {

/// Row of a slot for reading.
template <typename T>
WL_INLINE const T* source(const Warp& warp, int32_t slot) {
    const std::byte* base = slot < 0 ? warp.consts : warp.regs;
    return reinterpret_cast<const T*>(base + slot);
}

/// Row of a slot for writing: never a constant.
template <typename T>
WL_INLINE T* dest(Warp& warp, int32_t slot) {
    return reinterpret_cast<T*>(warp.regs + slot);
}

/// A predicate: one bit per lane.
WL_INLINE uint32_t predicate(const Warp& warp, int32_t slot) { return *source<uint32_t>(warp, slot); }
WL_INLINE void set_predicate(Warp& warp, int32_t slot, uint32_t value, uint32_t mask) {
    uint32_t* row = dest<uint32_t>(warp, slot);
    *row = (*row & ~mask) | (value & mask);
}

}  // namespace WL_LEVEL
}  // namespace warpline::softgpu::exec
