// A table by address, of what is not as it is by default.
#include "client/managed/noted_locks.h"

#include <atomic>
#include <unordered_map>

#include "client/managed/held_signals.h"
#include "client/managed/shared_buffers.h"
#include "common/base/mutex.h"

namespace warpline::client::noted_locks {

namespace {

struct Entry {
    Noted noted;
    unsigned arrived = 0;
    uint64_t round = 0;
};

struct Table {
    Mutex mutex;
    std::unordered_map<const void*, Entry> entries WL_GUARDED_BY(mutex);
    uint64_t rounds WL_GUARDED_BY(mutex) = 0;  // of all barriers, so that none is like one before it
    std::atomic<bool> is_empty{true};
};
/// Never destroyed: threads may wait to the very end.
Table& table() {
    static Table& one = *new Table;
    return one;
}

}  // namespace

void note(const void* lock, const Noted& noted) {
    if (!shared_buffers::may_be_shared(lock)) return;
    const bool is_default = !noted.is_of_processes && noted.clock == CLOCK_REALTIME && noted.count == 0;
    Table& all = table();
    if (is_default && all.is_empty.load(std::memory_order_acquire)) return;
    const held_signals::Hold hold;
    MutexLock held(all.mutex);
    if (is_default)
        all.entries.erase(lock);
    else
        all.entries[lock] = {noted, 0, ++all.rounds};
    all.is_empty.store(all.entries.empty(), std::memory_order_release);
}

Noted of(const void* lock) {
    Table& all = table();
    if (all.is_empty.load(std::memory_order_acquire)) return {};
    const held_signals::Hold hold;
    MutexLock held(all.mutex);
    const auto found = all.entries.find(lock);
    return found != all.entries.end() ? found->second.noted : Noted{};
}

std::optional<Arrival> arrive(const void* barrier) {
    Table& all = table();
    const held_signals::Hold hold;
    MutexLock held(all.mutex);
    const auto found = all.entries.find(barrier);
    if (found == all.entries.end() || found->second.noted.is_of_processes || found->second.noted.count == 0) return {};
    Entry& entry = found->second;
    const Arrival arrival{entry.round, ++entry.arrived == entry.noted.count};
    if (!arrival.is_last) return arrival;
    entry.arrived = 0;
    entry.round = ++all.rounds;
    return arrival;
}

bool have_all_arrived(const void* barrier, const Arrival& arrival) {
    Table& all = table();
    const held_signals::Hold hold;
    MutexLock held(all.mutex);
    const auto found = all.entries.find(barrier);
    return found == all.entries.end() || found->second.round != arrival.round;
}

}  // namespace warpline::client::noted_locks
