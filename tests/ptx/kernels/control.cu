// Control flow: divergence, loops, switches, calls, recursion, function pointers, virtual calls.
extern "C" __global__ void divergence(int* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int v = i;
    if (i % 3 == 0) {
        if (i % 2 == 0) v = v * 5 + 1; else v = v - 7;
        for (int k = 0; k < i % 11; ++k) v += k * i;
    } else if (i % 3 == 1) {
        while (v > 3) v = v / 2 + (v & 1);
    } else {
        do { v = v * 3 + 1; } while (v % 7 != 0 && v < 100000);
    }
    out[i] = v;
}

extern "C" __global__ void collatz(const unsigned* in, int* steps, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned long long v = in[i];
    int count = 0;
    while (v != 1) {
        v = (v & 1) ? 3 * v + 1 : v >> 1;
        ++count;
    }
    steps[i] = count;
}

extern "C" __global__ void choose(const int* in, int* out) {
    int i = threadIdx.x;
    int v = in[i], r = 0;
    switch (v) {
        case 0: r = i + 10; break;
        case 1: r = i * i; break;
        case 2: r = i - 100; break;
        case 3: r = i ^ 0x55; break;
        case 4: r = i << 3;  // falls through
        case 5: r += 3; break;
        case 6: r = -i; break;
        case 7: return;
        case 8: r = i % 5; break;
        case 9: r = 99; break;
        default: r = -1;
    }
    out[i] = r;
}

__device__ __noinline__ long fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
extern "C" __global__ void fibonacci(long* out) { out[threadIdx.x] = fib(threadIdx.x % 15); }

__device__ __noinline__ int deep(int n, volatile int* sink) {
    volatile int buffer[16];
    buffer[n & 15] = n;
    if (n == 0) return 0;
    *sink = buffer[n & 15];
    return deep(n - 1, sink) + buffer[n & 15];
}
extern "C" __global__ void recurse(int* out, int depth) {
    int sink;
    out[threadIdx.x] = deep(depth, &sink);
}

__device__ __noinline__ int f_add(int a, int b) { return a + b; }
__device__ __noinline__ int f_sub(int a, int b) { return a - b; }
__device__ __noinline__ int f_mul(int a, int b) {
    if (a & 1) return a * b;
    return a * b + 1;
}
typedef int (*binary)(int, int);
__device__ binary table[3] = {f_add, f_sub, f_mul};
extern "C" __global__ void pointers(int* out) {
    int i = threadIdx.x;
    out[i] = table[i % 3](i, 7);
}

struct Shape {
    int k;
    __device__ virtual int area(int x) { return x + k; }
};
struct Square : Shape {
    __device__ int area(int x) override { return x * x + k; }
};
struct Cube : Square {
    __device__ int area(int x) override { return x * x * x + k; }
};
extern "C" __global__ void virtuals(int* out) {
    int i = threadIdx.x;
    Shape* s = i % 3 == 0 ? new Shape : i % 3 == 1 ? new Square : new Cube;
    s->k = i;
    out[i] = s->area(i);
    delete s;
}

struct Big {
    int values[10];
    double d;
    char c;
};
__device__ __noinline__ Big change(Big b, int by) {
    for (int i = 0; i < 10; ++i) b.values[i] += by;
    b.d *= 2;
    b.c += 1;
    return b;
}
extern "C" __global__ void structs(Big in, Big* out) { out[threadIdx.x] = change(in, threadIdx.x); }

extern "C" __global__ void local_array(int* out, int n) {
    int a[32];
    for (int i = 0; i < 32; ++i) a[i] = threadIdx.x * i;
    int s = 0;
    for (int i = 0; i < n; ++i) s += a[(i * 7 + threadIdx.x) & 31];
    out[threadIdx.x] = s;
}
