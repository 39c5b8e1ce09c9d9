#pragma once

// Page-locked memory of the worker's, for copies on their way.

#include <cstddef>
#include <cstdint>
#include <map>
#include <thread>
#include <vector>

#include "common/base/mutex.h"
#include "protocol/codec/place.h"
#include "server/driver/driver.h"

namespace warpline::server {

/// What a driver copies out of pageable memory before cuMemcpyHtoDAsync returns (CUDA Driver API, API synchronization behavior:
/// "64 KB or less"): less than that need not be staged.
inline constexpr uint64_t k_copied_at_once_bytes = 64 * 1024;

/// Memory that the device copies from and to without waiting. It is taken in slabs that are kept, because drivers page-lock and
/// unlock only while the device is idle; the next slab is made ahead of need by a thread of its own, so that a call hardly ever
/// waits for one. The memory is ours and registered with the driver: the end of the context that it was registered in makes it
/// slower, and not a trap.
///
/// @thread  any
class StagingMemory final : public protocol::PlaceOwner {
public:
    enum class FirstSlab : uint8_t {
        in_prepare,
        when_wanted,  ///< made when somebody would have had memory from it
    };
    StagingMemory(const Driver& driver, uint64_t most_bytes, FirstSlab first = FirstSlab::in_prepare)
        : m_driver(driver), m_most_bytes(most_bytes), m_first(first) {}
    ~StagingMemory();
    StagingMemory(const StagingMemory&) = delete;
    StagingMemory& operator=(const StagingMemory&) = delete;

    /// Slabs lie in this memory as long as it has room. Before the first one. @param memory  outlives this
    void use_first(MutableBytesView memory) WL_EXCLUDES(m_mutex);

    /// Page-locks memory that is lent by nobody here, as soon as there is a context, and by a thread of its own. Once.
    /// @param memory  outlives this
    void lock_also(MutableBytesView memory) WL_EXCLUDES(m_mutex);

    /// The first slab, while the device has nothing to do yet; and page-locks again what a context has taken with it. A context
    /// must be current.
    void prepare() WL_EXCLUDES(m_mutex);

    /// Memory of this size, if there is some without waiting.
    std::byte* try_take(uint64_t bytes) WL_EXCLUDES(m_mutex);
    /// Has a slab made in which this would fit; room is found by try_take() once `generation()` has changed. False: no more
    /// memory may be taken, or can. A context must be current.
    bool grow(uint64_t bytes) WL_EXCLUDES(m_mutex);
    void give(std::byte* data) WL_EXCLUDES(m_mutex);
    /// Pieces that have not been given back.
    size_t taken() const WL_EXCLUDES(m_mutex);

    /// Memory to receive a payload into; none if there is none without waiting: then more is made for the next time.
    protocol::Place place(uint64_t bytes) WL_EXCLUDES(m_mutex);
    void give_back(std::byte* data) override { give(data); }

    /// Waits until memory was given back, or a slab made, since `seen`.
    uint64_t generation() const WL_EXCLUDES(m_mutex);
    void wait_change(uint64_t seen) WL_EXCLUDES(m_mutex);

    /// The context has gone, and with it what was registered in it.
    void context_ended(CUcontext context) WL_EXCLUDES(m_mutex);
    void close() WL_EXCLUDES(m_mutex);

private:
    struct Slab {
        std::byte* data = nullptr;
        uint64_t bytes = 0;
        CUcontext registered_in = nullptr;
        bool is_ours = true;
        bool is_in_hand = false;  ///< somebody page-locks it at the moment
    };
    Slab take_memory(uint64_t bytes) WL_EXCLUDES(m_mutex);
    bool lock_pages(void* data, uint64_t bytes) const;
    bool make_slab(uint64_t bytes, CUcontext context) WL_EXCLUDES(m_mutex);
    bool ask_for_slab(uint64_t bytes) WL_REQUIRES(m_mutex);
    void grower_main();
    void lock_added(MutexLock& lock) WL_NO_THREAD_SAFETY_ANALYSIS;
    void lock_in_hand(const Slab& slab, CUcontext context) WL_EXCLUDES(m_mutex);

    const Driver& m_driver;
    const uint64_t m_most_bytes;
    const FirstSlab m_first;
    mutable Mutex m_mutex;  // never held while the driver is called
    ConditionVariable m_changed;
    ConditionVariable m_growth;  // the grower's, whom pieces that are given back do not concern
    std::vector<Slab> m_slabs WL_GUARDED_BY(m_mutex);
    std::map<std::byte*, uint64_t> m_free WL_GUARDED_BY(m_mutex);  // by address, joined with neighbours of the same slab
    std::map<std::byte*, uint64_t> m_taken WL_GUARDED_BY(m_mutex);
    BytesView m_first_memory WL_GUARDED_BY(m_mutex);  // use_first()
    MutableBytesView m_given WL_GUARDED_BY(m_mutex);  // what is left of it
    uint64_t m_free_bytes WL_GUARDED_BY(m_mutex) = 0;
    uint64_t m_slab_bytes WL_GUARDED_BY(m_mutex) = 0;  // made and being made
    uint64_t m_generation WL_GUARDED_BY(m_mutex) = 0;
    uint64_t m_wanted_bytes WL_GUARDED_BY(m_mutex) = 0;  // the slab that is to be made next; 0: none
    bool m_has_to_lock WL_GUARDED_BY(m_mutex) = false;   // the slab that lock_also() has added
    CUcontext m_context WL_GUARDED_BY(m_mutex) = nullptr;
    bool m_failed WL_GUARDED_BY(m_mutex) = false;  // this machine has no more
    bool m_closed WL_GUARDED_BY(m_mutex) = false;
    std::thread m_grower WL_GUARDED_BY(m_mutex);
};

}  // namespace warpline::server
