// What graphs allocate, against the session's limit.
#pragma once

#include <map>

#include "server/objects/contexts.h"
#include "server/objects/memory_ledger.h"

namespace warpline::server {

/// Memory of graphs' allocation nodes is the driver's: it has memory for them from a launch on (or sooner), lets graphs share
/// it, and keeps it until it is trimmed. What it has the ledger asks it for; what it is about to take is checked here, as if no
/// graph shared memory with another one. Without a limit nothing of this is done.
///
/// @thread  the executor's, in the session's order
class GraphMemory {
public:
    GraphMemory(const Driver& driver, MemoryLedger& ledger, const Contexts& contexts)
        : m_driver(driver), m_ledger(ledger), m_contexts(contexts) {}

    /// Before a node that allocates is added, or a call captured. @errors CUDA_ERROR_OUT_OF_MEMORY
    CUresult check_node(CUdevice device, uint64_t bytes, MemoryLedger::Refusal refusal = MemoryLedger::Refusal::told);
    /// A graph has become an executable graph.
    void instantiated(CUgraphExec exec, CUgraph graph);
    void exec_gone(CUgraphExec exec) { m_execs.erase(exec); }
    /// Before it is launched or uploaded. @errors CUDA_ERROR_OUT_OF_MEMORY
    CUresult check_launch(CUgraphExec exec);

private:
    struct Exec {
        std::map<CUdevice, uint64_t> bytes;  ///< that its nodes allocate, by the client's number of the device
        bool has_memory = false;             ///< the driver has some for it
    };
    void add_nodes(CUgraph graph, int depth, Exec& exec) const;
    uint64_t in_use(CUdevice device) const;

    const Driver& m_driver;
    MemoryLedger& m_ledger;
    const Contexts& m_contexts;
    std::map<CUgraphExec, Exec> m_execs;  // those that allocate
};

}  // namespace warpline::server
