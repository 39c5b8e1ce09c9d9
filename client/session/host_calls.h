// The program's functions that streams and graphs call.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "client/managed/page_region.h"
#include "common/base/mutex.h"
#include "cuda/abi/cuda_types.h"

namespace warpline::client {

/// Functions of the program that the server calls back (cuLaunchHostFunc, cuStreamAddCallback, host nodes of graphs), each
/// known to it by a number. They run one after the other on a thread of their own, which begins with the first of them; what
/// copies read late has another one.
class HostCalls {
public:
    using Function = std::function<void(CUresult)>;  ///< told the status of its stream
    enum class Life : uint8_t {
        once,        ///< forgotten when it has run
        persistent,  ///< until forget()
        own,         ///< nobody asks for it: it was posted, and is forgotten when it has run
        read,        ///< of a copy that is read late: it only sends memory, and is forgotten when it has run
    };

    /// @param done  tells the server that the function with this number has returned
    explicit HostCalls(std::function<void(uint64_t)> done) : m_done(std::move(done)) {}
    ~HostCalls();

    /// The number under which the server can ask for the function.
    uint64_t add(Function function, Life life) WL_EXCLUDES(m_mutex);
    /// The same with Life::read, of what reads so many bytes in this memory. 0: too many wait to be read already.
    uint64_t add_read(AddressRange memory, uint64_t bytes, Function function) WL_EXCLUDES(m_mutex);
    /// The contexts, by their tokens, with copies that have yet to read from this memory.
    std::vector<uint64_t> contexts_reading(AddressRange memory) WL_EXCLUDES(m_mutex);
    void forget(uint64_t id) WL_EXCLUDES(m_mutex);

    /// Requests that wait for their turn. Servers ask for one function per stream, and for the sources of a graph at once.
    static constexpr size_t k_max_requests = 1u << 20;
    /// The server asks for it. False if it has asked for too many. Does not wait.
    bool request(uint64_t id, CUresult status) WL_EXCLUDES(m_mutex);

    /// Runs a function on the same thread, of which the server knows nothing. Does not wait.
    void post(Function function) WL_EXCLUDES(m_mutex);

    /// False while functions with Life::once wait for their turn, or run.
    bool idle() const { return m_pending.load(std::memory_order_acquire) == 0; }
    /// True for the thread that runs them, by the kernel's number of it. @thread any
    bool is_callback_thread(pid_t thread) const { return m_thread_number.load(std::memory_order_acquire) == thread; }
    /// True once there is a thread that runs functions of the program's.
    bool has_thread() const { return m_has_thread.load(std::memory_order_acquire); }
    /// How many threads there are: of functions, and of reads.
    unsigned threads() const { return m_threads.load(std::memory_order_acquire); }
    /// Where a function is called.
    struct Place {
        uint64_t context = 0;  ///< token of that of its stream
        uint64_t stream = 0;   ///< token
    };
    /// The call with a function of Life::once has been sent.
    void sent(uint64_t id, Place place, uint64_t number) WL_EXCLUDES(m_mutex);
    /// False if work that a stream is given now comes before or beside all functions of Life::once that wait for their turn, or
    /// run, as streams have it.
    /// @param stream  token @param joined  the newest call that may have made streams wait for each other
    bool may_precede(uint64_t stream, uint64_t joined) WL_EXCLUDES(m_mutex);
    /// True if functions of Life::once wait for their turn, or run, whose calls were sent up to this number, or are being sent.
    bool any_before(uint64_t number) WL_EXCLUDES(m_mutex);
    /// The streams of a context have been waited for, and have failed: those of its functions with Life::once or Life::read
    /// whose calls were sent up to this number have run, or never will. Others wait for their turn: of other contexts, and of
    /// threads that are only about to send the call.
    void failed(uint64_t context, uint64_t last_number) WL_EXCLUDES(m_mutex);
    /// The server has refused the call, and will not ask.
    void refused(uint64_t number) WL_EXCLUDES(m_mutex);
    /// True in a function that the server has called back, where CUDA cannot be waited for.
    static bool in_callback();

    /// The session is over: nothing is asked for any more, and waiters wake.
    void stop() WL_EXCLUDES(m_mutex);
    /// stop(), and waits for the function that runs.
    void join() WL_EXCLUDES(m_mutex);

private:
    struct Entry {
        std::shared_ptr<Function> function;  // shared: forget() may come while it runs
        Life life = Life::once;
        Place place{};
        uint64_t number = 0;      ///< of the call; 0: it has not been sent
        AddressRange memory{};    ///< that it reads, with Life::read
        uint64_t read_bytes = 0;  ///< … of which so much
    };
    /// Of page-locked memory that waits to be read; the server has as much for it.
    static constexpr uint64_t k_most_read_bytes = 64ull << 20;
    using Entries = std::map<uint64_t, Entry>;
    Entries::iterator erase(Entries::iterator entry) WL_REQUIRES(m_mutex);
    static bool precedes(const Entry& entry, uint64_t stream, uint64_t joined);
    /// A thread, and what it has been asked for.
    struct Worker {
        std::deque<std::pair<uint64_t, CUresult>> requests;
        std::optional<Entry> running;  ///< of Life::once or Life::read
        std::thread thread;
    };
    enum class What : uint8_t { functions, reads };
    Worker& worker(What what) WL_REQUIRES(m_mutex) { return what == What::reads ? m_of_reads : m_of_functions; }
    void enqueue(uint64_t id, CUresult status) WL_REQUIRES(m_mutex);
    void run(What what) WL_EXCLUDES(m_mutex);
    void run_one(MutexLock& lock, Worker& mine) WL_NO_THREAD_SAFETY_ANALYSIS;

    const std::function<void(uint64_t)> m_done;
    std::atomic<size_t> m_pending{0};  // functions of Life::once that have not run
    std::atomic<bool> m_has_thread{false};
    std::atomic<unsigned> m_threads{0};
    std::atomic<pid_t> m_thread_number{-1};
    Mutex m_mutex;  // protects what follows; not held while a function runs
    ConditionVariable m_changed;
    Entries m_functions WL_GUARDED_BY(m_mutex);
    uint64_t m_read_bytes WL_GUARDED_BY(m_mutex) = 0;  // of those with Life::read
    Worker m_of_functions WL_GUARDED_BY(m_mutex);
    Worker m_of_reads WL_GUARDED_BY(m_mutex);  // so that no function of the program's holds them up
    uint64_t m_next_id WL_GUARDED_BY(m_mutex) = 1;
    bool m_stopping WL_GUARDED_BY(m_mutex) = false;
};

}  // namespace warpline::client
