// Where nodes find in a graph what the graph itself has copied to the client's memory.
#pragma once

#include <utility>
#include <vector>

#include "server/objects/graph_survey.h"

namespace warpline::server {

/// While a graph is made executable, nodes that read what others have left here for the client do so: their source is the
/// staging memory of the copy that wrote all of it, or a host node before them lays over their own what was written
/// (Overlay). Afterwards the graph is as the program made it.
///
/// @thread  the executor's
class SourcesHere {
public:
    explicit SourcesHere(const Driver& driver) : m_driver(driver) {}
    ~SourcesHere();
    SourcesHere(const SourcesHere&) = delete;
    SourcesHere& operator=(const SourcesHere&) = delete;

    /// @errors  the driver's
    CUresult place(const GraphSurvey& survey);

private:
    CUresult read_from(const GraphSurvey::Entry& entry);
    CUresult lay_over_before(const GraphSurvey::Entry& entry);

    const Driver& m_driver;
    std::vector<std::pair<CUgraphNode, CUDA_MEMCPY3D>> m_before;  // what nodes were
    std::vector<CUgraphNode> m_added;
};

}  // namespace warpline::server
