// For programs that watch over who uses memory when: a kernel that changes it, one that holds its stream up, and a function of
// a stream that takes turns with kernels.
#pragma once

#include "check.h"

__global__ void add(int* data, int n, int what) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) data[i] += what;
}

// Runs until somebody writes a value that is not 0.
__global__ void hold(volatile int* gate) {
    while (*gate == 0) {
    }
}

struct Boxed {
    int* inner;
    int count;
};

// Values that kernels add 1 to before each turn of the function, which adds 10.
struct Turns {
    int* values;
    int count;
    int done = 0;
    bool right = true;
};
inline void function_in_turn(void* data) {
    auto* turns = static_cast<Turns*>(data);
    ++turns->done;
    for (int i = 0; i < turns->count; ++i) {
        turns->right = turns->right && turns->values[i] == i + 11 * turns->done - 10;
        turns->values[i] += 10;
    }
}
