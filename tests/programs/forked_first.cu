// Children that are forked before their parent uses CUDA, which it is linked with: they may use all of it (A3, A7).
#include <cuda.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "check.h"

__global__ void add(int* to, int count) {
    for (int i = threadIdx.x; i < count; i += blockDim.x) to[i] += 1;
}

constexpr int k_count = 100000;
constexpr size_t k_bytes = k_count * sizeof(int);

static void use_managed() {
    int* memory;
    CHECK(cudaMallocManaged(&memory, k_bytes));
    std::memset(memory, 0, k_bytes);
    add<<<1, 64>>>(memory, k_count);
    CHECK(cudaDeviceSynchronize());
    for (int i = 0; i < k_count; ++i) EXPECT_EQ(memory[i], 1);
    add<<<1, 64>>>(memory, k_count);
    CHECK(cudaDeviceSynchronize());
    const int zeros = ::open("/dev/zero", O_RDONLY | O_CLOEXEC);
    EXPECT_EQ(static_cast<size_t>(::read(zeros, memory, k_bytes / 2)), k_bytes / 2);
    EXPECT_EQ(memory[0], 0);
    EXPECT_EQ(memory[k_count - 1], 2);
}

static void use_registered() {
    static int memory[k_count];
    int* there;
    int seen = 0;
    CHECK(cudaHostRegister(memory, k_bytes, cudaHostRegisterMapped));
    CHECK(cudaHostGetDevicePointer(reinterpret_cast<void**>(&there), memory, 0));
    add<<<1, 64>>>(there, k_count);
    static int* at = &seen;
    CHECK(cudaLaunchHostFunc(nullptr, [](void* from) { *at = *static_cast<int*>(from); }, memory));
    CHECK(cudaHostUnregister(memory));
    EXPECT_EQ(seen, 1);
    for (int i = 0; i < k_count; ++i) EXPECT_EQ(memory[i], 1);
}

static void in_child(void (*use)()) {
    const pid_t child = ::fork();
    if (child == 0) {
        use();
        ::_exit(0);
    }
    int status = -1;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
}

int main(int count, char** arguments) {
    int version = 0;
    if (count > 1 && std::strcmp(arguments[1], "version") == 0) EXPECT_EQ(cuDriverGetVersion(&version), CUDA_SUCCESS);
    in_child(use_managed);
    in_child(use_registered);
    use_managed();
    return passed("CUDA in children");
}
