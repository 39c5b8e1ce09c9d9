// What a program sees of the variables that drivers heed. Argument: what to say.
//   devices   one line per device: PCI bus id and UUID
//   loading   how modules are loaded; launches nothing
//   launches  ten launches in a stream of its own
#include <cuda.h>
#include <dlfcn.h>

#include <string>

#include "check.h"

__global__ void add_one(int* data) { *data += 1; }

template <typename F>
static F entry(const char* name) {
    void* library = dlopen("libcuda.so.1", RTLD_NOW);
    EXPECT(library != nullptr);
    return reinterpret_cast<F>(dlsym(library, name));
}

static int tell_devices() {
    int count = 0;
    const cudaError_t error = cudaGetDeviceCount(&count);
    if (error != cudaSuccess) {
        std::printf("error %d\n", error);
        return 0;
    }
    for (int i = 0; i < count; ++i) {
        char bus[32];
        CHECK(cudaDeviceGetPCIBusId(bus, sizeof bus, i));
        cudaDeviceProp properties;
        CHECK(cudaGetDeviceProperties(&properties, i));
        std::printf("%s ", bus);
        for (char byte : properties.uuid.bytes) std::printf("%02x", static_cast<unsigned char>(byte));
        std::printf("\n");
    }
    return 0;
}

static int tell_loading() {
    CHECK(cudaFree(nullptr));
    CUmoduleLoadingMode mode;
    EXPECT_EQ(entry<CUresult (*)(CUmoduleLoadingMode*)>("cuModuleGetLoadingMode")(&mode), CUDA_SUCCESS);
    CUfunction function;
    CUfunctionLoadingState state = CU_FUNCTION_LOADING_STATE_MAX;
    CHECK(cudaGetFuncBySymbol(&function, reinterpret_cast<const void*>(add_one)));
    EXPECT_EQ(entry<CUresult (*)(CUfunctionLoadingState*, CUfunction)>("cuFuncIsLoaded")(&state, function), CUDA_SUCCESS);
    EXPECT(mode != CU_MODULE_EAGER_LOADING || state == CU_FUNCTION_LOADING_STATE_LOADED);
    std::printf("%s\n", mode == CU_MODULE_EAGER_LOADING ? "eager" : "lazy");
    return 0;
}

static int launch() {
    int* data;
    CHECK(cudaMalloc(&data, sizeof(int)));
    CHECK(cudaMemset(data, 0, sizeof(int)));
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    for (int i = 0; i < 10; ++i) add_one<<<1, 1, 0, stream>>>(data);
    CHECK(cudaGetLastError());
    int value = 0;
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaMemcpy(&value, data, sizeof value, cudaMemcpyDeviceToHost));
    EXPECT_EQ(value, 10);
    std::printf("verified\n");
    return 0;
}

int main(int argc, char** argv) {
    const std::string what = argc > 1 ? argv[1] : "";
    if (what == "devices") return tell_devices();
    if (what == "loading") return tell_loading();
    EXPECT(what == "launches");
    return launch();
}
