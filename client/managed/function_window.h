// How much comes with an access of a function that a stream has called.
#pragma once

#include <cstdint>
#include <map>

#include "client/managed/page_region.h"

namespace warpline::client {

/// What a function of the program's has had so far, and what its next access brings. Other streams may be busy, so that what it
/// has is given back after some milliseconds: it gets more with each access that goes on where the last one ended, and less
/// where that had been given back before the function came to it. Not thread-safe.
class FunctionWindow {
public:
    static constexpr uint64_t k_first = 64ull << 10, k_last = 4ull << 20;

    struct Choice {
        AddressRange what;  ///< whole units, but for the end of the region
        uint64_t window_bytes = k_first;
    };
    /// Of another function than the last one nothing is known.
    void begin(uint64_t function);
    /// True if something of the region has come already.
    bool has_come_to(AddressRange region) const { return find(region.base) != nullptr; }
    /// What an access brings. @param region  where the address is @param unit_bytes  its units' size
    Choice choose(AddressRange region, uint64_t unit_bytes, uint64_t address) const;
    /// It has come. @param steady  false: but for one page, as the device goes on writing there
    void note(AddressRange region, const Choice& brought, bool steady);

private:
    struct Known {
        Choice brought;  ///< by the last access
        bool steady = true;
    };
    const Known* find(uint64_t region) const;
    uint64_t window_at(AddressRange region, uint64_t address) const;

    uint64_t m_function = 0;
    std::map<uint64_t, Known> m_known;  // by the address of the region
    uint64_t m_last = 0;                // the region that it came to last
};

}  // namespace warpline::client
