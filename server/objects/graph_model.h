// A graph as the driver tells it.
#pragma once

#include <vector>

#include "server/objects/host_calls.h"
#include "server/objects/host_copy.h"

namespace warpline::server {

/// The nodes of a graph, those of its child graphs and conditional bodies included, and which comes directly before which.
struct GraphModel {
    /// The nodes that lie directly in one graph, one behind the other.
    struct Part {
        size_t first = 0;
        size_t count = 0;
    };
    struct Node {
        CUgraphNode handle = nullptr;
        CUgraphNode top = nullptr;  ///< the node of the graph itself in which it lies
        CUgraph graph = nullptr;    ///< in which it lies directly
        CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
        size_t body = 0;  ///< number of the conditional node's body in which it lies, by whatever graphs; 0: none
        bool enabled = true;
        /// By index: what its graph's edges say, in their order; of the first nodes of a graph inside this one, what comes
        /// before that; and of a node that has graphs inside, all of those nodes.
        std::vector<size_t> before;
        size_t edges = 0;          ///< how many of `before` are edges
        std::vector<Part> inside;  ///< a child graph, or the bodies
        HostCopyPtr copy;
        bool is_second = false;  ///< `copy` is one of its own, as the node's is another one's, too
        HostCalls::Ticket* ticket = nullptr;
        bool own_ticket = false;  ///< likewise
        /// Of a copy from the client behind nodes that wait for what is no node: when those have waited its bytes are asked
        /// for, by a host node with this ticket.
        HostCalls::Ticket* asks = nullptr;
        CUevent event = nullptr;  ///< that it records
    };
    std::vector<Node> nodes;
    Part whole;
    std::vector<size_t> outer_body{0};  ///< by the number of a body: that of the one in which its conditional node lies

    Node* find(CUgraphNode handle);
    /// Everything that has run when this node begins.
    std::vector<size_t> all_before(size_t index) const;
    /// Some of the nodes, in an order in which each comes behind all that has run when it begins.
    std::vector<size_t> in_order(std::vector<size_t> indices) const;
    /// The nodes that see to a copy to the client, or call a function of its, as a node among those before them in `nodes`
    /// does.
    std::vector<size_t> twins() const;
    bool has_copies() const;
    /// Whenever the one is run the other one has been, if it comes before it: it lies in no body in which the one does not.
    bool is_run_with(size_t other, size_t one) const;
    /// Has the nodes called as those are from which they take over: in an executable graph that was made of `original` and is
    /// updated from this graph. As the documentation of cuGraphExecUpdate pairs them: the last nodes of both, in their order,
    /// and what each depends on, in the order of the edges. False if that does not go: then nothing was changed.
    bool take_names(const GraphModel& original);
    /// The same, of one node that was given another child graph: what lies inside it is taken from `child`, a model of that,
    /// under the names of what it had. False if that does not go.
    bool exchange_child(CUgraphNode node, const GraphModel& child);
};

/// How it is found out what the driver does not know.
class SurveyLookup {
public:
    virtual ~SurveyLookup() = default;
    virtual HostCopyPtr copy_at(const void* staging) = 0;
    /// The bodies of a conditional node. Null: not known.
    virtual const std::vector<CUgraph>* bodies_of(CUgraphNode node) = 0;
};

/// The host copy at one end of a copy node; null: none. Drivers may tell page-locked memory by its unified address.
inline HostCopyPtr host_end(SurveyLookup& lookup, const CUDA_MEMCPY3D& copy, bool source) {
    const CUmemorytype type = source ? copy.srcMemoryType : copy.dstMemoryType;
    if (type == CU_MEMORYTYPE_ARRAY) return nullptr;
    const void* host = source ? copy.srcHost : copy.dstHost;
    const CUdeviceptr address = source ? copy.srcDevice : copy.dstDevice;
    return lookup.copy_at(type == CU_MEMORYTYPE_HOST ? host : reinterpret_cast<const void*>(address));
}

/// @param refusal  why the graph cannot be executed here, with CUDA_ERROR_NOT_SUPPORTED
/// @errors         the driver's; out of memory: more nodes than anybody's graph has
CUresult read_graph(const Driver& driver, HostCalls& host_calls, SurveyLookup& lookup, CUgraph graph, GraphModel& model,
                    const char*& refusal);

}  // namespace warpline::server
