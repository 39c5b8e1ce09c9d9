#include "bench/scalar.h"

namespace warpline::bench::scalar {

bool supported() {
#if defined(__x86_64__)
    return __builtin_cpu_supports("fma") != 0 && __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("bmi2") != 0;
#else
    return true;
#endif
}

void saxpy(uint32_t n, float a, const float* x, float* y) {
    for (uint32_t i = 0; i < n; ++i) y[i] = __builtin_fmaf(a, x[i], y[i]);
}

void matmul(uint32_t n, const float* a, const float* b, float* c) {
    for (uint32_t i = 0; i < n; ++i) {
        float* row = c + i * n;
        for (uint32_t j = 0; j < n; ++j) row[j] = 0;
        for (uint32_t k = 0; k < n; ++k) {
            const float left = a[i * n + k];
            const float* right = b + k * n;
            for (uint32_t j = 0; j < n; ++j) row[j] = __builtin_fmaf(left, right[j], row[j]);
        }
    }
}

/// v / 2, or 3 v + 1 if v is odd. Compilers differ by 40 % in what they make of this line; the prototype's figure is that of
/// these instructions.
static inline uint32_t next(uint32_t v) {
#if defined(__x86_64__)
    uint32_t half = v, up;
    asm("shrl %0\n\ttestb $1, %b2\n\tleal 1(%q2, %q2, 2), %1\n\tcmovel %0, %1" : "+&r"(half), "=&r"(up) : "r"(v) : "cc");
    return up;
#else
    return (v & 1) != 0 ? 3 * v + 1 : v >> 1;
#endif
}

void collatz(uint32_t n, uint32_t* steps) {
    for (uint32_t i = 0; i < n; ++i) {
        uint32_t v = i + 1, count = 0;
        for (; v != 1; ++count) v = next(v);
        steps[i] = count;
    }
}

}  // namespace warpline::bench::scalar
