// Which memory the program comes to after which.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

namespace warpline::client {

/// Regions in the order in which a program touches them, learnt from one time to the next. Not thread-safe.
class Succession {
public:
    /// The program has come to an address of the region. @param is_neighbour  the region follows the last one by its addresses
    void came_to(uint64_t region, uint64_t address, bool is_neighbour);
    /// The region that it came to last; 0: there is none.
    uint64_t last() const { return m_last; }
    /// Where it came to after this region, as often as not.
    std::optional<uint64_t> next(uint64_t region) const;
    /// True if it has been going from neighbour to neighbour.
    bool goes_on() const { return m_run >= k_run; }

private:
    struct Successor {
        uint64_t region = 0, address = 0;
        int trust = 0;
    };
    static constexpr int k_most_trust = 4;
    static constexpr unsigned k_run = 2;
    static constexpr size_t k_most_known = 4096;

    std::map<uint64_t, Successor> m_successors;
    uint64_t m_last = 0;
    unsigned m_run = 0;
};

}  // namespace warpline::client
