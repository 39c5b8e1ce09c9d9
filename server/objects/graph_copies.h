// Graphs that use the client's memory.
#pragma once

#include <list>
#include <map>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/base/bytes.h"
#include "common/base/mutex.h"
#include "server/objects/graph_survey.h"
#include "server/objects/graph_tickets.h"

namespace warpline::server {

class ClientPort;

/// The host copies of a session's graphs, and what a launch has to do for them
/// (docs/session.md#graphs-and-the-programs-memory).
///
/// A node's staging memory is filled in the launch's stream, just before the graph runs: with the bytes that came with the
/// launch, or with those that the client is asked for then. What the graph copies to the client's memory leaves behind the
/// graph, or before a host node that comes after the copy.
///
/// @thread  the executor's, in the session's order, unless it says otherwise
class GraphCopies final : private SurveyLookup {
public:
    /// Launches under way at a time; bounds what a client can make us remember.
    static constexpr size_t k_max_launches = 1u << 17;

    GraphCopies(const Driver& driver, AsyncCopies& copies, StreamWatch& watch, HostCalls& host_calls, ClientPort& client)
        : m_driver(driver),
          m_copies(copies),
          m_watch(watch),
          m_host_calls(host_calls),
          m_client(client),
          m_tickets(driver, host_calls) {}
    ~GraphCopies() override;

    /// What the client says of its side of a copy.
    struct ClientSide {
        uint64_t source = 0;  ///< the host call that brings the bytes; 0: the copy goes to the client
        uint64_t address = 0;
        uint64_t bytes = 0;  ///< that it spans there
        Region rows;
    };
    /// Staging memory for a copy that is becoming a node. Null: no memory.
    HostCopyPtr make(uint64_t call, const ClientSide& side, uint64_t bytes);
    /// It is a node of this graph, and lives as long, or until the node becomes another copy.
    /// @param graph  null: it is not known, and the copy lives as long as the session
    /// @param node   null: it is not known
    /// @param copy   null: the node has none any more
    void keep(CUgraph graph, CUgraphNode node, HostCopyPtr copy);

    /// The copies of one graph live as long as another one, too: its clone, or its parent.
    void adopt(CUgraph graph, CUgraph from);
    void graph_gone(CUgraph graph);
    void node_gone(CUgraph graph, CUgraphNode node) { keep(graph, node, nullptr); }
    /// The bodies of a conditional node of this graph.
    void note_bodies(CUgraph graph, CUgraphNode node, std::vector<CUgraph> bodies) {
        m_bodies[node] = {graph, std::move(bodies)};
    }

    /// A host node has this ticket from now on. Null for a graph or a node that is not known.
    void give_ticket(CUgraph graph, CUgraphNode node, HostCalls::Ticket* ticket) { m_tickets.give(graph, node, ticket); }

    /// A ticket that nothing has been given yet.
    struct DropTicket {
        HostCalls* host_calls;
        void operator()(HostCalls::Ticket* ticket) const { host_calls->drop_ticket(ticket); }
    };
    using OwnTicket = std::unique_ptr<HostCalls::Ticket, DropTicket>;
    struct Surveyed {
        GraphModel model;  ///< empty if no graph of the session can have to do with the client
        GraphSurvey survey;
        std::vector<std::pair<CUgraphNode, OwnTicket>> own_tickets;  ///< of the survey's
    };
    /// What a graph has to do with the client.
    /// @errors  the driver's, and CUDA_ERROR_NOT_SUPPORTED with a log line
    CUresult survey(CUgraph graph, Surveyed& surveyed);
    /// What was surveyed has become an executable graph, or what one does from now on.
    void instantiated(CUgraphExec exec, Surveyed surveyed);
    CUresult updated(CUgraphExec exec, Surveyed surveyed);
    void exec_gone(CUgraphExec exec);

    // What single nodes of an executable graph do from the next launch on. Each asks the driver, too, and returns its errors,
    // or CUDA_ERROR_NOT_SUPPORTED with a log line.

    /// A node becomes another copy. @param host  its end in the client's memory; null: there is none
    CUresult change_copy(CUgraphExec exec, CUgraphNode node, HostCopyPtr host, CUDA_MEMCPY3D copy, CUcontext context);
    CUresult change_child(CUgraphExec exec, CUgraphNode node, CUgraph child);
    CUresult set_enabled(CUgraphExec exec, CUgraphNode node, bool on);
    /// The same of a copy within the client's memory, which is a host node to the driver.
    CUresult set_host_copy_enabled(CUgraphExec exec, CUgraphNode node, bool on);
    CUresult change_event(CUgraphExec exec, CUgraphNode node, CUevent event);
    /// A host node calls the client's function `id`.
    CUresult change_function(CUgraphExec exec, CUgraphNode node, uint64_t id);
    /// What is to be recorded again behind a launch, in its stream: who waits for these events expects in the client's memory
    /// what the graph has copied there before, and that leaves behind the graph. Some may have been destroyed.
    std::vector<CUevent> late_events(CUgraphExec exec) const;

    /// What the client has to know of an executable graph: the sources that are read at each launch, in order; the copies to
    /// its memory, by the call that made each; whether there are host nodes.
    struct Summary {
        std::vector<uint64_t> sources, targets;
        bool host_functions = false;
    };
    Summary summary(CUgraphExec exec) const;
    /// The copy whose staging memory this is; null: none.
    HostCopyPtr copy_at(const void* staging) override WL_EXCLUDES(m_mutex);

    /// The host copy that a node's parameters name as source or destination; null: none.
    HostCopyPtr copy_of(const CUDA_MEMCPY3D& copy, bool source) { return host_end(*this, copy, source); }

    /// True if launches of it are the driver's alone: no host copies, no host functions.
    bool is_plain(CUgraphExec exec);
    struct LaunchCall {
        uint64_t number = 0;
        uint64_t context = 0;  ///< token
        CUstream stream = nullptr;
        const std::vector<uint64_t>& sources;  ///< whose bytes came with the launch
        BytesView payload;                     ///< one after the other
        bool tell_end = false;                 ///< the client wants to know when it is over
    };
    CUresult launch(CUgraphExec exec, const LaunchCall& call);

    /// Bytes of a source that the client was asked for. @thread reader
    void receive(uint64_t source, uint64_t offset, BytesView bytes) WL_EXCLUDES(m_mutex);

private:
    /// Which host nodes see to which copies.
    using Links = std::vector<std::pair<HostCopyPtr, std::vector<HostCalls::Ticket*>>>;
    struct Exec {
        GraphModel model;
        GraphSurvey survey;
        bool is_foreign = false;  ///< updated from a graph of whose nodes it is not known which of its own they stand for
        std::shared_ptr<LaunchMark> mark;
        std::shared_ptr<const Links> links;  ///< of the entries; null: they have changed

        bool concerns_client() const { return !survey.entries.empty() || survey.host_functions; }
    };
    /// One launch on its way.
    struct Launch {
        Launch(GraphCopies& copies, CUgraphExec launched, uint64_t number) : owner(copies), exec(launched), call(number) {}
        GraphCopies& owner;
        const CUgraphExec exec;
        const uint64_t call;
        std::vector<HostCopyPtr> all;  ///< so that none ends on a thread that may not call the driver
        std::vector<HostCopyPtr> sources;
        std::vector<std::pair<HostCopyPtr, bool>> targets;  ///< and whether it may not be run
        std::shared_ptr<const Links> links;
        AsyncCopies::Copy* shipped = nullptr;
        bool tell_end = false;
        bool failed = false;                    ///< the graph was not launched
        std::atomic<bool> shipped_free{false};  ///< somebody has seen to `shipped`
        std::atomic<bool> finished{false};
        std::atomic<bool> watched{false};  ///< an event behind it is still to tell
        bool is_over() const { return finished.load(std::memory_order_acquire) && !watched.load(std::memory_order_acquire); }
    };
    const std::vector<CUgraph>* bodies_of(CUgraphNode node) override;
    CUresult give_own(Surveyed& surveyed);
    CUresult ask_behind_waits(Surveyed& surveyed);
    HostCopyPtr own_copy(const HostCopy& first);
    HostCalls::Ticket* own_ticket(Surveyed& surveyed, CUgraphNode node, uint64_t id, bool is_left_out);
    void keep_tickets(CUgraphExec exec, Surveyed& surveyed);
    CUresult exchange_ticket(CUgraphExec handle, Exec* exec, GraphModel::Node* known, CUgraphNode node, uint64_t id);
    CUresult mark_runs(const GraphSurvey& survey);
    Exec* find(CUgraphExec exec);
    template <typename Set>
    CUresult adopt_change(CUgraphExec handle, Exec& exec, const GraphModel& model, CUgraphNode changed, Set&& set);
    static void CUDA_CB run_prepare(void* launch);
    static void CUDA_CB run_finish(void* launch);
    CUresult run(CUgraphExec exec, const LaunchCall& call, Launch& launch);
    void prepare(Launch& launch);
    void finish(Launch& launch);
    void fail(Launch& launch);
    void free_shipped(Launch& launch);
    void sweep();
    void sweep_few();
    bool ships(const Launch& launch, const LaunchCall& call) const;
    CUresult wait_for_last(const Exec& exec, CUstream stream) const;
    void mark_end(Exec& exec, const LaunchCall& call);
    static std::shared_ptr<const Links> links_of(Exec& exec);

    const Driver& m_driver;
    AsyncCopies& m_copies;
    StreamWatch& m_watch;
    HostCalls& m_host_calls;
    ClientPort& m_client;
    struct OfGraph {
        std::map<CUgraphNode, HostCopyPtr> by_node;
        std::vector<HostCopyPtr> others;
    };
    std::map<CUgraph, OfGraph> m_of_graph;
    struct Bodies {
        CUgraph graph = nullptr;
        std::vector<CUgraph> graphs;
    };
    std::map<CUgraphNode, Bodies> m_bodies;
    GraphTickets m_tickets;
    std::map<CUgraphExec, Exec> m_execs;
    std::list<Launch> m_launches;
    size_t m_sweep_launches_at = 64;  // so many of them, and retired tickets, are looked through

    Mutex m_mutex;  // protects how copies are found by those who do not have the order
    std::unordered_map<const void*, std::weak_ptr<HostCopy>> m_by_staging WL_GUARDED_BY(m_mutex);
    std::unordered_map<uint64_t, std::weak_ptr<HostCopy>> m_by_source WL_GUARDED_BY(m_mutex);
    size_t m_sweep_at WL_GUARDED_BY(m_mutex) = 1024;  // entries at which those of copies that have gone are looked for
};

}  // namespace warpline::server
