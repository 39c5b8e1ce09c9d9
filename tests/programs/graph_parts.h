// What programs that make graphs with host copies share: memory, a stream, nodes behind at most one other, and their number.
#pragma once

#include "check.h"

__global__ void add(int* data, int n, int value) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) data[i] += value;
}

struct Pinned {
    explicit Pinned(size_t count) { CHECK(cudaMallocHost(&data, count * sizeof(int))); }
    ~Pinned() { CHECK(cudaFreeHost(data)); }
    int* data = nullptr;
};

struct Stream {
    Stream() { CHECK(cudaStreamCreate(&handle)); }
    ~Stream() { CHECK(cudaStreamDestroy(handle)); }
    void run(cudaGraphExec_t exec) {
        CHECK(cudaGraphLaunch(exec, handle));
        CHECK(cudaStreamSynchronize(handle));
    }
    cudaStream_t handle = nullptr;
};

inline cudaGraphNode_t add_copy(cudaGraph_t graph, const cudaGraphNode_t* after, void* to, const void* from, size_t bytes,
                                cudaMemcpyKind kind) {
    cudaGraphNode_t node;
    CHECK(cudaGraphAddMemcpyNode1D(&node, graph, after, after ? 1 : 0, to, from, bytes, kind));
    return node;
}

inline cudaGraphNode_t add_kernel(cudaGraph_t graph, const cudaGraphNode_t* after, void* function, int threads,
                                  void** arguments) {
    cudaKernelNodeParams params{};
    params.func = function;
    params.gridDim = dim3(1);
    params.blockDim = dim3(threads);
    params.kernelParams = arguments;
    cudaGraphNode_t node;
    CHECK(cudaGraphAddKernelNode(&node, graph, after, after ? 1 : 0, &params));
    return node;
}

/// How many nodes of a type a small graph has, and the last of them.
inline size_t nodes_of_type(cudaGraph_t graph, cudaGraphNodeType wanted, cudaGraphNode_t* last) {
    cudaGraphNode_t nodes[8];
    size_t count = 8, found = 0;
    CHECK(cudaGraphGetNodes(graph, nodes, &count));
    for (size_t i = 0; i < count; ++i) {
        cudaGraphNodeType type;
        CHECK(cudaGraphNodeGetType(nodes[i], &type));
        if (type != wanted) continue;
        ++found;
        *last = nodes[i];
    }
    return found;
}
