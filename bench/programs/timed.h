// What the programs that measure have in common.
#pragma once

#include <chrono>
#include <cstdio>
#include <cstdlib>

using Clock = std::chrono::steady_clock;

#define CHECK(call)                                                                                 \
    do {                                                                                            \
        const cudaError_t result = (call);                                                          \
        if (result != cudaSuccess) {                                                                \
            std::fprintf(stderr, "line %d: %s: %s\n", __LINE__, #call, cudaGetErrorString(result)); \
            std::exit(1);                                                                           \
        }                                                                                           \
    } while (0)

inline double micros(Clock::duration time) { return std::chrono::duration<double, std::micro>(time).count(); }
