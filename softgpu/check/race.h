// The check for data races between threads of a launch.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "softgpu/check/report.h"

namespace warpline::softgpu::check {

/// How an access takes part in races. Two strong accesses (volatile, relaxed, acquire, release, atomic) never race.
enum class Strength : uint8_t { none, plain, strong };

/// Finds accesses of a block's threads to its shared memory that nothing orders: the happens-before relation, kept exactly
/// between the lanes of a warp, and warp by warp between warps (what one thread passes on by an atomic counts for its warp).
/// Barriers, bar.warp.sync, mbarriers and strong accesses to the same address order.
class RaceDetector {
public:
    RaceDetector(uint32_t shared_bytes, uint32_t threads);

    /// All that was before is before all that comes: a barrier of the whole block; a new block.
    void order_all();
    /// A barrier of some threads: those that arrived are before what those do that waited. Masks by warp.
    void order_some(std::span<const uint32_t> arrived, std::span<const uint32_t> waited);
    /// bar.warp.sync.
    void order_warp(uint32_t warp, uint32_t members);
    /// What threads released at an address before is before what this thread does from now on.
    void acquire(uint32_t thread, uint64_t address);
    void release(uint32_t thread, uint64_t address);

    struct Conflict {
        Finding finding = Finding::read_after_write;
        const Site* site = nullptr;  ///< of the earlier access
        uint32_t thread = 0;         ///< of the earlier access
        uint32_t offset = 0;
    };
    /// True if an earlier access conflicts. Records the access.
    bool access(uint32_t thread, uint32_t offset, uint32_t size_bytes, bool writes, Strength strength, const Site* site,
                Conflict& conflict);

private:
    static constexpr uint32_t k_lanes = 32;
    static constexpr uint32_t k_word = 4;
    static constexpr size_t k_most_addresses = 4096;
    using Clocks = std::array<uint32_t, k_lanes>;

    struct Access {
        const Site* site = nullptr;
        uint32_t clock = 0;  ///< of the warp, when it happened
        uint16_t thread = 0;
        Strength strength = Strength::none;
    };
    /// The last write; of the reads since then the last, the last of another thread of that warp, and that of another warp.
    struct Cell {
        Access write, reads[3];
    };
    /// What is before anything that a thread does now: by lane of its own warp, by warp of the others.
    struct View {
        Clocks lanes{}, warps{};
    };

    bool is_before(const Access& earlier, uint32_t thread) const;
    bool conflicts(const Access& earlier, uint32_t thread, Strength strength) const;
    bool access_cell(Cell& cell, uint32_t thread, bool writes, Strength strength, const Site* site, Conflict& conflict);
    uint32_t cells_of(uint32_t word, uint32_t size_bytes);
    Clocks& clocks_at(uint64_t address);

    const uint32_t m_threads;
    std::vector<Cell> m_cells;   ///< one per byte; of a word that was only accessed whole, the first counts
    std::vector<bool> m_split;   ///< by word: accessed in pieces
    std::vector<View> m_views;   ///< by thread
    Clocks m_clock{}, m_base{};  ///< by warp: now; when all was ordered last
    std::unordered_map<uint64_t, Clocks> m_released;
    bool m_one_address = false;  ///< too many addresses: all count as one
};

}  // namespace warpline::softgpu::check
