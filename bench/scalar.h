#pragma once

#include <cstdint>

/// What the kernels of bench/kernels/softgpu.cu compute, as plain loops that the compiler must not vectorise: the reference for
/// their results, bit for bit, and the measure of how fast one core of this machine is. The file is compiled for CPUs with
/// fused multiply-add (x86-64-v3); it includes no C++ library headers, so that nothing of it is linked elsewhere.
namespace warpline::bench::scalar {

/// False if this CPU cannot run the functions below.
bool supported();

void saxpy(uint32_t n, float a, const float* x, float* y);
/// c = a * b, n x n: each element is one chain of fused multiply-adds in ascending order, as in the kernels.
void matmul(uint32_t n, const float* a, const float* b, float* c);
/// Steps from i + 1 down to 1, for each i; 32-bit arithmetic that wraps. The only branch is the loop's end.
void collatz(uint32_t n, uint32_t* steps);

}  // namespace warpline::bench::scalar
