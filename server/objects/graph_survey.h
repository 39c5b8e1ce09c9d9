// What is found out about a graph before it is instantiated.
#pragma once

#include <algorithm>
#include <vector>

#include "server/objects/graph_model.h"

namespace warpline::server {

/// What of a graph has to do with the client's memory and functions: its host copies and host nodes, those of its child graphs
/// and conditional bodies included, and which comes before which.
struct GraphSurvey {
    struct Entry {
        CUgraphNode node = nullptr;
        CUgraph graph = nullptr;  ///< in which it lies directly
        HostCopyPtr copy;
        bool in_body = false;  ///< of a conditional node: it may not be run
        bool is_second = false;
        bool enabled = true;
        /// Host nodes, sorted. From the client: they come before it, and its bytes are known when they have run. To the client:
        /// they come after it, and its bytes must have arrived when they run.
        std::vector<HostCalls::Ticket*> tickets;
        /// From the client: the copy to the client, earlier in the graph, whose bytes it reads where they are here. Null: none.
        HostCopyPtr from;
        /// From the client: the copies to the client, earlier in the graph, that have written a part of what it reads, in their
        /// order; and the nodes directly before it in its graph.
        std::vector<HostCopyPtr> over;
        std::vector<CUgraphNode> before;
        HostCalls::Ticket* asks = nullptr;  ///< GraphModel::Node::asks
        bool is_source() const { return copy->source != 0; }
        /// Where its node reads or writes here.
        std::byte* place() const {
            return from == nullptr ? copy->staging->data : from->staging->data + (copy->client_address - from->client_address);
        }
        /// Its bytes are the client's, and known when the graph begins.
        bool is_early() const { return is_source() && tickets.empty() && from == nullptr && asks == nullptr; }
    };
    /// An event that the graph records behind a copy to the client. The bytes leave behind the graph at the latest.
    struct LateRecord {
        CUgraphNode node = nullptr;
        CUevent event = nullptr;
    };
    std::vector<Entry> entries;  ///< copies to the client in their order
    std::vector<LateRecord> late_records;
    bool host_functions = false;

    const Entry* find(CUgraphNode node) const {
        const auto found = std::find_if(entries.begin(), entries.end(), [node](const Entry& one) { return one.node == node; });
        return found != entries.end() ? &*found : nullptr;
    }
};

/// @return  why the graph cannot be executed here: the client's memory would not be right. Null: it can
const char* survey_graph(const GraphModel& model, GraphSurvey& survey);

}  // namespace warpline::server
