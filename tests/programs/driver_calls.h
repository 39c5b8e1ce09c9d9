// For programs that call the driver itself: a call that gives another result than expected ends the program.
#pragma once

#include <cuda.h>

#include "check.h"

inline void expect_result(CUresult got, CUresult wanted, const char* what, const char* file, int line) {
    if (got == wanted) return;
    std::fprintf(stderr, "%s:%d: %s gave %d, not %d\n", file, line, what, got, wanted);
    fail();
}
#define DRIVER(call) expect_result(call, CUDA_SUCCESS, #call, __FILE__, __LINE__)
#define REFUSED(call, error) expect_result(call, error, #call, __FILE__, __LINE__)

inline int driver_version() {
    int version = 0;
    DRIVER(cuDriverGetVersion(&version));
    return version;
}
// The first driver for which it is written down what becomes of a green context's streams when it is destroyed.
constexpr int k_detaches_streams = 13050;

// A function as programs find those of other drivers than the one that they were built for.
template <typename... Arguments>
auto find(const char* name, int version) {
    void* function = nullptr;
    cudaDriverEntryPointQueryResult status;
    CHECK(cudaGetDriverEntryPointByVersion(name, &function, version, cudaEnableDefault, &status));
    if (function == nullptr) {
        std::fprintf(stderr, "%s of %d is not there\n", name, version);
        fail();
    }
    return reinterpret_cast<CUresult (*)(Arguments...)>(function);
}
