// What is found out about a graph before it is instantiated.
#pragma once

#include <algorithm>
#include <map>
#include <vector>

#include "server/objects/host_calls.h"
#include "server/objects/host_copy.h"

namespace warpline::server {

/// What of a graph has to do with the client's memory and functions: its host copies and host nodes, those of its child graphs
/// and conditional bodies included, and which comes before which.
struct GraphSurvey {
    struct Entry {
        CUgraphNode node = nullptr;
        CUgraphNode top = nullptr;  ///< the node of the graph itself in which it lies
        HostCopyPtr copy;
        /// Host nodes, sorted. From the client: they come before it, and its bytes are known when they have run. To the client:
        /// they come after it, and its bytes must have arrived when they run.
        std::vector<HostCalls::Ticket*> tickets;
        /// From the client: copies to the client that come before it, and of which no host node in between has told.
        std::vector<CUgraphNode> after;
        /// From the client: the copy to the client, earlier in the graph, whose bytes it reads where they are here. Null: none.
        HostCopyPtr from;
        /// From the client: the copies to the client, earlier in the graph, that have written a part of what it reads, in their
        /// order; and, if there are some, the graph in which the node is and the nodes directly before it there.
        std::vector<HostCopyPtr> over;
        CUgraph graph = nullptr;
        std::vector<CUgraphNode> before;
        bool enabled = true;
        bool is_source() const { return copy->source != 0; }
        /// It reads something that others have left here for the client, or that this one has.
        bool reads_here() const { return from != nullptr || !over.empty(); }
        bool reads_from(const HostCopyPtr& one) const {
            return from == one || std::find(over.begin(), over.end(), one) != over.end();
        }
        /// Its bytes are the client's, and known when the graph begins.
        bool is_early() const { return is_source() && tickets.empty() && from == nullptr; }
    };
    /// An event that the graph records behind a copy to the client. The bytes leave behind the graph at the latest.
    struct LateRecord {
        CUgraphNode node = nullptr;
        CUevent event = nullptr;
    };
    std::vector<Entry> entries;
    std::vector<LateRecord> late_records;
    bool host_functions = false;
    std::map<CUgraphNode, HostCalls::Ticket*> host_nodes;  ///< of the graph itself
};

/// How a survey finds what the driver does not know.
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

/// Reads a graph through the driver.
///
/// @param refusal  why the graph cannot be executed here, with CUDA_ERROR_NOT_SUPPORTED
/// @errors         the driver's; CUDA_ERROR_NOT_SUPPORTED for forms in which the client's memory would not be right
CUresult survey_graph(const Driver& driver, HostCalls& host_calls, SurveyLookup& lookup, CUgraph graph, GraphSurvey& survey,
                      const char*& refusal);

}  // namespace warpline::server
