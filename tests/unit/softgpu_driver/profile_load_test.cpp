// The rows of docs/driver-behaviour.md about loading code, DB-15, and about what contexts cost, DB-16.
#include "tests/unit/softgpu_driver/profiles.h"

namespace softgpu_test {
namespace {

/// Kernels of a module of its own: a kernel that runs until a word is not 0, and one that has not been used.
struct Busy {
    CUmodule module = load_kernels();
    CUdeviceptr flag = 0, memory = 0;
    CUstream stream = nullptr;
    CUcontext context = nullptr;

    explicit Busy(bool use_store) {
        EXPECT_CU(CU(cuCtxGetCurrent)(&context));
        EXPECT_CU(CU(cuMemAlloc_v2)(&flag, 64));
        EXPECT_CU(CU(cuMemAlloc_v2)(&memory, 64));
        EXPECT_CU(CU(cuMemsetD32_v2)(flag, 0, 16));
        EXPECT_CU(CU(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING));
        if (use_store) {
            EXPECT_CU(launch_store(module, memory, 1));
        }
        EXPECT_CU(CU(cuCtxSynchronize)());
        EXPECT_CU(launch_wait(module, flag, stream));
    }
    void release() const {
        // Not through the driver, whose calls may wait for a load: host and device share memory here.
        std::atomic_ref<uint32_t>(*reinterpret_cast<uint32_t*>(flag)).store(1);
    }
    bool running() const { return CU(cuStreamQuery)(stream) == CUDA_ERROR_NOT_READY; }
};

/// A call that loads code waits for a kernel that runs.
void expect_waits(const Busy& busy, const std::function<CUresult()>& load) {
    Calling loading([&] { EXPECT_CU(load()); });
    EXPECT_FALSE(loading.returned());
    busy.release();
    loading.join();
    EXPECT_CU(CU(cuCtxSynchronize)());
}

void expect_goes_on(const Busy& busy, const std::function<CUresult()>& load) {
    EXPECT_CU(load());
    EXPECT_TRUE(busy.running());
    busy.release();
    EXPECT_CU(CU(cuCtxSynchronize)());
}

CUresult load_another() {
    CUmodule module = nullptr;
    return CU(cuModuleLoadData)(&module, k_kernels_ptx);
}

CUresult use(const Busy& busy, const char* name) {
    CUfunction function = nullptr;
    return CU(cuModuleGetFunction)(&function, busy.module, name);
}

CUmoduleLoadingMode mode() {
    CUmoduleLoadingMode now{};
    EXPECT_CU(CU(cuModuleGetLoadingMode)(&now));
    return now;
}

TEST(ProfileLoadTest, LazyLoadingSynchronisesAtTheFirstUse) {
    for (const char* profile : {"strict", "generous,loading=lazy"}) {
        on_profile(profile, [] {
            EXPECT_EQ(mode(), CU_MODULE_LAZY_LOADING);
            Busy busy(false);
            expect_waits(busy, [&] { return use(busy, "store"); });
        });
        on_profile(profile, [] { expect_waits(Busy(false), load_another); });
        on_profile(profile, [] {
            Busy busy(true);
            expect_goes_on(busy, [&] { return launch_store(busy.module, busy.memory, 2); });
        });
    }
}

TEST(ProfileLoadTest, EagerLoadingSynchronisesAtTheLoad) {
    auto body = [] {
        EXPECT_EQ(mode(), CU_MODULE_EAGER_LOADING);
        Busy busy(false);
        expect_goes_on(busy, [&] { return use(busy, "store"); });
        Busy again(false);
        expect_waits(again, load_another);
    };
    on_profile("strict,loading=eager", body);
    on_profile("strict", body, {{"CUDA_MODULE_LOADING", "EAGER"}});
    in_process({{"SOFTGPU_PROFILE", "generous,loading=eager"}}, [] { EXPECT_EQ(mode(), CU_MODULE_EAGER_LOADING); });
}

TEST(ProfileLoadTest, GenerousLoadsWaitForNothing) {
    for (const char* profile : {"generous", "strict,loading=free"}) {
        on_profile(profile, [] {
            Busy busy(false);
            expect_goes_on(busy, [&] {
                CUresult loaded = load_another();
                return loaded == CUDA_SUCCESS ? use(busy, "store") : loaded;
            });
        });
    }
}

TEST(ProfileLoadTest, OtherThreadsWaitForALoad) {
    on_profile("strict", [] {
        Busy busy(false);
        Calling loading([] { EXPECT_CU(load_another()); });
        EXPECT_FALSE(loading.returned());
        CUdeviceptr memory = 0;
        Calling allocating([&] { EXPECT_CU(CU(cuMemAlloc_v2)(&memory, 64)); });
        EXPECT_FALSE(allocating.returned());
        EXPECT_TRUE(busy.running());  // queries go on (DB-50)
        busy.release();
    });
}

size_t free_bytes() {
    size_t free = 0, total = 0;
    EXPECT_CU(CU(cuMemGetInfo_v2)(&free, &total));
    return free;
}

TEST(ProfileCostTest, ContextsTakeDeviceMemory) {
    struct Case {
        const char* profile;
        size_t bytes;
    };
    for (Case one : {Case{"generous", 0}, Case{"strict", size_t{128} << 20}, Case{"strict,context_bytes=100MiB", 100 << 20},
                     Case{"strict,context_bytes=0", 0}}) {
        auto body = [bytes = one.bytes] {
            const size_t before = free_bytes();
            EXPECT_EQ(before, (size_t{1} << 30) - bytes);
            CUcontext more = nullptr;
            ASSERT_CU(CU(cuCtxCreate_v4)(&more, nullptr, 0, 0));
            EXPECT_EQ(free_bytes(), before - bytes);
            EXPECT_CU(CU(cuCtxDestroy_v2)(more));
            EXPECT_EQ(free_bytes(), before);
        };
        on_profile(one.profile, body, {{"SOFTGPU_MEMORY", "1GiB"}});
    }
}

TEST(ProfileCostTest, ContextsThatDoNotFit) {
    in_process({{"SOFTGPU_PROFILE", "strict,context_bytes=700MiB"}, {"SOFTGPU_MEMORY", "1GiB"}}, [] {
        CUcontext first = nullptr, second = nullptr;
        ASSERT_CU(CU(cuInit)(0));
        EXPECT_CU(CU(cuCtxCreate_v4)(&first, nullptr, 0, 0));
        EXPECT_EQ(CU(cuCtxCreate_v4)(&second, nullptr, 0, 0), CUDA_ERROR_OUT_OF_MEMORY);
        EXPECT_EQ(CU(cuDevicePrimaryCtxRetain)(&second, 0), CUDA_ERROR_OUT_OF_MEMORY);
        EXPECT_CU(CU(cuCtxDestroy_v2)(first));
        EXPECT_CU(CU(cuDevicePrimaryCtxRetain)(&second, 0));
    });
}

}  // namespace
}  // namespace softgpu_test
