// All that is shared by the calls of a process: what was sent, who waits, what went wrong.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "client/report/session_report.h"
#include "client/session/failed_contexts.h"
#include "client/session/host_calls.h"
#include "client/session/load_turns.h"
#include "client/session/memory_credit.h"
#include "client/state/copy_target.h"
#include "client/state/devices.h"
#include "common/base/mutex.h"
#include "common/base/result.h"
#include "common/net/socket.h"
#include "cuda/abi/cuda_types.h"
#include "cuda/gen/call_id.gen.h"
#include "protocol/codec/encoding.h"
#include "protocol/codec/frame.h"
#include "protocol/codec/link_quality.h"
#include "protocol/codec/offer_policy.h"

namespace warpline::client {

class ConnectionToServer;
class Waiter;
struct ConnectionSettings;

/// Numbers of a session for WARPLINE_STATS.
struct SessionStats {
    uint64_t blocking_round_trips = 0;
    std::map<cuda::CallId, uint64_t> waits;  ///< which calls those were
    uint64_t frames_sent = 0, frames_received = 0;
    uint64_t bytes_sent = 0, bytes_received = 0;
    uint64_t payload_bytes_sent = 0, payload_bytes_received = 0;     ///< decoded
    protocol::Encoding::ByCodec encoded_sent{}, encoded_received{};  ///< of what was encoded, by codec
    uint64_t shared_bytes_sent = 0, shared_bytes_received = 0;       ///< of those, what lay in shared memory
    protocol::OfferCounters offers;                                  ///< of what was named and not sent
    uint64_t batches = 0, calls_sent = 0, credit_waits = 0;
    uint64_t calls_alike = 0;   ///< of calls_sent: that travelled as what is different from an earlier one
    uint64_t reconnects = 0;    ///< connections that took the place of a lost one
    uint64_t frames_again = 0;  ///< that were sent again over one of them
    double seconds_connected = 0;
    protocol::LinkQuality link;                            ///< of the command lane
    std::map<uint16_t, protocol::LinkQuality> bulk_links;  ///< of the bulk lanes that have had a connection, by their numbers
};

class UserReferences;

/// What the launch of a graph does with the program's memory until its end is told.
struct GraphLaunch {
    std::vector<uint64_t> targets;                     ///< copies to it, by the number of the call that made each
    bool host_functions = false;                       ///< may write anywhere
    std::shared_ptr<const UserReferences> references;  ///< to user objects, which live as long
    uint64_t context = 0;                              ///< token of its stream's
    uint64_t stream = 0;                               ///< token
    uint64_t joined = 0;                               ///< Session::last_join() when it was sent
    size_t held = 0;                                   ///< copies that have come, and are not in the program's memory yet
    bool is_over = false;                              ///< its end was told meanwhile
};

/// A Reply without its values.
struct ReplyHeader {
    uint64_t call = 0;
    CUresult result = CUDA_SUCCESS;
    uint64_t payload_bytes = 0;
    uint64_t memory_credit_bytes = 0;
    int memory_credit_device = 0;
    uint64_t freed_through = 0;
};

/// The client's end of a session (docs/session.md): its connections, who waits for which call, which bytes are on their way to
/// the program's memory, and the errors that came without being asked for. Lives until the process ends.
class Session {
public:
    /// Connects to one server and exchanges Hello.
    ///
    /// @param on_end  called once, by a receiving thread, when the session ends before finish()
    /// @param why     set when it fails: one sentence for the user, what to do included
    /// @errors        connect_refused, auth_failed, version_mismatch, deadline, whatever the server refused with
    /// @blocks        connecting, and one exchange
    static Result<std::unique_ptr<Session>> connect(const ConnectionSettings& settings, std::function<void(CUresult)> on_end,
                                                    std::string& why);
    ~Session();
    Session(const Session&) = delete;
    Session& operator=(const Session&) = delete;

    const ServerInfo& info() const { return m_info; }
    ServerInfo& mutable_info() { return m_info; }  ///< before other threads know the session
    /// The connection that carries calls.
    ConnectionToServer& calls() { return *m_connections.front(); }

    // --- calls: for generated code ---

    // Told of a call's number before the call can leave, in the order of the numbers: who waits for its reply, or where its
    // bytes go.
    void note_number(uint64_t number) { m_last_number.store(number, std::memory_order_relaxed); }
    void note_waiter(uint64_t number, Waiter& waiter) WL_EXCLUDES(m_mutex);
    /// @param repeats  the copy is part of a graph: its bytes come after each launch
    /// @param context  token of its stream's
    void note_copy(uint64_t number, const CopyTarget& target, bool repeats, uint64_t context, uint64_t stream = 0)
        WL_EXCLUDES(m_mutex);
    void note_graph_launch(uint64_t number, const GraphLaunch& launch) WL_EXCLUDES(m_mutex);
    /// The graph with this copy is gone, and all that was made of it.
    void forget_graph_copy(uint64_t number) WL_EXCLUDES(m_mutex);
    /// Waits for the reply of a call; CUDA_ERROR_DEVICE_UNAVAILABLE if the session ends meanwhile. Writes what the device
    /// printed.
    /// @param schedule  CU_CTX_SCHED_…
    CUresult wait(Waiter& waiter, cuda::CallId call, unsigned schedule) WL_EXCLUDES(m_waits_mutex);
    /// A call could not be queued, or not completely: what the program is told.
    CUresult not_sent(const Error& error, Waiter* waiter);

    /// Grows with what is heard of the device: which work is done.
    uint64_t news() const { return m_news.load(std::memory_order_acquire); }

    /// The number of the newest call. While it does not change, nothing was asked of the device.
    uint64_t last_number() const { return m_last_number.load(std::memory_order_relaxed); }

    // --- what is watched in the background: each takes a thread of the server ---

    static constexpr int k_max_watches = 64;
    /// False if there are k_max_watches already. What was taken is given back by end_watch().
    bool take_watch();
    /// @param result  what the watch was told: an error that stays is one for the program's next call
    /// @param context  token of that in which the work is
    void end_watch(CUresult result, uint64_t context);

    // --- errors that came without being asked for ---

    /// The result of a call that CUDA documents as reporting earlier errors: the deferred error if `result` is a success.
    /// @param context  token of the call's
    CUresult deliver(CUresult result, uint64_t context = FailedContexts::k_all) {
        if (m_deferred.load(std::memory_order_relaxed) == 0 && !m_failed.any()) [[likely]]
            return result;
        return take_deferred(result, context);
    }
    /// An error after which CUDA answers every call in a context with the same one until the context ends; CUDA_SUCCESS if
    /// there is none. @param context  as FailedContexts::error_of() has it
    CUresult sticky_error(uint64_t context = FailedContexts::k_all) const { return m_failed.error_of(context); }
    /// How many calls without a reply are known to have failed. The server tells of each before it answers a later call: if the
    /// number is the same before a call was sent and when one behind it has been answered, that has not failed.
    uint64_t failures() const { return m_failures.load(std::memory_order_acquire); }
    /// Remembers a failure to be told later, as the server's AsyncError does.
    /// @param context  token of that in which the call was
    void defer(CUresult result, uint64_t context = FailedContexts::k_all);
    /// What is done when a kernel is first known to have used an address that is none of the device's. Before the first call.
    void explain_illegal_address(std::function<void()> explain) { m_explain_illegal_address = std::move(explain); }
    /// A context ends, and with it an error that would else stay.
    void forget_failure(uint64_t context) { m_failed.forget(context); }
    /// The same by a reset of its device, which ends what else was to be told.
    void forget_deferred(uint64_t context = FailedContexts::k_all) {
        m_deferred.store(0);
        m_failed.forget(context);
    }

    // --- copies to the program's memory that nobody waits for ---

    /// True while a copy on its way will write to this memory; those of launched graphs included.
    bool copy_pending(uint64_t address, uint64_t size_bytes) WL_EXCLUDES(m_mutex);
    /// True while a launched graph may run host functions. @param number  of the last launch that counts
    bool graph_functions_pending(uint64_t number = std::numeric_limits<uint64_t>::max()) WL_EXCLUDES(m_mutex);
    /// The contexts, by their tokens, with such copies.
    std::vector<uint64_t> contexts_copying(uint64_t address, uint64_t size_bytes) WL_EXCLUDES(m_mutex);
    /// The streams of a context have been waited for: its copies to this memory have arrived, or never will, because their
    /// stream failed; and its graphs launched up to this call are over. Other contexts' may still come.
    void copies_settled(uint64_t context, uint64_t address, uint64_t size_bytes, uint64_t last_number) WL_EXCLUDES(m_mutex);

    HostCalls& host_calls() { return m_host_calls; }
    LoadTurns& load_turns() { return m_load_turns; }

    /// What calls up to this one have freed is used by nobody any more.
    uint64_t freed_through() const { return m_freed_through.load(std::memory_order_acquire); }

    // --- work that the device may still be busy with ---

    /// A call was queued that does more than ask or wait. @param stream  the only one that it gives work to; nothing: any may
    /// be
    void note_change(uint64_t number, std::optional<uint64_t> stream) {
        m_last_change.store(number, std::memory_order_relaxed);
        (stream ? m_last_given[slot_of(*stream)] : m_last_unplaced).store(number, std::memory_order_relaxed);
    }
    /// A call was queued that may make streams wait for each other.
    void note_join(uint64_t number) { m_last_join.store(number, std::memory_order_relaxed); }
    /// The number of the newest one, also of those of default streams and of those that no stream is known of.
    uint64_t last_join() const {
        constexpr uint64_t k_legacy = 0, k_per_thread = 2;
        const auto given = [this](uint64_t stream) { return m_last_given[slot_of(stream)].load(std::memory_order_relaxed); };
        return std::max({m_last_join.load(std::memory_order_relaxed), m_last_unplaced.load(std::memory_order_relaxed),
                         given(k_legacy), given(k_per_thread)});
    }
    /// The number of the newest such call; and of the newest that may have given work to this stream, or to one for which the
    /// legacy default stream waits. Those of all threads are one here.
    uint64_t last_change() const { return m_last_change.load(std::memory_order_relaxed); }
    uint64_t last_change(uint64_t stream) const {
        if (stream <= 1) return last_change();
        return std::max(m_last_given[slot_of(stream)].load(std::memory_order_relaxed),
                        m_last_unplaced.load(std::memory_order_relaxed));
    }

    /// A call was queued of which a stream is busy for a while. Under the outbox's lock.
    /// @param identity  what tells the stream from all others (Call::identity_of())
    void note_busy(uint64_t number, uint64_t stream, uint64_t identity) {
        Busy& busy = m_last_busy[slot_of(stream)];
        busy.identity.store(identity, std::memory_order_relaxed);
        busy.number.store(number, std::memory_order_release);
    }
    /// The number of the newest such call of this stream; 0: not known.
    uint64_t last_busy(uint64_t stream, uint64_t identity) const {
        const Busy& busy = m_last_busy[slot_of(stream)];
        const uint64_t number = busy.number.load(std::memory_order_acquire);
        return busy.identity.load(std::memory_order_relaxed) == identity ? number : 0;
    }

    /// The program is about to be told that work of a stream is done (by its identity; 0: of any). What that work has waited
    /// for is done as well, in whatever streams.
    void note_told(uint64_t identity) WL_EXCLUDES(m_told_mutex);
    /// The newest call when the program was told last of another stream than this one; of any for 0.
    uint64_t told_of_others(uint64_t identity) const WL_EXCLUDES(m_told_mutex);

    /// A call that leaves some was queued.
    void note_work(uint64_t number) { m_last_work.store(number, std::memory_order_relaxed); }
    /// The number of the newest one.
    uint64_t last_work() const { return m_last_work.load(std::memory_order_relaxed); }
    /// True if another thread of the program could be what such work waits for. @blocks no; asks the kernel
    bool has_other_threads() const;

    /// What the server has granted of its memory without being asked.
    MemoryCredit& memory_credit() { return m_memory_credit; }

    /// Tells who watches this process of the session, so that the server learns of its death; until finish(), if the server
    /// hears the goodbye. @blocks no
    /// @param watcher  of connect_to_watcher()
    void report_to(net::Socket watcher, SessionReport report);
    /// Says goodbye after everything that is queued, and ends the connections. Takes bounded time.
    void finish();
    SessionStats stats() const;

private:
    friend class ConnectionToServer;
    explicit Session(std::function<void(CUresult)> on_end);

    // From the receiving thread of a connection:
    Result<void> on_reply(const ReplyHeader& header, protocol::Frame frame) WL_EXCLUDES(m_mutex);
    Result<void> on_copy_done(uint64_t call, CUresult result, uint64_t bytes, BytesView payload) WL_EXCLUDES(m_mutex);
    /// The server has come to a function: what streams have done before it is there.
    void host_call_comes() WL_EXCLUDES(m_mutex) { land_held(true); }
    void on_async_error(uint64_t call, CUresult result, uint64_t context) WL_EXCLUDES(m_mutex);
    /// True if the call was a launch whose end was to be told.
    bool end_graph_launch(uint64_t call) WL_EXCLUDES(m_mutex);
    void on_output(int stream, BytesView text) WL_EXCLUDES(m_output_mutex);
    /// The session is about to be lost: the log line about it, once. A program may end with the first call that fails, so
    /// it comes before the connection refuses any.
    void say_lost(const Error& error, const std::string& explanation);
    void on_lost(const Error& error, const std::string& explanation) WL_EXCLUDES(m_mutex);
    /// From now on the end of the connection is news. An error if it has come already: then nobody has been told.
    Result<void> establish(std::string& why) WL_EXCLUDES(m_mutex);
    /// Where a part of the payload of a call goes; nothing if nobody wants it. Copies of graphs want it while a launch that
    /// makes them is under way, and never else: their memory may be anything then.
    /// @errors  malformed: it does not follow upon the part before it
    Result<std::optional<CopyTarget>> target_of(uint64_t call, uint64_t offset) WL_EXCLUDES(m_mutex);
    /// All of the part is there: it comes again if it is cut off before.
    void part_arrived(uint64_t call, uint64_t bytes) WL_EXCLUDES(m_mutex);

    /// Bytes on their way to the program's memory. Streams have copies to one place in an order, but what is short, long, or a
    /// graph's comes by different ways: one that comes in front of an earlier one of the same memory lies aside until that is
    /// there.
    struct Copy {
        CopyTarget target;
        uint64_t context = 0;   ///< token
        uint64_t stream = 0;    ///< token
        uint64_t joined = 0;    ///< last_join() when it was sent
        uint64_t received = 0;  ///< of their parts
        std::shared_ptr<Bytes> aside{};

        CopyTarget place() const { return aside ? CopyTarget::linear(aside->data(), aside->size()) : target; }
    };
    /// When a copy was given to its stream.
    struct Order {
        uint64_t number = 0;  ///< of its call, or of the launch that makes it
        uint64_t stream = 0;  ///< token
        uint64_t joined = 0;  ///< last_join() by then
    };
    /// A copy that an event of the server's may end now. Null: none.
    struct FoundCopy {
        Copy* copy = nullptr;
        Order order;
    };
    FoundCopy find_copy(uint64_t call) WL_REQUIRES(m_mutex);
    /// True if what comes before it, as streams have it, may still come to the same memory.
    bool comes_too_soon(const Order& order, const CopyTarget& target) const WL_REQUIRES(m_mutex);
    /// All of it has come, and lies aside.
    struct Held {
        Order order;
        uint64_t call = 0;
        CopyTarget target;
        std::shared_ptr<Bytes> bytes;
    };
    /// @param all  the server has said that something is done: what comes before it has come, and the rest need not
    void land_held(bool all = false) WL_EXCLUDES(m_mutex);
    std::optional<Held> next_to_land(bool all) WL_REQUIRES(m_mutex);
    void landed(const Held& held) WL_EXCLUDES(m_mutex);
    void forget_copy(uint64_t call) WL_EXCLUDES(m_mutex);

    void count_copies() WL_REQUIRES(m_mutex) {
        m_copy_count.store(m_copies.size() + m_graph_launches.size(), std::memory_order_release);
    }
    CUresult take_deferred(CUresult result, uint64_t context);
    /// From now on every call fails.
    void become_unavailable();
    void send_report();
    void write_output() WL_EXCLUDES(m_writing_mutex, m_output_mutex);

    ServerInfo m_info;
    std::chrono::steady_clock::time_point m_connected_at;
    std::vector<std::unique_ptr<ConnectionToServer>> m_connections;  // constant once connected
    const std::function<void(CUresult)> m_on_end;
    std::function<void()> m_explain_illegal_address;  // constant from the first call on

    mutable Mutex m_mutex;  // protects who waits for what; taken with the outbox's lock held, so nothing is sent under it
    std::unordered_map<uint64_t, Waiter*> m_waiters WL_GUARDED_BY(m_mutex);
    std::map<uint64_t, Copy> m_copies WL_GUARDED_BY(m_mutex);                  // on their way, once
    std::unordered_map<uint64_t, Copy> m_graph_copies WL_GUARDED_BY(m_mutex);  // after each launch of a graph
    std::map<uint64_t, GraphLaunch> m_graph_launches WL_GUARDED_BY(m_mutex);   // whose end is not told
    std::vector<Held> m_held WL_GUARDED_BY(m_mutex);
    std::atomic<size_t> m_copy_count{0};                      // of m_copies and m_graph_launches
    std::optional<Error> m_early_end WL_GUARDED_BY(m_mutex);  // the connection ended before the session was established
    std::string m_early_end_text WL_GUARDED_BY(m_mutex);

    std::atomic<uint64_t> m_failures{0};
    std::atomic<int> m_deferred{0};  // CUresult, told once
    FailedContexts m_failed;
    MemoryCredit m_memory_credit;
    std::atomic<uint64_t> m_freed_through{0};  // call
    std::atomic<uint64_t> m_news{0};
    std::atomic<uint64_t> m_last_work{0};  // call
    // Streams share places: then more may have been given to one than was.
    static constexpr size_t k_stream_slots = 64;
    static size_t slot_of(uint64_t stream) {
        constexpr uint64_t k_per_thread = 2, k_special = 2;  // the default streams have places of their own
        if (stream <= k_per_thread) return stream == k_per_thread ? 1 : 0;
        return k_special + static_cast<uint32_t>(stream) % (k_stream_slots - k_special);
    }
    std::atomic<uint64_t> m_last_change{0}, m_last_unplaced{0}, m_last_join{0};
    std::array<std::atomic<uint64_t>, k_stream_slots> m_last_given{};
    struct Busy {
        std::atomic<uint64_t> number{0}, identity{0};
    };
    std::array<Busy, k_stream_slots> m_last_busy;
    mutable Mutex m_told_mutex;
    uint64_t m_told_identity WL_GUARDED_BY(m_told_mutex) = 0;  // that the program was told of last
    uint64_t m_told WL_GUARDED_BY(m_told_mutex) = 0, m_told_others WL_GUARDED_BY(m_told_mutex) = 0;  // the newest call then
    std::atomic<uint64_t> m_last_number{0};                                                          // of a call
    std::atomic<int> m_watches{0};
    mutable Mutex m_waits_mutex;
    std::map<cuda::CallId, uint64_t> m_waits WL_GUARDED_BY(m_waits_mutex);  // how often calls have waited for a reply
    std::atomic<uint64_t> m_payload_received{0};
    std::atomic<bool> m_quiet{true};       // not established yet, or ending by our own will; set false under m_mutex
    std::atomic<bool> m_said_lost{false};  // the log line about it is written
    std::atomic<bool> m_finishing{false};  // the process ends

    Mutex m_writing_mutex;  // who holds it writes to the program's standard output; before m_output_mutex
    Mutex m_output_mutex;   // protects what the device printed and the program has not been shown
    std::deque<std::pair<int, std::string>> m_output WL_GUARDED_BY(m_output_mutex);
    size_t m_output_bytes WL_GUARDED_BY(m_output_mutex) = 0;
    bool m_output_lost WL_GUARDED_BY(m_output_mutex) = false;
    std::atomic<bool> m_has_output{false};

    HostCalls m_host_calls;
    LoadTurns m_load_turns;

    net::Socket m_watcher;  // this and the next two: set before other threads know the session
    uint64_t m_watcher_inode = 0;
    SessionReport m_report;
};

}  // namespace warpline::client
