// All memory of the process that program and device share by address.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "client/managed/given_work.h"
#include "client/managed/mirrored_range.h"
#include "client/managed/page_region.h"
#include "common/base/mutex.h"

namespace warpline::client {

/// What cuStreamAttachMemAsync has said of memory that has pages of its own.
struct Attachment {
    AddressRange range;      ///< whole units
    uint64_t stream = 0;     ///< token of the stream whose work alone matters to the memory, while it lives; 0: of all
    bool host_only = false;  ///< no kernel uses it
    uint64_t given = 1;      ///< grows with the work of that stream, or on that memory
    uint64_t done = 0;       ///< of that, what is known to be done
};

/// A region with what calls have said of it.
struct SharedRegion {
    std::shared_ptr<PageRegion> region;
    uint64_t context = 0;     ///< token of the context whose device has its copy
    bool host_only = false;   ///< where nothing else is said: no kernel uses it (CU_MEM_ATTACH_HOST)
    bool was_copied = false;  ///< since an event was recorded whose end is told: probably behind that copy
    /// What came without an access is not looked at again and again: until then it stays, though the device may be writing.
    std::chrono::steady_clock::time_point stays_until{};
    AddressRange wanted_here;          ///< was prefetched to the host: comes whole with the first access
    std::vector<Attachment> attached;  ///< by address

    /// @param with  null: what was said of the range holds no more
    void attach(AddressRange range, const Attachment* with);
    /// What is said of the memory there. Null: nothing
    Attachment* attachment_at(uint64_t address);
    /// Work of this stream names what is there: where something else was said, that holds no more. With devices and programs
    /// that may use managed memory at the same time it would not matter, and programs are written for those.
    /// @param stream  its token; nothing: not known yet, as that of a graph's nodes
    void let_work_use(AddressRange range, std::optional<uint64_t> stream);
};

/// A function of the program's that a stream has called: the last one, as one at a time runs.
struct StreamFunction {
    uint64_t number = 0;             ///< how many there have been
    uint64_t context = 0;            ///< of its stream
    std::optional<uint64_t> stream;  ///< token; nothing: it is a graph's, other nodes of which may run meanwhile
    bool runs = false;
    bool had_company = false;  ///< something was fetched meanwhile beside other streams' work
};

/// The regions, by address. Made with the first of them and never destroyed, like the session.
///
/// The lock is held while what is written back is *queued*, so that whoever fetches afterwards is behind it; never while a
/// reply is waited for.
class SharedPages {
public:
    static SharedPages& instance();
    /// False as long as the program has no such memory: all that other programs pay.
    static bool in_use() { return s_in_use.load(std::memory_order_relaxed); }
    /// There is going to be some (start_pager()). @returns true the first time
    static bool note_in_use() { return !s_in_use.exchange(true, std::memory_order_relaxed); }
    /// False as long as nothing was attached to the host, or to a stream.
    static bool any_attached() { return s_any_attached.load(std::memory_order_relaxed); }
    /// Something is from now on.
    static void note_attached() { s_any_attached.store(true, std::memory_order_relaxed); }

    Mutex mutex;
    std::map<uint64_t, SharedRegion> regions WL_GUARDED_BY(mutex);
    std::map<uint64_t, std::shared_ptr<MirroredRange>> mirrored WL_GUARDED_BY(mutex);  // by the program's address
    /// When a wait has last brought what the device had of all that.
    std::optional<std::chrono::steady_clock::time_point> mirrored_seen WL_GUARDED_BY(mutex);
    /// Tokens of contexts that were given work since the memory was theirs.
    std::vector<uint64_t> busy_contexts WL_GUARDED_BY(mutex);
    /// Calls that have been given pages and are not queued yet: until they are, the device may not be taken to rest.
    unsigned launching WL_GUARDED_BY(mutex) = 0;
    /// How much the next access brings along; grows with each, until the memory is handed over again.
    uint64_t window_bytes WL_GUARDED_BY(mutex) = k_first_window;
    static constexpr std::chrono::milliseconds k_stay{20};
    StreamFunction function WL_GUARDED_BY(mutex);
    GivenWork given WL_GUARDED_BY(mutex);
    uint64_t settled_news WL_GUARDED_BY(mutex) = 0;  ///< Session::news() when the program was last told that something is done
    static constexpr uint64_t k_first_window = 64ull << 10, k_last_window = 4ull << 20;

    SharedRegion* find(uint64_t address) WL_REQUIRES(mutex);
    /// Accesses to this range are looked after from now on.
    void expect(AddressRange range) WL_REQUIRES(mutex);
    SharedRegion& add(std::shared_ptr<PageRegion> region, uint64_t context) WL_REQUIRES(mutex);
    /// Its addresses can be used for other memory from now on, though somebody may be fetching its pages in this moment.
    void remove(uint64_t base) WL_REQUIRES(mutex);
    /// True if the address is in a region. @thread any
    bool contains(uint64_t address) WL_EXCLUDES(mutex) {
        MutexLock lock(mutex);
        return find(address) != nullptr;
    }
    void note_busy(uint64_t context) WL_REQUIRES(mutex);

    struct Counters {
        std::atomic<uint64_t> faults{0};   ///< accesses that found no page, or one to read only
        std::atomic<uint64_t> fetches{0};  ///< of those, what the server was asked for
        std::atomic<uint64_t> late{0};     ///< of those, what had been here, and was given back because of the time
        std::atomic<uint64_t> fetched_bytes{0};
        std::atomic<uint64_t> written_back_bytes{0};
        std::atomic<uint64_t> hand_overs{0};  ///< how often the device was given pages that were in use here
    } counters;

private:
    static inline std::atomic<bool> s_in_use{false}, s_any_attached{false};
};

/// True if the memory at this address belongs to both sides: the device is to copy it, and not the client.
inline bool is_shared_memory(uint64_t address) { return SharedPages::in_use() && SharedPages::instance().contains(address); }

}  // namespace warpline::client
