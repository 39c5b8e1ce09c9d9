// Runs the warps of a block or cluster in turns.
#include "softgpu/exec/cta.h"

#include <sys/mman.h>

#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

#include <algorithm>
#include <thread>

#include "softgpu/exec/checking.h"
#include "softgpu/exec/launch.h"
#include "softgpu/exec/warp.h"

namespace warpline::softgpu::exec {

namespace {

constexpr uint64_t k_call_bytes_limit = 1ull << 30;  ///< registers of all call frames of a group

uint32_t round_to_rows(uint32_t bytes) { return (bytes + 63) / 64 * 64; }

/// Offset 0 of a block's shared memory is aligned like this, so that a pointer to a variable has the low bits of its offset:
/// swizzled layouts repeat after 1024 bytes at most, and programs work out of a pointer where they begin.
constexpr size_t k_shared_alignment = 1024;
size_t round_to_shared(size_t bytes) { return (bytes + k_shared_alignment - 1) / k_shared_alignment * k_shared_alignment; }

}  // namespace

CtaGroup::CtaGroup(const GroupShape& shape)
    : m_shape(shape),
      m_ctas(shape.ctas),
      m_by_rank(shape.ctas),
      m_warps(size_t{shape.ctas} * shape.warps),
      m_entry_frames(size_t{shape.ctas} * shape.warps),
      m_arrived(size_t{shape.ctas} * shape.warps * k_max_barriers),
      m_registers(size_t{shape.ctas} * shape.warps * round_to_rows(shape.frame_bytes)),
      m_shared(size_t{shape.ctas} * round_to_shared(shape.shared_bytes) + k_shared_alignment) {
    m_local_bytes = uint64_t{shape.ctas} * shape.warps * shape.local_stride * k_warp_size;
    if (m_local_bytes == 0) return;
    void* got = mmap(nullptr, m_local_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (got == MAP_FAILED) throw std::bad_alloc();
    m_local = static_cast<std::byte*>(got);
}

CtaGroup::~CtaGroup() {
    free_isa_state();
    if (m_local != nullptr) munmap(m_local, m_local_bytes);
}

void CtaGroup::free_isa_state() {
    for (Cta& cta : m_ctas) {
        if (cta.isa_state != nullptr) cta.isa_state_free(cta.isa_state);
        cta.isa_state = nullptr;
    }
}

/// Once for all blocks of a shape: divisions for every thread would be felt where kernels are short.
void CtaGroup::number_threads(const uint32_t (&block)[3]) {
    if (std::equal(block, block + 3, m_block)) return;
    std::copy(block, block + 3, m_block);
    const size_t count = size_t{m_shape.warps} * k_warp_size;
    m_thread_ids.resize(3 * count);
    for (size_t thread = 0; thread < count; ++thread) {
        m_thread_ids[thread] = uint32_t(thread % block[0]);
        m_thread_ids[count + thread] = uint32_t(thread / block[0] % block[1]);
        m_thread_ids[2 * count + thread] = uint32_t(thread / block[0] / block[1]);
    }
}

void CtaGroup::start(LaunchState& launch, uint64_t index) {
    m_index = index;
    m_met = false;
    free_isa_state();
    const Grid& grid = launch.grid();
    number_threads(grid.block);
    // Clusters lie in the grid like blocks of blocks.
    uint64_t per_row = grid.grid[0] / grid.cluster[0], per_column = grid.grid[1] / grid.cluster[1];
    uint64_t origin[3] = {index % per_row, index / per_row % per_column, index / per_row / per_column};
    const auto unaligned = reinterpret_cast<uintptr_t>(m_shared.data());
    std::byte* shared = m_shared.data() + (round_to_shared(unaligned) - unaligned);
    for (uint32_t rank = 0; rank < m_shape.ctas; ++rank) {
        Cta& cta = m_ctas[rank];
        uint32_t within[3] = {rank % grid.cluster[0], rank / grid.cluster[0] % grid.cluster[1],
                              rank / grid.cluster[0] / grid.cluster[1]};
        cta = Cta{};
        for (int d = 0; d < 3; ++d) cta.id[d] = uint32_t(origin[d]) * grid.cluster[d] + within[d];
        cta.linear = cta.id[0] + uint64_t{grid.grid[0]} * (cta.id[1] + uint64_t{grid.grid[1]} * cta.id[2]);
        cta.cluster_rank = rank;
        cta.cluster_size = m_shape.ctas;
        cta.warp_count = cta.live_warps = m_shape.warps;
        cta.grid = &grid;
        cta.shared = shared + size_t{rank} * round_to_shared(m_shape.shared_bytes);
        cta.shared_bytes = m_shape.shared_bytes;
        cta.warps = &m_warps[size_t{rank} * m_shape.warps];
        m_by_rank[rank] = &cta;
        cta.cluster = m_by_rank.data();
        cta.arrived = &m_arrived[size_t{rank} * m_shape.warps * k_max_barriers];
        if (check::Checker* checker = launch.services().checker) {
            if (m_checks.size() == rank) m_checks.push_back(std::make_unique<CtaCheck>(*checker, m_shape));
            cta.check = m_checks[rank].get();
            cta.check->restart();
        }
        for (uint32_t w = 0; w < m_shape.warps; ++w) start_warp(launch, cta, rank, w);
    }
    std::fill(m_arrived.begin(), m_arrived.end(), 0u);
}

void CtaGroup::start_warp(LaunchState& launch, Cta& cta, uint32_t cta_number, uint32_t warp_number) {
    size_t number = size_t{cta_number} * m_shape.warps + warp_number;
    const Body& body = *launch.code().entry;
    Frame& frame = m_entry_frames[number];
    frame = Frame{};
    frame.regs = m_registers.data() + number * round_to_rows(m_shape.frame_bytes);
    frame.consts = body.constants_end;
    frame.body = &body;
    frame.alloca_top = body.local_bytes;
    uint32_t threads = std::min(k_warp_size, m_shape.threads - warp_number * k_warp_size);
    frame.lanes = threads == k_warp_size ? k_full_mask : (1u << threads) - 1;

    Warp& warp = m_warps[number];
    Frame* free_frames = warp.free_frames;  // kept for reuse
    warp.shared = cta.shared;
    warp.shared_bytes = m_shape.shared_bytes;
    warp.local_stride = m_shape.local_stride;
    warp.local = m_local + number * m_shape.local_stride * k_warp_size;
    warp.params = launch.params();
    warp.params_bytes = launch.params_bytes();
    warp.index = warp_number;
    for (uint32_t c = 0; c < 3; ++c)
        warp.thread_ids[c] = &m_thread_ids[(size_t{c} * m_shape.warps + warp_number) * k_warp_size];
    warp.launched = warp.live = frame.lanes;
    warp.fragment_count = 1;
    warp.current = 0;
    warp.budget = k_turn_back_edges;
    warp.spins = 0;
    warp.cta = &cta;
    warp.launch = &launch;
    warp.free_frames = free_frames;
    Fragment& fragment = warp.fragments[0];
    fragment = Fragment{};
    fragment.pc = body.code.data();
    fragment.frame = &frame;
    fragment.mask = frame.lanes;
    fragment.key = fragment_key(fragment);
}

Frame* CtaGroup::take_frame(Warp& warp, const Body& body) {
    for (Frame** link = &warp.free_frames; *link != nullptr; link = &(*link)->next_free) {
        Frame* frame = *link;
        if (frame->capacity_bytes < body.frame_bytes) continue;
        *link = frame->next_free;
        return frame;
    }
    if (m_call_bytes + body.frame_bytes > k_call_bytes_limit) return nullptr;
    auto made = std::make_unique<CallFrame>();
    made->bytes.resize(std::max<uint32_t>(body.frame_bytes, 64));
    made->frame.regs = made->bytes.data();
    made->frame.capacity_bytes = made->bytes.size();
    m_call_bytes += made->bytes.size();
    m_call_frames.push_back(std::move(made));
    return &m_call_frames.back()->frame;
}

Frame* take_frame(Warp& warp, const Body& body) {
    Frame* frame = warp.group->take_frame(warp, body);
    if (frame == nullptr) return nullptr;
    frame->consts = body.constants_end;
    frame->body = &body;
    frame->next_free = nullptr;
    return frame;
}

void return_frame(Warp& warp, Frame* frame) {
    frame->next_free = warp.free_frames;
    warp.free_frames = frame;
}

namespace {

constexpr uint32_t k_rounds_before_yield = 8;
constexpr uint32_t k_signs_of_waiting = 32;

bool can_run(const Warp& warp) {
    for (uint32_t i = 0; i < warp.fragment_count; ++i) {
        if (warp.fragments[i].wait == Wait::runnable) return true;
    }
    return false;
}

/// What one round over all warps of a group has shown.
struct Round {
    bool alive = false, ran = false, turn_over = false, waits = false, fault = false;
};

/// Gives every warp its turn: in ascending order, and after the block's first barrier in descending order, the warp that
/// completed the barrier with the others. A GPU's warps go on side by side after a barrier, and programs come to rely on it:
/// all read a result, and the first warp, which is the one that usually writes it, writes the next one without a barrier in
/// between. Being last, it writes when all have read. In a random order warps begin anywhere, and may miss their turn.
Round run_round(CtaGroup& group, Random* random) {
    Round round;
    std::vector<Warp>& warps = group.warps();
    const auto count = uint32_t(warps.size());
    const bool descending = group.has_met();
    const uint32_t first = random != nullptr ? random->below(count) : 0;
    for (uint32_t turn = 0; turn < count; ++turn) {
        const uint32_t number = first + turn < count ? first + turn : first + turn - count;
        Warp& warp = warps[descending ? count - 1 - number : number];
        if (warp.live == 0) continue;
        if (!can_run(warp)) {
            round.alive = true;
            continue;
        }
        warp.spins = 0;
        if (random != nullptr && count > 1 && random->below(3) == 0) {  // not this time
            round.alive = round.ran = round.turn_over = true;
            continue;
        }
        WarpState state = random == nullptr ? run_warp(warp) : run_warp_shuffled(warp, *random);
        if (state == WarpState::fault) {
            round.fault = true;
            return round;
        }
        round.ran = true;
        round.alive |= state != WarpState::exited;
        if (state == WarpState::released) group.note_meeting();
        round.turn_over |= state == WarpState::turn_over;
        round.waits |= warp.spins >= k_signs_of_waiting;
    }
    return round;
}

/// Fragments that asked to be run again later. True if there were any.
bool wake_polling(CtaGroup& group) {
    bool any = false;
    for (Warp& warp : group.warps()) {
        for (uint32_t i = 0; i < warp.fragment_count; ++i) {
            if (warp.fragments[i].wait != Wait::poll) continue;
            warp.fragments[i].wait = Wait::runnable;
            any = true;
        }
    }
    return any;
}

}  // namespace

namespace {

/// Whether this thread has computed with denormals, or got results that are, since it was asked last.
bool denormals_met() {
#if defined(__SSE2__)
    constexpr uint32_t k_denormal_operand = 0x02, k_underflow = 0x10;
    const uint32_t state = _mm_getcsr();
    if ((state & (k_denormal_operand | k_underflow)) == 0) return false;
    _mm_setcsr(state & ~(k_denormal_operand | k_underflow));
    return true;
#else
    return false;
#endif
}

/// Remembers it for all blocks of the kernel, now and later.
void note_denormals(const KernelCode& code, CtaGroup& group) {
    code.meets_denormals.store(true, std::memory_order_relaxed);
    for (Warp& warp : group.warps()) warp.careful = true;
}

}  // namespace

GroupState run_group(LaunchState& launch, CtaGroup& group, WorkerState& worker) {
    worker.bind(launch);
    bool careful = launch.code().meets_denormals.load(std::memory_order_relaxed);
    if (!careful) (void)denormals_met();  // of others
    for (Warp& warp : group.warps()) {
        warp.careful = careful;
        warp.worker = &worker;
        warp.group = &group;
        warp.caches = worker.caches.data();
    }
    for (uint32_t rounds = 1;; ++rounds) {
        if (launch.stopped()) return GroupState::stopped;
        if (launch.memory().refresh(worker.reader)) worker.forget_ranges();
        Round round = run_round(group, launch.random());
        if (round.fault) return GroupState::stopped;
        if (!careful && denormals_met()) {
            careful = true;
            note_denormals(launch.code(), group);
        }
        bool polling = wake_polling(group);
        if (!round.alive && !polling) return GroupState::finished;
        if (!round.ran && !polling) {
            launch.set_fault(719, launch.deadlock_text(group));
            return GroupState::stopped;
        }
        if (!round.turn_over && !polling) continue;
        launch.check_watchdog();
        // Somebody probably waits for another block: let others run. Long computations give way too, only later.
        bool waits = round.waits || polling || (launch.random() != nullptr && launch.random()->below(4) == 0);
        if (!waits && rounds < k_rounds_before_yield) continue;
        if (launch.others_wait()) return GroupState::suspended;
        rounds = 0;
        if (waits) std::this_thread::yield();
    }
}

}  // namespace warpline::softgpu::exec
