// What the programs that call NVIDIA's libraries share.
#pragma once

#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

/// Ends the program unless a call gave what it should.
template <typename Status>
void check(Status got, Status wanted, const char* what, int line) {
    if (got == wanted) return;
    std::fprintf(stderr, "line %d: %s gave %d\n", line, what, static_cast<int>(got));
    std::exit(1);
}
#define CUDA(call) check(call, cudaSuccess, #call, __LINE__)

/// Memory of the device with the same value everywhere.
template <typename T>
T* filled(size_t count, T value) {
    const std::vector<T> host(count, value);
    T* device = nullptr;
    CUDA(cudaMalloc(&device, count * sizeof(T)));
    CUDA(cudaMemcpy(device, host.data(), count * sizeof(T), cudaMemcpyHostToDevice));
    return device;
}

inline int done(const char* what) {
    std::printf("%s: all calls went through\n", what);
    return 0;
}
