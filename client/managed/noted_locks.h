// What is known of the program's locks in shared memory, beyond what the C library keeps in them.
#pragma once

#include <time.h>

#include <cstdint>
#include <optional>

namespace warpline::client::noted_locks {

struct Noted {
    bool is_of_processes = false;
    clockid_t clock = CLOCK_REALTIME;  ///< of conditions: what times are told by
    unsigned count = 0;                ///< of barriers: how many have to arrive
};
/// What the program has made there last. Nothing where the lock is the program's own alone. @thread any
void note(const void* lock, const Noted& noted);
/// What has not been noted is as it is without attributes. @thread any
Noted of(const void* lock);

struct Arrival {
    uint64_t round = 0;
    bool is_last = false;
};
/// @returns nothing where it is no barrier that was noted, or one of processes @thread any
std::optional<Arrival> arrive(const void* barrier);
/// True as well where it is another barrier by now. @thread any
bool have_all_arrived(const void* barrier, const Arrival& arrival);

}  // namespace warpline::client::noted_locks
