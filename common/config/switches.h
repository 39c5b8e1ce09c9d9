// Optimisations that can be left out.
#pragma once

#include <bitset>
#include <cstdint>
#include <string>

#include "common/config/settings.h"

namespace warpline::config {

enum class Optimisation : uint8_t {
    aes,          ///< encryption by the processor's widest instructions
    batching,     ///< calls that nobody waits for leave together
    cache,        ///< what the server has had before is named, not sent
    compact,      ///< calls that are like earlier ones travel as what is different
    compression,  ///< what gets there sooner for it is compressed
    congestion,   ///< BBR, where the kernel has it, to peers far away
    lanes,        ///< connections for large copies
    parts,        ///< how large parts of long payloads are follows the link
    polling,      ///< questions whether work is done are answered without asking the server each time
    prefetch,     ///< what will probably be asked next is asked along
    reading,      ///< a thread that waits reads what it waits for itself
    shm,          ///< large copies lie in memory that client and server share, where both are on one machine
    spin,         ///< it looks for that before it sleeps
    turns,        ///< of many sessions on few processors, some at a time are served
};
inline constexpr size_t k_optimisation_count = 14;

/// Which of them are used: all, but for those that the option `disable` names. So a difference in what a program does, or how
/// fast, can be pinned to one of them.
class Switches {
public:
    /// All of them.
    Switches() = default;
    /// @param problem  gets a sentence for the user if the option has words that name none; they are ignored
    Switches(const Settings& settings, std::string& problem);

    bool uses(Optimisation optimisation) const { return !m_left_out[static_cast<size_t>(optimisation)]; }

private:
    std::bitset<k_optimisation_count> m_left_out;
};

}  // namespace warpline::config
