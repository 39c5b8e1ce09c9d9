// Memory that the program and the device use at the same address, page by page.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "common/base/bytes.h"

namespace warpline::client {

/// A range of addresses.
struct AddressRange {
    uint64_t base = 0;
    uint64_t size_bytes = 0;
    uint64_t end() const { return base + size_bytes; }
};

inline bool meet(AddressRange a, AddressRange b) { return a.base < b.end() && b.base < a.end(); }
/// Both, and what lies between them.
inline AddressRange hull(AddressRange a, AddressRange b) {
    const uint64_t base = std::min(a.base, b.base);
    return {base, std::max(a.end(), b.end()) - base};
}

/// Who may write while the other side does.
enum class Sharing : uint8_t {
    in_turns,    ///< managed memory: the program's while the device rests, the device's while a kernel runs
    concurrent,  ///< page-locked memory: both at any time, so that only the bytes that the program has changed are written back
};

/// A range of addresses with memory of this process behind it, of which each unit (a page, or a few) is valid here, on the
/// device, or on both. The program sees it at its own address, with the access that the state of each unit allows; the library
/// uses a second mapping of the same memory, which is always readable and writable. Not thread-safe: the owner locks.
/// docs/host-memory.md.
class PageRegion {
public:
    struct Options {
        Sharing sharing = Sharing::in_turns;
        bool adopts = false;     ///< there is memory at these addresses already: its content is kept
        bool valid_here = true;  ///< what is there at first; else the device has it
    };
    /// Puts memory behind addresses that are reserved in this process. Null: there is no memory, or not at this address.
    static std::shared_ptr<PageRegion> make(AddressRange range, const Options& options);
    ~PageRegion();
    PageRegion(const PageRegion&) = delete;
    PageRegion& operator=(const PageRegion&) = delete;

    /// The addresses are reserved again, without memory: whoever still knows the region changes nothing there any more.
    void withdraw();
    bool is_withdrawn() const { return m_withdrawn; }

    const AddressRange& range() const { return m_range; }
    uint64_t unit_bytes() const { return m_unit_bytes; }
    Sharing sharing() const { return m_sharing; }
    /// True if a forked child has it, too: natively page-locked memory is one and the same for parent and child.
    bool is_inherited() const { return m_inherited; }
    static constexpr char k_file_name[] = "warpline-memory";
    /// The second mapping of an address in the range.
    std::byte* at(uint64_t address) const { return m_alias + (address - m_range.base); }
    /// Grows with each hand-over: what was fetched before one is out of date after it.
    uint64_t epoch() const { return m_epoch; }

    /// Only these bytes are the device's, where anything has been added: the rest of the pages is nobody's.
    void add_extent(AddressRange extent);
    void remove_extent(uint64_t base);

    bool is_valid_here(uint64_t address) const { return (state(address) & k_valid) != 0; }
    bool is_writable_here(uint64_t address) const { return (state(address) & k_dirty) != 0; }
    /// True if all of it can be read (or written) without an access that is not answered yet.
    bool is_in_place(AddressRange what, bool writable) const;
    /// True if what the device has there is complete only when it has done what it was given before the hand-over.
    bool must_wait(AddressRange what) const;
    void outdate() { ++m_epoch; }
    bool any_valid_here() const { return m_valid_units != 0; }

    /// Gives units to the device: the program can reach them no more. @returns what has to be written there
    /// @param in_order  what it is given for ends soon (a copy, a fill): an access waits for it, whoever may write
    std::vector<AddressRange> hand_over(AddressRange what, bool in_order = false);
    /// What the program has changed is to be written to the device, and both have it then. @returns what has to be written
    std::vector<AddressRange> write_back(AddressRange what);

    /// The units of these that are not valid here.
    std::vector<AddressRange> not_here(AddressRange what) const;
    /// The bytes in these units that are not valid here and that the device has.
    std::vector<AddressRange> missing(AddressRange what) const;
    /// Units have been fetched, and can be read. False: the process has no room for another change of access (max_map_count).
    bool fetched(AddressRange what, bool while_busy);
    /// What is not valid here is being read into the second mapping.
    void begin_fetch() {
        ++m_fetching;
        ++m_arrivals;
        forget_seen();
    }
    void end_fetch() { --m_fetching; }
    bool is_being_fetched() const { return m_fetching != 0; }
    /// Units have been fetched that nobody has come to yet: the program gets them when it does, unless the device has been
    /// given something meanwhile.
    void hold(AddressRange what);
    bool is_held(uint64_t address) const { return m_held_epoch == m_epoch && address - m_held.base < m_held.size_bytes; }
    bool holds_any() const { return m_held_epoch == m_epoch && m_held.size_bytes != 0; }
    void take_held(uint64_t address);
    /// Units that are valid here can be written, too. False: as above
    bool make_writable(AddressRange what);
    /// The program has come to this address itself.
    void note_used(uint64_t address);
    void note_access(uint64_t address) {
        m_came_to = address;
        note_used(address);
    }
    /// From now on both sides write at the same time.
    void share() { m_sharing = Sharing::concurrent; }
    /// Units that were fetched while the device may have been writing are given back to it. @returns as hand_over()
    /// @param in_time  only because they have been here for long enough: who comes to them again is late
    std::vector<AddressRange> refresh(bool in_time) { return give_back(m_range, in_time); }
    std::vector<AddressRange> give_back(AddressRange what, bool in_time = false);
    bool is_late(uint64_t address) const { return (state(address) & k_late) != 0; }
    /// Of such units some stay, which the program can only read then: from where it came last on.
    /// @param kept  what the device has of those is added, in pieces @returns as hand_over()
    std::vector<AddressRange> keep_beside(uint64_t most_bytes, std::vector<AddressRange>& kept);
    bool has_busy_units() const { return m_busy_units != 0; }
    /// Nothing writes there but the program, until it is said that something does: what lies between two of its changes is the
    /// same on both sides, also where both may write at any time.
    void note_still(bool still) { m_still = still; }

    /// How much is fetched of what the program will probably use again.
    struct Room {
        uint64_t lately_bytes = 64ull << 10;  ///< of what it has used after one of the last times that it was fetched so
        uint64_t before_bytes = 8ull << 10;   ///< of what it has used before that
    };
    /// True if there are units that the program has used before and does not have now.
    bool misses_used() const;
    /// The same of what it has used after one of the last times that it was fetched so. What it has used only before that comes
    /// along where there is room, and is worth no question of its own.
    bool misses_lately_used() const;
    /// Units that the program has used before and does not have now, as far as there is room. Each time that they are named
    /// counts against them until the program uses them.
    std::vector<AddressRange> used_before(Room& room) { return used_before(room, k_valid, 0); }
    /// The same, for bytes that come along with a wait.
    /// @param here_too  also what the program has now, and will not when the bytes come, as far as is to be foreseen
    std::vector<AddressRange> asked_along(Room& room, bool here_too, uint64_t& ask);
    /// What the device has of units, in order.
    std::vector<AddressRange> bytes_of(AddressRange units) const;
    /// The bytes that were asked for with asked_along() and bytes_of(): what the program does not have now, it has then, and
    /// what it has changed since the question stays as it has changed it. False: as fetched()
    bool arrived(AddressRange units, BytesView bytes, uint64_t ask, bool while_busy);
    /// Grows each time that something is fetched: what was asked for before, and has not arrived, is out of date.
    uint64_t arrivals() const { return m_arrivals; }
    /// Something was heard of the device: the program may see more than it has.
    void forget_seen();
    /// What the program had when it was given to the device, and has heard nothing of since, it has again: where both sides
    /// write at any time it need not see more. False: as fetched()
    bool see_again();
    bool has_seen_units() const { return m_seen_units != 0; }
    /// Units that were fetched for that can be written as well; what is not changed is not written back. False: as fetched()
    bool recalled(AddressRange what);

    /// The whole pages that a range meets.
    AddressRange pages_of(AddressRange what) const;
    /// The whole units that a range meets.
    AddressRange units_of(AddressRange what) const;

private:
    enum : uint8_t {
        k_valid = 1,   ///< what is here is what the program shall see
        k_dirty = 2,   ///< the program may have changed it
        k_wait = 4,    ///< the device may still be writing what it shall see
        k_busy = 8,    ///< fetched while the device may have been writing
        k_seen = 64,   ///< the device's, and what is here is what the program has seen, and may go on to see
        k_late = 128,  ///< the device's again, as it had been here for long enough
        k_used = 32,   ///< the program has written to it, or looked at it first
        k_fresh = 16   ///< never handed over: what was never touched has no value
    };
    PageRegion(AddressRange range, const Options& options);
    bool map(bool adopts);
    void adopt();
    uint8_t state(uint64_t address) const { return m_states[(address - m_range.base) / m_unit_bytes]; }
    size_t index_of(uint64_t address) const { return (address - m_range.base) / m_unit_bytes; }
    uint64_t address_of(size_t unit) const { return m_range.base + unit * m_unit_bytes; }
    void set(size_t unit, uint8_t state);
    bool protect(size_t first, size_t last, int protection);
    std::vector<AddressRange> hand_over_units(size_t first, size_t last, uint8_t after);
    /// What of dirty units differs from what the device has, or may.
    void changes(size_t first, size_t last, std::vector<AddressRange>& out) const;
    void touched_bytes(uint64_t begin, uint64_t end, std::vector<AddressRange>& out) const;
    void differing_bytes(uint64_t begin, uint64_t end, std::vector<AddressRange>& out) const;
    void within_extents(uint64_t begin, uint64_t end, std::vector<AddressRange>& out) const;
    template <typename Predicate, typename Visit>
    void for_runs(size_t first, size_t last, Predicate predicate, Visit visit) const;
    std::vector<AddressRange> used_before(Room& room, uint8_t not_these, uint8_t but_these);
    void note_changed(size_t unit);
    bool file_is_ours() const;

    AddressRange m_range;
    uint64_t m_unit_bytes = 0;
    Sharing m_sharing;
    bool m_inherited;
    int m_file = -1;
    uint64_t m_inode = 0;
    bool m_withdrawn = false;
    bool m_still = false;
    std::byte* m_alias = nullptr;
    std::byte* m_twins = nullptr;  ///< of units that are dirty and not fresh: what the device has
    std::vector<uint8_t> m_states;
    std::vector<std::pair<uint64_t, uint64_t>> m_extents;  // begin and end, sorted
    bool m_has_extents = false;                            // no more than these are anybody's, also when all have gone
    size_t m_valid_units = 0;
    size_t m_busy_units = 0;
    size_t m_used_units = 0;
    size_t m_seen_units = 0;
    std::vector<uint8_t> m_chances;   ///< of used units: how often they may still be fetched without having been used; or empty
    std::vector<uint32_t> m_changed;  ///< the number of questions when the unit was last handed over changed; or empty
    std::vector<uint32_t> m_away;     ///< the last question that was asked when the device had the unit; as long as m_changed
    uint32_t m_asks = 0;              ///< questions that asked_along() was called for
    uint64_t m_arrivals = 0;
    uint64_t m_came_to = 0;  ///< the address of the last access that found no page, or one to read only
    unsigned m_fetching = 0;
    AddressRange m_held;
    uint64_t m_held_epoch = 0;
    uint64_t m_epoch = 0;
};

template <typename Predicate, typename Visit>
void PageRegion::for_runs(size_t first, size_t last, Predicate predicate, Visit visit) const {
    for (size_t unit = first; unit < last;) {
        size_t end = unit;
        while (end < last && predicate(m_states[end])) ++end;
        if (end > unit) visit(unit, end);
        unit = std::max(end, unit + 1);
    }
}

}  // namespace warpline::client
