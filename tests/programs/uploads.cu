// For test_upload_cache.py: uploads MEBIBYTES of numbers that SEED makes, in pieces of PIECE kibibytes, and says how long it took
// until the device had all of it. Every number is compared with what is on the device then.
//   uploads MEBIBYTES PIECE SEED [async] [change N: the numbers of mebibyte N are other ones] [twice] [write FILE: only that]
//   uploads MEBIBYTES 0 SEED module: loads a module whose text is that long, and launches its kernel
#include <cuda.h>
#include <time.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "check.h"

constexpr size_t k_words_per_mebibyte = (1 << 20) / sizeof(uint32_t);

struct Wish {
    size_t mebibytes = 64, piece_bytes = 1 << 20;
    unsigned seed = 1, rounds = 1;
    bool async = false;
    long changed = -1;
    const char* file = nullptr;
    bool module = false;
};

static Wish read(int argc, char** argv) {
    Wish wish;
    if (argc > 1) wish.mebibytes = std::strtoul(argv[1], nullptr, 10);
    if (argc > 2) wish.piece_bytes = std::strtoul(argv[2], nullptr, 10) << 10;
    if (argc > 3) wish.seed = static_cast<unsigned>(std::strtoul(argv[3], nullptr, 10));
    for (int i = 4; i < argc; ++i) {
        const std::string word = argv[i];
        if (word == "module") wish.module = true;
        if (word == "async") wish.async = true;
        if (word == "twice") wish.rounds = 2;
        if (word == "write" && i + 1 < argc) wish.file = argv[++i];
        if (word == "change" && i + 1 < argc) wish.changed = std::strtol(argv[++i], nullptr, 10);
    }
    return wish;
}

static void fill(uint32_t* words, const Wish& wish) {
    for (size_t i = 0; i < wish.mebibytes; ++i) {
        const unsigned other = static_cast<long>(i) == wish.changed ? 7919 : 0;
        uint64_t state = (wish.seed + other) * 0x9e3779b97f4a7c15ull + i * 0xbf58476d1ce4e5b9ull + 1;
        for (size_t j = 0; j < k_words_per_mebibyte; ++j) {
            state ^= state << 13, state ^= state >> 7, state ^= state << 17;
            words[i * k_words_per_mebibyte + j] = static_cast<uint32_t>(state >> 16);
        }
    }
}

static double seconds() {
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

static int write_file(const Wish& wish) {
    std::vector<uint32_t> words((wish.mebibytes << 20) / sizeof(uint32_t));
    fill(words.data(), wish);
    FILE* file = std::fopen(wish.file, "wb");
    EXPECT(file != nullptr);
    EXPECT_EQ(std::fwrite(words.data(), sizeof(uint32_t), words.size(), file), words.size());
    EXPECT_EQ(std::fclose(file), 0);
    return 0;
}

template <typename F>
static F driver_function(const char* name) {
    void* found = nullptr;
    cudaDriverEntryPointQueryResult result{};
    CHECK(cudaGetDriverEntryPointByVersion(name, &found, 12000, cudaEnableDefault, &result));
    EXPECT(result == cudaDriverEntryPointSuccess);
    return reinterpret_cast<F>(found);
}

/// A kernel that stores a number, and a comment that no two seeds have in common.
static int load_module(const Wish& wish) {
    CHECK(cudaFree(nullptr));
    std::string text = ".version 7.0\n.target sm_52\n.address_size 64\n/*";
    uint64_t state = wish.seed * 0x9e3779b97f4a7c15ull + 1;
    while (text.size() < wish.mebibytes << 20) {
        state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        text += std::to_string(state) + "\n";
    }
    text += "*/\n.visible .entry store(.param .u64 where) {\n.reg .u64 %a;\n.reg .u32 %v;\nld.param.u64 %a, [where];\n"
            "cvta.to.global.u64 %a, %a;\nmov.u32 %v, 4711;\nst.global.u32 [%a], %v;\nret;\n}\n";
    CUmodule module = nullptr;
    EXPECT_EQ(driver_function<CUresult (*)(CUmodule*, const void*)>("cuModuleLoadData")(&module, text.c_str()), CUDA_SUCCESS);
    CUfunction store = nullptr;
    EXPECT_EQ(driver_function<CUresult (*)(CUfunction*, CUmodule, const char*)>("cuModuleGetFunction")(&store, module, "store"), CUDA_SUCCESS);
    DeviceArray<unsigned> number(1);
    unsigned* where = number.data();
    void* params[] = {&where};
    const auto launch = driver_function<decltype(&cuLaunchKernel)>("cuLaunchKernel");
    EXPECT_EQ(launch(store, 1, 1, 1, 1, 1, 1, 0, nullptr, params, nullptr), CUDA_SUCCESS);
    EXPECT_EQ(number.download()[0], 4711u);
    return passed("uploads");
}

int main(int argc, char** argv) {
    const Wish wish = read(argc, argv);
    if (wish.module) return load_module(wish);
    if (wish.file != nullptr) return write_file(wish);
    const size_t bytes = wish.mebibytes << 20;
    uint32_t* host = nullptr;
    CHECK(cudaMallocHost(&host, bytes));
    fill(host, wish);
    std::vector<uint32_t> pageable;
    if (!wish.async) pageable.assign(host, host + bytes / sizeof(uint32_t));
    const auto* source = reinterpret_cast<const char*>(wish.async ? host : pageable.data());
    DeviceArray<char> device(bytes);
    CHECK(cudaDeviceSynchronize());
    for (unsigned round = 0; round < wish.rounds; ++round) {
        CHECK(cudaMemset(device.data(), 0, bytes));
        CHECK(cudaDeviceSynchronize());
        const double begin = seconds();
        for (size_t at = 0; at < bytes; at += wish.piece_bytes) {
            const size_t piece = std::min(wish.piece_bytes, bytes - at);
            if (wish.async) {
                CHECK(cudaMemcpyAsync(device.data() + at, source + at, piece, cudaMemcpyHostToDevice, nullptr));
            } else {
                CHECK(cudaMemcpy(device.data() + at, source + at, piece, cudaMemcpyHostToDevice));
            }
        }
        CHECK(cudaDeviceSynchronize());
        std::printf("uploaded in %.4f s\n", seconds() - begin);
        const std::vector<char> back = device.download();
        EXPECT(std::memcmp(back.data(), host, bytes) == 0);
    }
    CHECK(cudaFreeHost(host));
    return passed("uploads");
}
