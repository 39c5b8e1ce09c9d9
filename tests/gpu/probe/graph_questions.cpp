// Graphs: queries with every capacity, edge data, freeing allocations, nodes that are read back.
#include <set>

#include "tests/gpu/probe/question.h"

namespace warpline::probe {

namespace {

using Node = CUgraphNode;
Node marker() { return reinterpret_cast<Node>(uintptr_t{1}); }
void host_function(void*) {}

/// A -> B, A -> C, B -> D, C -> D.
struct Diamond {
    CUgraph graph = nullptr;
    Node a = nullptr, b = nullptr, c = nullptr, d = nullptr;
    explicit Diamond(Asker& asker) {
        made("graph", WL_CU(asker.driver, cuGraphCreate)(&graph, 0));
        auto add = [&](Node* node, std::vector<Node> after) {
            made("node", WL_CU(asker.driver, cuGraphAddEmptyNode)(node, graph, after.data(), after.size()));
        };
        add(&a, {});
        add(&b, {a});
        add(&c, {a});
        add(&d, {b, c});
    }
};

/// A query of a diamond: which one, with an array of `capacity` (or none), of which it tells what was written.
using Query = std::function<int(Asker&, const Diamond&, Node*, size_t*)>;

void add_query(const Group& ask, const std::string& name, size_t full, const Query& query) {
    ask("graph/" + name + "-count", [=](Asker& a) {
        Diamond diamond(a);
        size_t count = 77;
        const int result = query(a, diamond, nullptr, &count);
        a.value("count", static_cast<int64_t>(count));
        return result;
    });
    for (size_t capacity : std::set<size_t>{0, full - 1, full, full + 2}) {
        const std::string id = capacity == 0      ? "-capacity-0"
                               : capacity < full  ? "-less"
                               : capacity == full ? "-exact"
                                                  : "-more";
        ask("graph/" + name + id, [=](Asker& a) {
            Diamond diamond(a);
            size_t count = capacity;
            Node nodes[8];
            for (Node& node : nodes) node = marker();
            const int result = query(a, diamond, nodes, &count);
            a.value("count", static_cast<int64_t>(count));
            int written_nodes = 0, nulls = 0;
            for (Node node : nodes) written_nodes += node != marker(), nulls += node == nullptr;
            a.value("written", written_nodes);
            a.value("nulls", nulls);
            return result;
        });
    }
}

void add_queries(const Group& ask) {
    add_query(ask, "nodes", 4, [](Asker& a, const Diamond& d, Node* nodes, size_t* count) {
        return WL_CU(a.driver, cuGraphGetNodes)(d.graph, nodes, count);
    });
    add_query(ask, "roots", 1, [](Asker& a, const Diamond& d, Node* nodes, size_t* count) {
        return WL_CU(a.driver, cuGraphGetRootNodes)(d.graph, nodes, count);
    });
    add_query(ask, "dependencies", 2, [](Asker& a, const Diamond& d, Node* nodes, size_t* count) {
        return WL_CU(a.driver, cuGraphNodeGetDependencies)(d.d, nodes, count);
    });
    add_query(ask, "dependents", 2, [](Asker& a, const Diamond& d, Node* nodes, size_t* count) {
        return WL_CU(a.driver, cuGraphNodeGetDependentNodes)(d.a, nodes, count);
    });
    add_query(ask, "edges", 4, [](Asker& a, const Diamond& d, Node* nodes, size_t* count) {
        Node to[8] = {};
        return WL_CU(a.driver, cuGraphGetEdges)(d.graph, nodes, nodes ? to : nullptr, count);
    });
    add_query(ask, "edges-v2", 4, [](Asker& a, const Diamond& d, Node* nodes, size_t* count) {
        Node to[8] = {};
        return WL_CU(a.driver, cuGraphGetEdges_v2)(d.graph, nodes, nodes ? to : nullptr, nullptr, count);
    });
    ask("graph/edges-one-array-null", [](Asker& a) {
        Diamond diamond(a);
        Node from[8];
        size_t count = 4;
        return static_cast<int>(WL_CU(a.driver, cuGraphGetEdges)(diamond.graph, from, nullptr, &count));
    });
    ask("graph/edge-data-of-plain-edges", [](Asker& a) {
        Diamond diamond(a);
        Node from[4], to[4];
        CUgraphEdgeData data[4];
        size_t count = 4;
        return static_cast<int>(WL_CU(a.driver, cuGraphGetEdges_v2)(diamond.graph, from, to, data, &count));
    });
}

void add_edge_data(const Group& ask) {
    ask("graph/lossy-edges", [](Asker& a) {
        CUgraph graph = nullptr;
        Node kernel = nullptr, next = nullptr;
        made("graph", WL_CU(a.driver, cuGraphCreate)(&graph, 0));
        CUDA_KERNEL_NODE_PARAMS params{};
        params.func = a.fixtures.function("empty");
        params.gridDimX = params.gridDimY = params.gridDimZ = params.blockDimX = params.blockDimY = params.blockDimZ = 1;
        made("node", WL_CU(a.driver, cuGraphAddKernelNode_v2)(&kernel, graph, nullptr, 0, &params));
        made("node", WL_CU(a.driver, cuGraphAddKernelNode_v2)(&next, graph, nullptr, 0, &params));
        CUgraphEdgeData data{};
        data.from_port = CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC;
        data.type = CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC;
        made("edge", WL_CU(a.driver, cuGraphAddDependencies_v2)(graph, &kernel, &next, &data, 1));
        Node from[1], to[1];
        size_t count = 1;
        a.value("dependencies", WL_CU(a.driver, cuGraphNodeGetDependencies_v2)(next, from, nullptr, &count));
        count = 1;
        return static_cast<int>(WL_CU(a.driver, cuGraphGetEdges_v2)(graph, from, to, nullptr, &count));
    });
    ask("graph/edge-to-itself", [](Asker& a) {
        Diamond diamond(a);
        return static_cast<int>(WL_CU(a.driver, cuGraphAddDependencies)(diamond.graph, &diamond.a, &diamond.a, 1));
    });
    ask("graph/edge-twice", [](Asker& a) {
        Diamond diamond(a);
        return static_cast<int>(WL_CU(a.driver, cuGraphAddDependencies)(diamond.graph, &diamond.a, &diamond.b, 1));
    });
    ask("graph/remove-edge-that-is-not", [](Asker& a) {
        Diamond diamond(a);
        return static_cast<int>(WL_CU(a.driver, cuGraphRemoveDependencies)(diamond.graph, &diamond.b, &diamond.c, 1));
    });
    ask("graph/cycle-instantiated", [](Asker& a) {
        Diamond diamond(a);
        a.value("added", WL_CU(a.driver, cuGraphAddDependencies)(diamond.graph, &diamond.d, &diamond.a, 1));
        CUgraphExec exec = nullptr;
        const int result = WL_CU(a.driver, cuGraphInstantiateWithFlags)(&exec, diamond.graph, 0);
        a.value("refused", result != CUDA_SUCCESS);
        return result;
    });
}

/// A graph with one allocation in it.
struct WithMemory {
    CUgraph graph = nullptr;
    Node allocation = nullptr;
    CUdeviceptr memory = 0;
    explicit WithMemory(Asker& a) {
        made("graph", WL_CU(a.driver, cuGraphCreate)(&graph, 0));
        CUDA_MEM_ALLOC_NODE_PARAMS params{};
        params.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
        params.poolProps.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0};
        params.bytesize = 64;
        made("allocation node", WL_CU(a.driver, cuGraphAddMemAllocNode)(&allocation, graph, nullptr, 0, &params));
        memory = params.dptr;
    }
};

void add_memory(const Group& ask) {
    ask("graph/free-twice", [](Asker& a) {
        WithMemory with(a);
        Node first = nullptr, second = nullptr;
        made("free", WL_CU(a.driver, cuGraphAddMemFreeNode)(&first, with.graph, &with.allocation, 1, with.memory));
        return static_cast<int>(WL_CU(a.driver, cuGraphAddMemFreeNode)(&second, with.graph, &with.allocation, 1, with.memory));
    });
    ask("graph/free-of-other-memory", [](Asker& a) {
        WithMemory with(a);
        Node node = nullptr;
        return static_cast<int>(
            WL_CU(a.driver, cuGraphAddMemFreeNode)(&node, with.graph, &with.allocation, 1, a.fixtures.device_memory()));
    });
    ask("graph/free-of-nothing", [](Asker& a) {
        WithMemory with(a);
        Node node = nullptr;
        return static_cast<int>(WL_CU(a.driver, cuGraphAddMemFreeNode)(&node, with.graph, &with.allocation, 1, 0x10));
    });
    ask("graph/memory-clone", [](Asker& a) {
        WithMemory with(a);
        CUgraph clone = nullptr;
        const int result = WL_CU(a.driver, cuGraphClone)(&clone, with.graph);
        a.value("refused", result != CUDA_SUCCESS);
        return result;
    });
    ask("graph/memory-destroy-node", [](Asker& a) {
        WithMemory with(a);
        const int result = WL_CU(a.driver, cuGraphDestroyNode)(with.allocation);
        a.value("refused", result != CUDA_SUCCESS);
        return result;
    });
    ask("graph/memory-second-executable", [](Asker& a) {
        WithMemory with(a);
        CUgraphExec first = nullptr, second = nullptr;
        made("executable", WL_CU(a.driver, cuGraphInstantiateWithFlags)(&first, with.graph, 0));
        const int result = WL_CU(a.driver, cuGraphInstantiateWithFlags)(&second, with.graph, 0);
        a.value("refused", result != CUDA_SUCCESS);
        return result;
    });
}

void add_nodes(const Group& ask) {
    ask("graph/host-node-reads-back", [](Asker& a) {
        CUgraph graph = nullptr;
        Node node = nullptr;
        made("graph", WL_CU(a.driver, cuGraphCreate)(&graph, 0));
        int mine = 0;
        CUDA_HOST_NODE_PARAMS params{.fn = host_function, .userData = &mine}, back{};
        made("node", WL_CU(a.driver, cuGraphAddHostNode)(&node, graph, nullptr, 0, &params));
        const int result = WL_CU(a.driver, cuGraphHostNodeGetParams)(node, &back);
        a.value("same", back.fn == host_function && back.userData == &mine);
        return result;
    });
    ask("graph/host-node-no-function", [](Asker& a) {
        Diamond diamond(a);
        Node node = nullptr;
        CUDA_HOST_NODE_PARAMS params{};
        return static_cast<int>(WL_CU(a.driver, cuGraphAddHostNode)(&node, diamond.graph, nullptr, 0, &params));
    });
    ask("graph/params-of-wrong-type", [](Asker& a) {
        Diamond diamond(a);
        CUDA_MEMSET_NODE_PARAMS params{};
        return static_cast<int>(WL_CU(a.driver, cuGraphMemsetNodeGetParams)(diamond.a, &params));
    });
    ask("graph/kernel-node-grid-0", [](Asker& a) {
        Diamond diamond(a);
        Node node = nullptr;
        CUDA_KERNEL_NODE_PARAMS params{};
        params.func = a.fixtures.function("empty");
        return static_cast<int>(WL_CU(a.driver, cuGraphAddKernelNode_v2)(&node, diamond.graph, nullptr, 0, &params));
    });
    ask("graph/kernel-node-null-parameter-stays-valid", [](Asker& a) {
        CUgraph graph = nullptr;
        Node first = nullptr, second = nullptr;
        made("graph", WL_CU(a.driver, cuGraphCreate)(&graph, 0));
        CUDA_KERNEL_NODE_PARAMS params{};
        params.func = a.fixtures.function("add");
        params.gridDimX = params.gridDimY = params.gridDimZ = params.blockDimX = params.blockDimY = params.blockDimZ = 1;
        CUdeviceptr where = a.fixtures.device_memory();
        unsigned what = 5;
        void* arguments[] = {&where, &what};
        params.kernelParams = arguments;
        made("node", WL_CU(a.driver, cuGraphAddKernelNode_v2)(&first, graph, nullptr, 0, &params));
        what = 6;
        made("node", WL_CU(a.driver, cuGraphAddKernelNode_v2)(&second, graph, nullptr, 0, &params));
        CUDA_KERNEL_NODE_PARAMS one{}, two{};
        const int result = WL_CU(a.driver, cuGraphKernelNodeGetParams_v2)(first, &one);
        made("second", WL_CU(a.driver, cuGraphKernelNodeGetParams_v2)(second, &two));
        a.value("first", *static_cast<unsigned*>(one.kernelParams[1]));
        a.value("second", *static_cast<unsigned*>(two.kernelParams[1]));
        return result;
    });
    ask("graph/dependency-of-other-graph", [](Asker& a) {
        Diamond one(a), two(a);
        Node node = nullptr;
        return static_cast<int>(WL_CU(a.driver, cuGraphAddEmptyNode)(&node, one.graph, &two.a, 1));
    });
    ask("graph/null-dependencies-counted", [](Asker& a) {
        Diamond diamond(a);
        Node node = nullptr;
        return static_cast<int>(WL_CU(a.driver, cuGraphAddEmptyNode)(&node, diamond.graph, nullptr, 1));
    });
    ask("graph/unknown-create-flags", [](Asker& a) {
        CUgraph graph = nullptr;
        return static_cast<int>(WL_CU(a.driver, cuGraphCreate)(&graph, 1));
    });
    ask("graph/unknown-instantiate-flags", [](Asker& a) {
        Diamond diamond(a);
        CUgraphExec exec = nullptr;
        return static_cast<int>(WL_CU(a.driver, cuGraphInstantiateWithFlags)(&exec, diamond.graph, 1ull << 40));
    });
    ask("graph/child-of-itself", [](Asker& a) {
        Diamond diamond(a);
        Node node = nullptr;
        return static_cast<int>(WL_CU(a.driver, cuGraphAddChildGraphNode)(&node, diamond.graph, nullptr, 0, diamond.graph));
    });
}

}  // namespace

void add_graphs(Questions& all) {
    const Group ask(all, Stage::context, "graphs");
    add_queries(ask);
    add_edge_data(ask);
    add_memory(ask);
    add_nodes(ask);
}

}  // namespace warpline::probe
