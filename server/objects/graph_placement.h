// What nodes are while a graph is made executable.
#pragma once

#include <utility>
#include <vector>

#include "server/objects/graph_survey.h"

namespace warpline::server {

/// Puts into a graph, for as long as it takes to make it executable, what the program's nodes do not say:
/// - nodes that read what others have left here for the client do so: their source is the staging memory of the copy that wrote
///   all of it, or a host node before them lays over their own what was written (Overlay);
/// - of two nodes with one staging memory, as a child graph has that is in a graph twice, the second gets its own, and
///   so does each host node that calls the function of another one;
/// - before copies from the client behind nodes that wait for what is no node, the client is asked for the bytes;
/// - behind a copy in the body of a conditional node a fill notes that it was made.
///
/// Afterwards the graph is as the program made it.
///
/// @thread  the executor's
class Placement {
public:
    explicit Placement(const Driver& driver) : m_driver(driver) {}
    ~Placement();
    Placement(const Placement&) = delete;
    Placement& operator=(const Placement&) = delete;

    /// @errors  the driver's
    CUresult place(const GraphModel& model, const GraphSurvey& survey);

private:
    CUresult move(const GraphSurvey::Entry& entry);
    CUresult exchange(CUgraphNode node, HostCalls::Ticket* ticket);
    CUresult call_before(const GraphSurvey::Entry& entry, const CUDA_HOST_NODE_PARAMS& function);
    CUresult note_run(const GraphSurvey::Entry& entry);

    const Driver& m_driver;
    std::vector<std::pair<CUgraphNode, CUDA_MEMCPY3D>> m_before;  // what nodes were
    std::vector<std::pair<CUgraphNode, CUDA_HOST_NODE_PARAMS>> m_functions_before;
    std::vector<CUgraphNode> m_added;
    CUgraphNode m_last_for = nullptr;  ///< of which copy the last one calls a function before it
};

}  // namespace warpline::server
