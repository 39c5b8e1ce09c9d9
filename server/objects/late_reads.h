// Copies of the client's memory that is read when their stream comes to them.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <thread>

#include "common/base/bytes.h"
#include "common/base/function_ref.h"
#include "common/base/mutex.h"
#include "server/driver/driver.h"
#include "server/objects/async_copies.h"

namespace warpline::server {

class ClientPort;
class HostCalls;

/// The stream waits for a word in memory of ours; an event before that tells us that it has come so far, the client is asked
/// for the bytes, and the word changes when they are here. No host function does it, of which a driver may call one at a time
/// (DB-02): one of the program's that blocks would hold up copies that it has nothing to do with. Only where the driver has no
/// waits for words it is one.
class LateReads {
public:
    LateReads(const Driver& driver, AsyncCopies& copies, StreamWatch& watch, HostCalls& host_calls, ClientPort& client)
        : m_driver(driver), m_copies(copies), m_watch(watch), m_host_calls(host_calls), m_client(client) {}
    ~LateReads();
    LateReads(const LateReads&) = delete;
    LateReads& operator=(const LateReads&) = delete;

    /// One copy of call `call`, of which host call `source` brings the bytes: `copy(memory)` queues it in the stream. The
    /// stream's context must be current.
    /// @errors  out of memory: staging memory is for all of it; invalid value: the client has named this host call before; the
    /// driver's @blocks no @thread any of the executor's
    CUresult run(uint64_t call, uint64_t source, uint64_t bytes, CUstream stream, FunctionRef<CUresult(const void*)> copy)
        WL_EXCLUDES(m_mutex);

    /// Bytes of a source. False if no copy waits for them; what lies beyond its end is left out. @thread reader
    bool receive(uint64_t source, uint64_t offset, BytesView bytes) WL_EXCLUDES(m_mutex);
    /// The client has sent them all. False if the host call is none of ours to wait for. @thread reader
    bool done(uint64_t source) WL_EXCLUDES(m_mutex);
    /// No further answers: all streams go on. @thread any
    void close() WL_EXCLUDES(m_mutex);

private:
    struct Read {
        AsyncCopies::Copy* staging = nullptr;
        uint64_t bytes = 0;
        uint32_t* gate = nullptr;  ///< behind the bytes: 0 while the stream is to wait
        bool by_function = false;
    };
    bool has_gates(CUstream stream, uint32_t* open);
    CUresult wait_for(CUstream stream, uint32_t* gate) const;
    CUresult hold(CUstream stream, uint64_t source, const Read& read) WL_EXCLUDES(m_mutex);
    CUresult hold_by_function(CUstream stream, uint64_t source) WL_EXCLUDES(m_mutex);
    void wish(uint64_t source) WL_EXCLUDES(m_mutex);
    void forget(uint64_t source) WL_EXCLUDES(m_mutex);
    void thread_main();

    const Driver& m_driver;
    AsyncCopies& m_copies;
    StreamWatch& m_watch;
    HostCalls& m_host_calls;
    ClientPort& m_client;
    enum class Gates : uint8_t { not_asked, yes, no };
    std::atomic<Gates> m_gates{Gates::not_asked};
    Mutex m_mutex;
    ConditionVariable m_changed;
    std::map<uint64_t, Read> m_reads WL_GUARDED_BY(m_mutex);
    std::deque<uint64_t> m_wanted WL_GUARDED_BY(m_mutex);  // sources that the client is to be asked for
    bool m_closed WL_GUARDED_BY(m_mutex) = false;
    std::thread m_thread WL_GUARDED_BY(m_mutex);
};

}  // namespace warpline::server
