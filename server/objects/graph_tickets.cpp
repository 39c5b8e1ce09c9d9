// Handing tickets over to graphs.
#include "server/objects/graph_tickets.h"

namespace warpline::server {

void GraphTickets::give(CUgraph graph, CUgraphNode node, HostCalls::Ticket* ticket) {
    if (graph == nullptr || m_driver->cuUserObjectCreate == nullptr || m_driver->cuGraphRetainUserObject == nullptr) return;
    CUuserObject object = nullptr;
    if (m_driver->cuUserObjectCreate(&object, ticket, &HostCalls::forget, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC) != CUDA_SUCCESS)
        return;
    // If the graph does not take it the object is left as it is: its end would be the ticket's.
    if (m_driver->cuGraphRetainUserObject(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE) != CUDA_SUCCESS) return;
    if (node == nullptr) return;
    CUuserObject& mine = m_of_graph[graph][node];
    if (mine != nullptr && m_driver->cuGraphReleaseUserObject != nullptr) m_driver->cuGraphReleaseUserObject(graph, mine, 1);
    mine = object;
}

void GraphTickets::graph_gone(CUgraph graph) { m_of_graph.erase(graph); }

void GraphTickets::give(CUgraphExec exec, CUgraphNode node, HostCalls::Ticket* ticket) {
    HostCalls::Ticket*& mine = m_of_exec[exec][node];
    if (mine != nullptr) retire(exec, mine);
    mine = ticket;
}

void GraphTickets::retire(CUgraphExec exec) {
    const auto found = m_of_exec.find(exec);
    if (found == m_of_exec.end()) return;
    for (const auto& [node, ticket] : found->second) retire(exec, ticket);
    m_of_exec.erase(found);
}

}  // namespace warpline::server
