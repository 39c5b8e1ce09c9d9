// Control flow: loops, switches, jump tables, device functions, recursion, function pointers, virtual calls, local arrays.
#include <cstdio>

__device__ __noinline__ int fibonacci(int n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }

__device__ __noinline__ float twice(float x) { return x * 2.0f; }
__device__ __noinline__ float thrice(float x) { return x * 3.0f; }
using Operation = float (*)(float);
__device__ Operation table[2] = {twice, thrice};
__constant__ Operation constant_table[3] = {thrice, twice, thrice};

extern "C" __global__ void pointers(const int* which, float* data) {
    int i = threadIdx.x;
    data[i] = table[which[i] & 1](data[i]) + constant_table[which[i] % 3](data[i]);
}

extern "C" __global__ void recursive(int* out) { out[threadIdx.x] = fibonacci(threadIdx.x); }

extern "C" __global__ void jump(const int* in, int* out, int n) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        int x = in[i];
        switch (x) {
            case 0: out[i] = 11; break;
            case 1: out[i] = x * 7; break;
            case 2: out[i] = in[i + 1] ^ 5; break;
            case 3: out[i] = out[i] / 3; break;
            case 4: out[i] = n - x; break;
            case 5: continue;
            case 6: out[i] = -1; [[fallthrough]];
            case 7: out[i] += 2; break;
            case 8: out[0] = 1; break;
            default: out[i] = x << 2;
        }
        while (x > 1) {
            x = (x & 1) ? 3 * x + 1 : x / 2;
            if (x == 7) break;
            out[i]++;
        }
    }
}

struct Shape {
    __device__ virtual float area() const = 0;
    __device__ virtual ~Shape() {}
};
struct Square : Shape {
    float side;
    __device__ explicit Square(float s) : side(s) {}
    __device__ float area() const override { return side * side; }
};
struct Circle : Shape {
    float radius;
    __device__ explicit Circle(float r) : radius(r) {}
    __device__ float area() const override { return 3.14159f * radius * radius; }
};

extern "C" __global__ void virtual_calls(float* out) {
    Shape* shape;
    if (threadIdx.x & 1)
        shape = new Square(float(threadIdx.x));
    else
        shape = new Circle(float(threadIdx.x));
    out[threadIdx.x] = shape->area();
    delete shape;
}

struct Big {
    int values[37];
    double weight;
    char tag;
};
__device__ __noinline__ Big transform(Big in, int k) {
    for (int& v : in.values) v += k;
    in.weight *= k;
    return in;
}
extern "C" __global__ void structures(Big in, Big* out, const int* index) {
    int local[64];
    for (int i = 0; i < 64; i++) local[i] = in.values[i % 37] + i;
    Big result = transform(in, local[index[threadIdx.x] & 63]);
    local[index[0] & 63] = 5;
    result.values[0] += local[index[1] & 63];
    *out = result;
}

extern "C" __global__ void prints(const char* text, int n) {
    printf("block %d thread %d: %s %f %llx\n", blockIdx.x, threadIdx.x, text, n * 0.5, 0x123456789abcULL);
    if (n < 0) __trap();
    if (n == 0) asm("exit;");
}

extern "C" __global__ void assertion(const int* values) {
#ifdef NDEBUG
#undef NDEBUG
#endif
    if (values[threadIdx.x] == 0) {
        void* memory = malloc(16);
        free(memory);
    }
}

extern "C" __global__ void __launch_bounds__(128, 4) bounded(float* x) { x[threadIdx.x] *= 2; }
extern "C" __global__ void __maxnreg__(32) limited(float* x) { x[threadIdx.x] *= 3; }
