// The edges of a process's life: calls before cuInit, in a forked child, from atexit handlers and static destructors, many
// threads that initialise at once. Argument: which.
#include <cuda.h>
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

template <typename F>
static F entry(const char* name) {
    static void* library = dlopen("libcuda.so.1", RTLD_NOW);
    return reinterpret_cast<F>(library ? dlsym(library, name) : nullptr);
}
#define EXPECT(condition)                                                                 \
    do {                                                                                  \
        if (!(condition)) {                                                               \
            std::fprintf(stderr, "%s:%d: expected %s\n", __FILE__, __LINE__, #condition); \
            _exit(1);                                                                     \
        }                                                                                 \
    } while (0)
#define EXPECT_SUCCESS(call)                                                                                     \
    do {                                                                                                         \
        if (CUresult expect_result = (call); expect_result != CUDA_SUCCESS) {                                    \
            std::fprintf(stderr, "%s:%d: %s: %d\n", __FILE__, __LINE__, #call, static_cast<int>(expect_result)); \
            _exit(1);                                                                                            \
        }                                                                                                        \
    } while (0)

static CUresult init() { return entry<CUresult (*)(unsigned)>("cuInit")(0); }
static CUresult count() {
    int n = 0;
    return entry<CUresult (*)(int*)>("cuDeviceGetCount")(&n);
}
static CUresult synchronize() { return entry<CUresult (*)()>("cuCtxSynchronize")(); }
static void use() {
    CUcontext context;
    CUdeviceptr memory;
    EXPECT_SUCCESS(entry<CUresult (*)(CUcontext*, CUdevice)>("cuDevicePrimaryCtxRetain")(&context, 0));
    EXPECT_SUCCESS(entry<CUresult (*)(CUcontext)>("cuCtxSetCurrent")(context));
    EXPECT_SUCCESS(entry<CUresult (*)(CUdeviceptr*, size_t)>("cuMemAlloc_v2")(&memory, 4096));
    EXPECT_SUCCESS(entry<CUresult (*)(CUdeviceptr, unsigned char, size_t)>("cuMemsetD8_v2")(memory, 7, 4096));
    unsigned char byte = 0;
    EXPECT_SUCCESS(entry<CUresult (*)(void*, CUdeviceptr, size_t)>("cuMemcpyDtoH_v2")(&byte, memory + 9, 1));
    EXPECT(byte == 7);
}

struct Late {
    bool armed = false;
    ~Late() {
        if (!armed) return;
        CUresult r = synchronize();
        // CUDA may still answer here, or say that it is over; what it may not do is crash or hang.
        if (r != CUDA_ERROR_DEINITIALIZED) EXPECT_SUCCESS(r);
        std::printf("late: verified\n");
        std::fflush(stdout);
    }
};
static Late late;

int main(int argc, char** argv) {
    const char* which = argc > 1 ? argv[1] : "before";
    if (!std::strcmp(which, "before")) {
        EXPECT(count() == CUDA_ERROR_NOT_INITIALIZED);
        EXPECT(synchronize() == CUDA_ERROR_NOT_INITIALIZED);
        int version = 0;
        EXPECT(entry<CUresult (*)(int*)>("cuDriverGetVersion")(&version) == CUDA_SUCCESS && version >= 12000);
        EXPECT_SUCCESS(init());
        EXPECT_SUCCESS(init());
        EXPECT_SUCCESS(count());
        EXPECT(synchronize() == CUDA_ERROR_INVALID_CONTEXT);
    } else if (!std::strcmp(which, "fork")) {
        EXPECT_SUCCESS(init());
        use();
        pid_t child = fork();
        if (child == 0) {
            EXPECT(count() == CUDA_ERROR_NOT_INITIALIZED);
            std::exit(0);
        }
        int status = 0;
        EXPECT(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
        use();  // the parent's session is untouched
    } else if (!std::strcmp(which, "fork_first")) {
        pid_t child = fork();
        if (child == 0) {
            EXPECT_SUCCESS(init());
            use();
            std::exit(0);
        }
        int status = 0;
        EXPECT(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    } else if (!std::strcmp(which, "late")) {
        EXPECT_SUCCESS(init());
        use();
        late.armed = true;
        std::atexit([] { (void)synchronize(); });
        std::exit(0);
    } else if (!std::strcmp(which, "threads")) {
        std::vector<std::thread> threads;
        std::atomic<int> good{0};
        for (int t = 0; t < 8; ++t)
            threads.emplace_back([&] {
                EXPECT_SUCCESS(init());
                use();
                ++good;
            });
        for (auto& t : threads) t.join();
        EXPECT(good == 8);
    } else {
        return 2;
    }
    std::printf("%s: verified\n", which);
    return 0;
}
