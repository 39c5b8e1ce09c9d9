// NCCL: one communicator of all devices of a server, in one process: sums, broadcasts and gathers.
#include <nccl.h>

#include "library.h"

#define NCCL(call) check(call, ncclSuccess, #call, __LINE__)

int main(int argc, char** argv) {
    const int ranks = argc > 1 ? std::atoi(argv[1]) : 1;
    constexpr size_t k_count = 1 << 16;
    std::vector<int> devices(ranks);
    for (int i = 0; i < ranks; ++i) devices[i] = i;
    std::vector<ncclComm_t> communicators(ranks);
    NCCL(ncclCommInitAll(communicators.data(), ranks, devices.data()));
    std::vector<float*> from(ranks), to(ranks);
    std::vector<cudaStream_t> streams(ranks);
    for (int i = 0; i < ranks; ++i) {
        CUDA(cudaSetDevice(i));
        CUDA(cudaMalloc(&from[i], k_count * sizeof(float)));
        CUDA(cudaMalloc(&to[i], k_count * ranks * sizeof(float)));
        CUDA(cudaStreamCreate(&streams[i]));
    }
    const auto all = [&](auto collective) {
        NCCL(ncclGroupStart());
        for (int i = 0; i < ranks; ++i) NCCL(collective(i));
        NCCL(ncclGroupEnd());
    };
    all([&](int i) { return ncclAllReduce(from[i], to[i], k_count, ncclFloat, ncclSum, communicators[i], streams[i]); });
    all([&](int i) { return ncclBroadcast(from[i], to[i], k_count, ncclFloat, 0, communicators[i], streams[i]); });
    all([&](int i) { return ncclAllGather(from[i], to[i], k_count, ncclFloat, communicators[i], streams[i]); });
    for (int i = 0; i < ranks; ++i) {
        CUDA(cudaSetDevice(i));
        CUDA(cudaStreamSynchronize(streams[i]));
        NCCL(ncclCommDestroy(communicators[i]));
        CUDA(cudaFree(from[i]));
        CUDA(cudaFree(to[i]));
    }
    return done("nccl");
}
