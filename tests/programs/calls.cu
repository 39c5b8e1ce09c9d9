// Divergence, loops, calls that are not inlined, recursion, function pointers, virtual functions, device new and delete, switches.
#include "check.h"

__device__ __noinline__ int collatz_steps(unsigned n) {
    int steps = 0;
    while (n != 1) {
        n = n % 2 ? 3 * n + 1 : n / 2;
        ++steps;
    }
    return steps;
}
__device__ __noinline__ int fibonacci(int n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }

typedef int (*Operation)(int, int);
__device__ int plus(int a, int b) { return a + b; }
__device__ int minus(int a, int b) { return a - b; }
__device__ int times(int a, int b) { return a * b; }
__device__ Operation operations[3] = {plus, minus, times};

struct Shape {
    __device__ virtual ~Shape() {}
    __device__ virtual float area() const = 0;
};
struct Square : Shape {
    float side;
    __device__ explicit Square(float s) : side(s) {}
    __device__ float area() const override { return side * side; }
};
struct Circle : Shape {
    float radius;
    __device__ explicit Circle(float r) : radius(r) {}
    __device__ float area() const override { return 3.0f * radius * radius; }
};

__global__ void run(int* steps, int* fib, int* ops, float* areas, int* switched) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    steps[i] = collatz_steps(i + 1);
    fib[i] = fibonacci(i % 12);
    ops[i] = operations[i % 3](i, 5);
    Shape* shape = i % 2 ? static_cast<Shape*>(new Square(static_cast<float>(i))) : static_cast<Shape*>(new Circle(static_cast<float>(i)));
    areas[i] = shape->area();
    delete shape;
    switch (i % 7) {
        case 0: switched[i] = 100; break;
        case 1: switched[i] = i; break;
        case 2: switched[i] = -i;  // falls through
        case 3: switched[i] = i * 3; break;
        case 4: switched[i] = 7; break;
        case 5: switched[i] = i ^ 0x55; break;
        default: switched[i] = 0;
    }
}

int main() {
    const int n = 256;
    DeviceArray<int> steps(n), fib(n), ops(n), switched(n);
    DeviceArray<float> areas(n);
    CHECK(cudaDeviceSetLimit(cudaLimitStackSize, 16384));
    run<<<2, n / 2>>>(steps.data(), fib.data(), ops.data(), areas.data(), switched.data());
    CHECK(cudaGetLastError());
    auto h_steps = steps.download(), h_fib = fib.download(), h_ops = ops.download(), h_switched = switched.download();
    auto h_areas = areas.download();
    for (int i = 0; i < n; ++i) {
        int count = 0;
        for (unsigned x = i + 1; x != 1; x = x % 2 ? 3 * x + 1 : x / 2) ++count;
        EXPECT_EQ(h_steps[i], count);
        int a = 0, b = 1;
        for (int k = 0; k < i % 12; ++k) b += a, a = b - a;
        EXPECT_EQ(h_fib[i], a);
        EXPECT_EQ(h_ops[i], i % 3 == 0 ? i + 5 : i % 3 == 1 ? i - 5 : i * 5);
        EXPECT_EQ(h_areas[i], i % 2 ? static_cast<float>(i) * i : 3.0f * i * i);
        int expected[] = {100, i, i * 3, i * 3, 7, i ^ 0x55, 0};
        EXPECT_EQ(h_switched[i], expected[i % 7]);
    }
    return passed("calls and divergence");
}
