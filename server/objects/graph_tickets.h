// How long host nodes can call back.
#pragma once

#include <list>
#include <map>

#include "server/driver/driver.h"
#include "server/objects/host_calls.h"

namespace warpline::server {

/// How long the tickets of host nodes live. The driver itself knows when nothing can run them any more: each is a user object
/// that its graph holds, and with it every clone and every executable graph that is made of it, until their last launch is
/// over. A ticket that was put into an executable graph directly lives until another one takes its place there, or the
/// executable graph ends, and the launches under way then are over.
///
/// @thread  the executor's, in the session's order
class GraphTickets {
public:
    GraphTickets(const Driver& driver, HostCalls& host_calls) : m_driver(driver), m_host_calls(host_calls) {}

    /// The graph has the ticket now. With a node: in place of what the node had before. A graph that is not known (null), or a
    /// driver without user objects: the ticket lives as long as the session.
    void give(CUgraph graph, CUgraphNode node, HostCalls::Ticket* ticket);
    void graph_gone(CUgraph graph);

    void give(CUgraphExec exec, CUgraphNode node, HostCalls::Ticket* ticket);
    /// The executable graph is gone: nothing will be launched with what was given to it.
    void retire(CUgraphExec exec);
    /// A launch with the tickets that there are. @param number  greater than that of the one before
    void launched(uint64_t number) { m_last_launch = number; }
    size_t retired() const { return m_retired.size(); }
    /// Lets those go that were retired and that no launch can run any more.
    /// @param first  of each executable graph that has launches under way: the number of the first of them
    void sweep(const std::map<CUgraphExec, uint64_t>& first) {
        m_retired.remove_if([&](const Retired& one) {
            const auto busy = first.find(one.exec);
            if (busy != first.end() && busy->second <= one.last_launch) return false;
            m_host_calls.drop_ticket(one.ticket);
            return true;
        });
    }

private:
    struct Retired {
        CUgraphExec exec;
        HostCalls::Ticket* ticket;
        uint64_t last_launch;  ///< that can run it
    };
    void retire(CUgraphExec exec, HostCalls::Ticket* ticket) { m_retired.push_back({exec, ticket, m_last_launch}); }

    const Driver& m_driver;
    HostCalls& m_host_calls;
    std::map<CUgraph, std::map<CUgraphNode, CUuserObject>> m_of_graph;
    std::map<CUgraphExec, std::map<CUgraphNode, HostCalls::Ticket*>> m_of_exec;
    std::list<Retired> m_retired;
    uint64_t m_last_launch = 0;
};

}  // namespace warpline::server
