#pragma once

// Device memory that the client has freed, until nothing uses it any more.

#include <cstdint>
#include <map>
#include <set>
#include <thread>
#include <vector>

#include "common/base/function_ref.h"
#include "common/base/mutex.h"
#include "server/driver/driver.h"
#include "server/objects/device_memory.h"
#include "server/objects/stream_watch.h"

namespace warpline::server {

class HandleTable;
class Streams;

/// CUDA's free waits until the device has done with the memory. Here nobody waits: the streams of the context are watched, the
/// client keeps the addresses to itself until it is told that a free is over (`freedThrough` of replies), and blocks are
/// unmapped by a thread of ours. A stream that is being captured cannot be watched; a free waits for the end of the capture,
/// and so does unmapping, which synchronises in some drivers and would break it.
class FreedMemory {
public:
    FreedMemory(const Driver& driver, DeviceMemory& memory, StreamWatch& watch, HandleTable& handles, Streams& streams)
        : m_driver(driver), m_memory(memory), m_watch(watch), m_handles(handles), m_streams(streams) {}
    ~FreedMemory();

    /// The client has freed something in this context, which must be current. @blocks no @thread executor, in order
    void add(uint64_t call, uint64_t context) WL_EXCLUDES(m_mutex) { add(call, context, 0, 0); }
    /// The same for whole blocks, which are to be unmapped then. Memory at the driver's own addresses is freed at once, where
    /// the device rests: the driver's free waits for all that runs by then, and no call comes by it, so later it could wait for
    /// a kernel that waits for one of them. @errors CUDA_ERROR_INVALID_VALUE (not the client's blocks)
    CUresult unmap(uint64_t call, uint64_t context, uint64_t address, uint64_t bytes) WL_EXCLUDES(m_mutex);

    // Captures; all @thread executor, in order.
    /// Before one begins. @blocks while a block is being unmapped
    void capture_begins(CUstream stream) WL_EXCLUDES(m_mutex);
    void capture_ended(CUstream stream) WL_EXCLUDES(m_mutex);
    /// Some stream is being captured.
    bool any_capture() const WL_EXCLUDES(m_mutex);
    /// Waits for the streams of a context that are not being captured, without the driver's own wait, which would break
    /// captures.
    /// @param before_waiting  gives the order free
    /// @param whole           set: none is being captured
    /// @blocks until they have done what they were given
    CUresult wait_beside_captures(uint64_t context, FunctionRef<void()> before_waiting, bool& whole) WL_EXCLUDES(m_mutex);
    /// Before a stream is destroyed: what it was given is still watched.
    void stream_ends(CUstream stream) WL_EXCLUDES(m_mutex) { capture_ended(stream); }
    /// A context has gone, and with it everything that ran in it.
    void context_ended(uint64_t context) WL_EXCLUDES(m_mutex);

    /// Every free up to this call is over.
    uint64_t through() const WL_EXCLUDES(m_mutex);
    /// Waits for what was freed before this call, as far as no capture holds it up. False if there was nothing to wait for.
    /// @blocks until the device has done with it: give the order free first
    bool wait_before(uint64_t call) WL_EXCLUDES(m_mutex);
    bool any_before(uint64_t call) const WL_EXCLUDES(m_mutex);
    /// Allocates, and if memory runs out waits for earlier frees, as CUDA's free would have, and allocates again.
    /// @param allocate        told whether it will be asked again, and says nothing of a refusal then
    /// @param before_waiting  gives the order free @blocks as wait_before()
    CUresult allocate_behind(uint64_t call, FunctionRef<CUresult(MemoryLedger::Refusal)> allocate,
                             FunctionRef<void()> before_waiting) WL_EXCLUDES(m_mutex);

    /// Somebody reads memory beside the order: nothing that is freed from now on is unmapped meanwhile. What has been freed
    /// before is no longer the session's, so begin before you look whether what you read still is.
    class Reading {
    public:
        explicit Reading(FreedMemory& freed) : m_freed(freed), m_since(freed.begin_reading()) {}
        ~Reading() { m_freed.end_reading(m_since); }
        Reading(const Reading&) = delete;
        Reading& operator=(const Reading&) = delete;

    private:
        FreedMemory& m_freed;
        const uint64_t m_since;
    };

    void close() WL_EXCLUDES(m_mutex);

private:
    /// A stream, and for a default stream the context that it is the one of: that has to be current to name it.
    struct Place {
        CUcontext context = nullptr;
        CUstream stream = nullptr;
        bool operator==(const Place&) const = default;
    };
    class InContext;
    struct Free {
        uint64_t context = 0;        // token
        CUcontext handle = nullptr;  // of the same
        size_t waiting = 0;          // streams that are watched
        std::vector<Place> held;     // that are being captured
        uint64_t address = 0;        // of what is to be unmapped
        uint64_t bytes = 0;          // 0: nothing
    };
    using Frees = std::map<uint64_t, Free>;

    void add(uint64_t call, uint64_t context, uint64_t address, uint64_t bytes) WL_EXCLUDES(m_mutex);
    /// Watches a stream for a free; false if it is being captured.
    bool watch(uint64_t call, const Place& place) WL_EXCLUDES(m_mutex);
    /// The streams that may use what is freed in a context, and the default streams that have been used.
    std::vector<Place> places_of(uint64_t context, CUcontext handle);
    bool captures(CUstream stream) const;
    /// All work of the stream is done. Only where nothing is being captured: to ask may break a capture.
    bool rests(CUstream stream) const;
    /// Nothing of a context is being captured or under way, and nothing comes before the call that asks is over.
    /// @thread executor, in order
    bool all_rest(uint64_t context);
    /// Frees what the driver has allocated, and nothing uses. @blocks while somebody reads what was there before
    CUresult free_now(uint64_t call, uint64_t address, uint64_t bytes) WL_EXCLUDES(m_mutex);
    bool somebody_reads_since_before(uint64_t call) const WL_REQUIRES(m_mutex);
    void reached(uint64_t call) WL_EXCLUDES(m_mutex);
    bool can_end(const Free& free) const WL_REQUIRES(m_mutex);
    void reap() WL_REQUIRES(m_mutex);
    void reaper_main();
    /// The newest free; nothing of later ones is unmapped until end_reading() is told the same.
    uint64_t begin_reading() WL_EXCLUDES(m_mutex);
    void end_reading(uint64_t since) WL_EXCLUDES(m_mutex);
    /// The first free that is not over may end now: the device has done with it, and nobody needs it mapped.
    bool may_unmap() const WL_REQUIRES(m_mutex);

    const Driver& m_driver;
    DeviceMemory& m_memory;
    StreamWatch& m_watch;
    HandleTable& m_handles;
    Streams& m_streams;

    mutable Mutex m_mutex;  // never held while the driver is called
    ConditionVariable m_changed;
    Frees m_frees WL_GUARDED_BY(m_mutex);  // that are not over, by call
    uint64_t m_newest WL_GUARDED_BY(m_mutex) = 0;
    std::set<CUstream> m_capturing WL_GUARDED_BY(m_mutex);
    std::multiset<uint64_t> m_reading WL_GUARDED_BY(m_mutex);  // since which free
    bool m_unmapping WL_GUARDED_BY(m_mutex) = false;
    bool m_closed WL_GUARDED_BY(m_mutex) = false;
    std::thread m_reaper WL_GUARDED_BY(m_mutex);
};

}  // namespace warpline::server
