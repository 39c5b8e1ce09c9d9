// One client's session, and everything that it owns.
#pragma once

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <capnp/any.h>
#include <functional>
#include "common/base/function_ref.h"
#include "common/base/mutex.h"
#include "protocol/codec/link.h"

#include "protocol/codec/call_receiver.h"
#include "server/driver/driver.h"
#include "server/driver/inventory.h"
#include "server/objects/async_copies.h"
#include "server/objects/client_port.h"
#include "server/objects/contexts.h"
#include "server/objects/device_memory.h"
#include "server/objects/freed_memory.h"
#include "server/objects/functions.h"
#include "server/objects/given_resources.h"
#include "server/objects/given_values.h"
#include "server/objects/graph_copies.h"
#include "server/objects/graph_memory.h"
#include "server/objects/handle_table.h"
#include "server/objects/host_calls.h"
#include "server/objects/late_reads.h"
#include "server/objects/links.h"
#include "server/objects/memory_ledger.h"
#include "server/objects/sharing.h"
#include "server/objects/stream_queues.h"
#include "server/objects/stream_watch.h"
#include "server/objects/streams.h"
#include "server/objects/waits.h"
#include "server/session/call_order.h"
#include "server/session/executed_calls.h"
#include "server/session/executor.h"
#include "server/session/output.h"

namespace warpline::server {

class ServerCall;

struct SessionOptions {
    /// A payload that has to be in one piece (an image). Longer ones are refused with CUDA_ERROR_OUT_OF_MEMORY.
    uint64_t max_whole_payload_bytes = uint64_t{2} << 30;
    /// Of all such payloads together, of requests and of replies: as many calls as may wait at a time hold one each.
    uint64_t max_payload_bytes_in_all = uint64_t{4} << 30;
    /// Host memory for asynchronous copies to the client that have not left yet.
    uint64_t max_staging_bytes = uint64_t{1} << 30;
    /// What is taken of it first: memory that the client has mapped, too.
    MutableBytesView shared_staging{};
    /// How long a thread asks whether the device is done before it sleeps in the driver.
    std::chrono::microseconds look_first{0};
    /// Of each device's memory.
    MemoryLimit memory;
    /// What the session shares with others of its tenant. Null: nothing is shared.
    Sharing* sharing = nullptr;
};

/// What one client has: its objects, its memory, its order. Owns everything reachable from it; ends with its process.
class Session {
public:
    Session(const Driver& driver, const std::vector<DeviceSnapshot>& devices, SessionCounters& counters, ClientPort& client,
            protocol::CreditGrant& grant, SessionOptions options);
    ~Session();

    /// Takes the client's calls, in order. @errors malformed, quota (the frame's; end the session then) @blocks no @thread
    /// reader
    Result<void> accept(protocol::CallReceiver::Unit unit);

    const Driver& driver() const { return m_driver; }
    const std::vector<DeviceSnapshot>& devices() const { return m_devices; }
    const SessionOptions& options() const { return m_options; }
    SessionCounters& counters() { return m_counters; }
    ClientPort& client() { return m_client; }
    HandleTable& handles() { return m_handles; }
    Contexts& contexts() { return m_contexts; }
    Functions& functions() { return m_functions; }
    Streams& streams() { return m_streams; }
    DeviceMemory& memory() { return m_memory; }
    MemoryLedger& ledger() { return m_ledger; }
    Sharing* sharing() { return m_options.sharing; }  ///< null: nothing is shared
    FreedMemory& freed() { return m_freed; }
    LookFirst& look_first() { return m_look_first; }
    StreamWatch& watch() { return m_watch; }
    StreamQueues& queues() { return m_queues; }
    AsyncCopies& copies() { return m_copies; }
    HostCalls& host_calls() { return m_host_calls; }
    LateReads& late_reads() { return m_late_reads; }
    GraphCopies& graph_copies() { return m_graph_copies; }
    GraphMemory& graph_memory() { return m_graph_memory; }
    Links& links() { return m_links; }
    GivenValues& values() { return m_values; }
    GivenResources& resources() { return m_resources; }
    Links& library_logs() { return m_library_logs; }
    Waits& waits() { return m_waits; }
    Executor& executor() { return m_executor; }
    CallOrder& call_order() { return m_call_order; }
    ExecutedCalls& executed() { return m_executed; }
    void set_output(std::unique_ptr<Output> output) { m_output = std::move(output); }

    /// Says of the streams that a call works in what it has to come after, and what after it. @thread any
    void place_streams(const protocol::CallHeader& header, Footprint& footprint);
    /// A call that was overtaken or kept back has ended. @thread any
    void call_ended(uint64_t number);
    /// Calls `done` when everything that came before has been executed. @errors quota
    Result<void> push_last(std::function<void()> done);

    /// Modules or libraries have gone: their variables are nobody's memory any more.
    void images_ended();
    /// Room for a payload in one piece, which a call holds until it is over. False: the calls under way have taken all there
    /// is.
    bool take_payload_room(uint64_t bytes);
    void give_payload_room(uint64_t bytes) { m_payload_bytes.fetch_sub(bytes, std::memory_order_relaxed); }

    /// A context is about to end: what is on its way out of it is waited for. @blocks until its streams are done
    void context_ends(uint64_t context);
    /// A context has gone, or a primary one was reset: everything that was made in it is forgotten.
    void context_ended(uint64_t context);
    /// The first call in a context, or in another one than before. @blocks while memory is page-locked
    void context_used(uint64_t context);

    /// Nobody is there any more to answer host calls, or to take copies. @thread any
    void connection_lost();

    /// Something of what the client sent has been executed: it gets its credit back.
    void work_done(uint64_t bytes, uint32_t calls);

    /// Tells the client that a call that has no reply failed. Replies come after it.
    void report_async_error(const ServerCall& call, CUresult result);

    /// Sends the reply of a call, after everything that must reach the client before it: device printf, long payloads.
    /// @param fill  `fill(capnp::AnyPointer::Builder)` sets the values
    Result<void> send_reply(ServerCall& call, CUresult result, unsigned value_words,
                            FunctionRef<void(capnp::AnyPointer::Builder)> fill);

private:
    struct ReplyExtras {
        uint64_t credit_bytes;
        CUdevice credit_device;
        uint64_t freed_through;
        uint64_t payload_bytes;
        protocol::CreditGrant::Progress progress;
    };
    Result<ReplyExtras> before_reply(ServerCall& call, CUresult result);
    Result<void> add_reply(ServerCall& call, CUresult result, const ReplyExtras& extras, unsigned value_words,
                           FunctionRef<void(capnp::AnyPointer::Builder)> fill);

    const Driver& m_driver;
    const std::vector<DeviceSnapshot>& m_devices;
    SessionCounters& m_counters;
    ClientPort& m_client;
    protocol::CreditGrant& m_grant;  // what the client may still send
    const SessionOptions m_options;
    MemoryLedger m_ledger;  // outlives who holds charges
    HandleTable m_handles;
    Contexts m_contexts;
    Functions m_functions;
    Streams m_streams;
    DeviceMemory m_memory;
    LookFirst m_look_first;
    StreamWatch m_watch;
    StreamQueues m_queues{m_watch};
    FreedMemory m_freed;
    AsyncCopies m_copies;
    HostCalls m_host_calls;
    LateReads m_late_reads;
    GraphCopies m_graph_copies;
    GraphMemory m_graph_memory;
    Links m_links;
    GivenValues m_values;
    GivenResources m_resources;
    std::atomic<uint64_t> m_payload_bytes{0};  // held by calls, in one piece each
    Links m_library_logs;                      ///< of libraries that may yet be compiled in part
    Waits m_waits;
    std::unique_ptr<Output> m_output;

    CallOrder m_call_order;
    ExecutedCalls m_executed;
    std::atomic<bool> m_staging_ready{false};  // the executor's, in the session's order

    Turn m_turn;
    Executor m_executor;  // last: its threads use all of the above
};

}  // namespace warpline::server
