// The checkers at work in a launch. Only launches of an engine with checks have any of this; ld and st then have handlers of
// their own (isa/checked.cpp), other instructions look at Cta::check.
#pragma once

#include <memory>
#include <vector>

#include "softgpu/check/checker.h"
#include "softgpu/check/race.h"
#include "softgpu/exec/cta.h"

namespace warpline::softgpu::exec {

/// Which bytes have been written since the block began: those whose mark is the block's. No memory is touched to begin a block.
class WrittenBytes {
public:
    WrittenBytes() = default;
    explicit WrittenBytes(uint64_t size_bytes);
    void restart();
    void write(uint64_t offset, uint64_t size_bytes);
    /// True if a whole aligned word (or all of a smaller access) was never written.
    bool lacks(uint64_t offset, uint64_t size_bytes) const;

private:
    struct Free {
        void operator()(uint8_t* bytes) const { std::free(bytes); }
    };
    uint64_t m_size = 0;
    uint8_t m_mark = 0;
    std::unique_ptr<uint8_t, Free> m_marks;
};

/// What the checkers know of a block.
class CtaCheck {
public:
    CtaCheck(check::Checker& checker, const GroupShape& shape);

    /// About what the checkers of a group's blocks take of the machine's memory.
    static uint64_t bytes(const GroupShape& shape) {
        constexpr uint64_t k_per_shared_byte = 64, k_per_thread = 256;
        return shape.ctas * (shape.shared_bytes * k_per_shared_byte + shape.threads * (k_per_thread + shape.local_stride));
    }

    void restart();
    /// A barrier is complete: the lanes in `arrived` came, those in `waited` (by warp) go on now.
    void barrier(bool whole_block, std::span<const uint32_t> arrived, std::span<const uint32_t> waited);
    check::RaceDetector* race() { return m_race.get(); }
    check::Checker& checker() { return m_checker; }

    /// Looks at an access of one lane and records it. False: a fault has been raised.
    bool access(Warp& warp, const Instr& instr, uint32_t lane, const LaneAccess& access);

private:
    bool local(Warp& warp, const Instr& instr, uint32_t lane, const LaneAccess& access);
    void shared(Warp& warp, const Instr& instr, uint32_t lane, const LaneAccess& access, CtaCheck& owner, uint32_t offset);
    void global(Warp& warp, const Instr& instr, uint32_t lane, const LaneAccess& access);
    void race(Warp& warp, const Instr& instr, uint32_t lane, const LaneAccess& access, uint32_t offset);
    void report_unwritten(Warp& warp, const Instr& instr, uint32_t lane, const char* space, uint32_t bytes,
                          const std::string& where);

    check::Checker& m_checker;
    WrittenBytes m_shared_written, m_local_written;
    std::unique_ptr<check::RaceDetector> m_race;
    std::shared_ptr<check::WrittenBlock> m_block;  ///< where the last access to global memory was
    uint64_t m_block_generation = 0;
};

/// Reports a wrong address (700 or 716) of `lane`, if memory is checked.
void report_fault(Warp& warp, const Instr& instr, int cu_result, uint32_t lane, const char* what, uint64_t address);

}  // namespace warpline::softgpu::exec
