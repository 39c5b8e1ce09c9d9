// Graphs as text for Graphviz (cuGraphDebugDotPrint).
#include <cerrno>
#include <fstream>

#include "softgpu/driver/code/module.h"
#include "softgpu/driver/device/device.h"
#include "softgpu/driver/graph/graph.h"

namespace warpline::softgpu::driver {

namespace {

const char* name_of(CUgraphNodeType type) {
    switch (type) {
        case CU_GRAPH_NODE_TYPE_KERNEL: return "KERNEL";
        case CU_GRAPH_NODE_TYPE_MEMCPY: return "MEMCPY";
        case CU_GRAPH_NODE_TYPE_MEMSET: return "MEMSET";
        case CU_GRAPH_NODE_TYPE_HOST: return "HOST";
        case CU_GRAPH_NODE_TYPE_GRAPH: return "GRAPH";
        case CU_GRAPH_NODE_TYPE_EMPTY: return "EMPTY";
        case CU_GRAPH_NODE_TYPE_WAIT_EVENT: return "EVENT_WAIT";
        case CU_GRAPH_NODE_TYPE_EVENT_RECORD: return "EVENT_RECORD";
        case CU_GRAPH_NODE_TYPE_MEM_ALLOC: return "MEM_ALLOC";
        case CU_GRAPH_NODE_TYPE_MEM_FREE: return "MEM_FREE";
        case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP: return "BATCH_MEM_OP";
        case CU_GRAPH_NODE_TYPE_CONDITIONAL: return "CONDITIONAL";
        default: return "UNKNOWN";
    }
}

void print_label(std::ofstream& out, const GraphNode& node, unsigned int flags) {
    bool verbose = (flags & CU_GRAPH_DEBUG_DOT_FLAGS_VERBOSE) != 0;
    out << name_of(node.type());
    if (const auto* kernel = std::get_if<KernelOperation>(&node.body)) {
        out << "\\n" << kernel->function->info().name;
        if (verbose || (flags & CU_GRAPH_DEBUG_DOT_FLAGS_KERNEL_NODE_PARAMS) != 0) {
            out << "\\n<<<(" << kernel->grid.x << "," << kernel->grid.y << "," << kernel->grid.z << "),(" << kernel->block.x
                << "," << kernel->block.y << "," << kernel->block.z << ")," << kernel->dynamic_shared_bytes << ">>>";
        }
    }
    const auto* copy = std::get_if<CopyOperation>(&node.body);
    if (copy != nullptr && (verbose || (flags & CU_GRAPH_DEBUG_DOT_FLAGS_MEMCPY_NODE_PARAMS) != 0)) {
        out << "\\n" << copy->width_bytes << " x " << copy->height << " x " << copy->depth << " bytes";
    }
    const auto* memset = std::get_if<MemsetOperation>(&node.body);
    if (memset != nullptr && (verbose || (flags & CU_GRAPH_DEBUG_DOT_FLAGS_MEMSET_NODE_PARAMS) != 0)) {
        out << "\\n" << memset->params.value << " to " << memset->params.width << " x " << memset->params.height;
    }
    if (verbose || (flags & CU_GRAPH_DEBUG_DOT_FLAGS_HANDLES) != 0) out << "\\n" << static_cast<void*>(node.handle());
}

// The numbers are those that cuGraphGetId and cuGraphNodeGetLocalId tell.
void print_nodes(std::ofstream& out, const Graph& graph, unsigned int flags) {
    const std::string prefix = "graph_" + std::to_string(graph.id());
    out << "subgraph cluster_" << graph.id() << " {\nlabel=\"" << prefix << "\" graph[style=\"dashed\"];\n";
    std::map<const GraphNode*, std::string> names;
    for (const NodePtr& each : graph.nodes()) {
        const GraphNode& node = *each;
        std::string name = prefix + "_node_" + std::to_string(node.local_id);
        names[&node] = name;
        out << "\"" << name << "\" [style=\"bold\" shape=\"octagon\" label=\"" << node.local_id << "\\n";
        print_label(out, node, flags);
        out << "\"];\n";
        if (const auto* child = std::get_if<ChildGraphOperation>(&node.body)) print_nodes(out, *child->graph, flags);
        if (const auto* conditional = std::get_if<ConditionalOperation>(&node.body)) {
            for (const GraphPtr& body : conditional->bodies) print_nodes(out, *body, flags);
        }
    }
    for (const NodePtr& node : graph.nodes()) {
        for (const GraphEdge& edge : node->dependencies) {
            out << "\"" << names[edge.node] << "\" -> \"" << names[node.get()] << "\";\n";
        }
    }
    out << "}\n";
}

}  // namespace

CUresult print_dot(const Graph& graph, const char* path, unsigned int flags) {
    std::ofstream out(path);
    if (!out) return CUDA_ERROR_OPERATING_SYSTEM;
    out << "digraph dot {\n";
    print_nodes(out, graph, flags);
    out << "}\n";
    out.flush();
    return out ? CUDA_SUCCESS : CUDA_ERROR_OPERATING_SYSTEM;
}

}  // namespace warpline::softgpu::driver
