// Parameters of kernels that nvcc compiles for the tests, and what is to be read of them.
#pragma once

struct Odd3 {
    char bytes[3];
};
struct Odd13 {
    char bytes[13];
};
struct alignas(128) Aligned128 {
    float values[40];
};
struct Big20000 {
    char bytes[20000];
};
struct Empty {};
struct Many {
    int* pointers[8];
    char tail;
};
