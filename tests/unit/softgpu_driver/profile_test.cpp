// The rows of docs/driver-behaviour.md that are about work: DB-01 to DB-05.
#include <array>
#include <mutex>
#include <set>
#include <thread>

#include "tests/unit/softgpu_driver/profiles.h"

namespace softgpu_test {
namespace {

TEST(ProfileTest, UnknownWordsAreRefused) {
    for (const char* wrong : {"lenient", "strict,vmm", "strict,vmm=maybe", "launch_queue=many", "hints=ignored,strict"}) {
        in_process({{"SOFTGPU_PROFILE", wrong}}, [] { EXPECT_EQ(CU(cuInit)(0), CUDA_ERROR_INVALID_VALUE); });
    }
}

/// DB-01. How many of a stream's host functions are called that come after a kernel that fails: one by cuLaunchHostFunc, one by
/// a graph, and the callback of cuStreamAddCallback, which gets the error.
struct Called {
    int functions = 0, nodes = 0;
    CUresult callback = CUDA_SUCCESS;
};

Called called_after_error() {
    Called called;
    CUstream stream = nullptr;
    EXPECT_CU(CU(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING));
    CUgraph graph = nullptr;
    CUgraphNode node = nullptr;
    CUgraphExec exec = nullptr;
    CUDA_HOST_NODE_PARAMS params{[](void* user) { ++static_cast<Called*>(user)->nodes; }, &called};
    EXPECT_CU(CU(cuGraphCreate)(&graph, 0));
    EXPECT_CU(CU(cuGraphAddHostNode)(&node, graph, nullptr, 0, &params));
    EXPECT_CU(CU(cuGraphInstantiateWithFlags)(&exec, graph, 0));
    CUfunction trap = kernel(load_kernels(), "trap");
    Gate gate;  // nothing fails before everything has been submitted
    EXPECT_CU(CU(cuLaunchHostFunc)(
        stream, [](void* user) { static_cast<Gate*>(user)->pass(); }, &gate));
    EXPECT_CU(CU(cuLaunchKernel)(trap, 1, 1, 1, 1, 1, 1, 0, stream, nullptr, nullptr));
    EXPECT_CU(CU(cuLaunchHostFunc)(
        stream, [](void* user) { ++static_cast<Called*>(user)->functions; }, &called));
    EXPECT_CU(CU(cuStreamAddCallback)(
        stream, [](CUstream, CUresult result, void* user) { static_cast<Called*>(user)->callback = result; }, &called, 0));
    EXPECT_CU(CU(cuGraphLaunch)(exec, stream));
    gate.open();
    EXPECT_EQ(CU(cuStreamSynchronize)(stream), CUDA_ERROR_LAUNCH_FAILED);
    return called;
}

TEST(ProfileTest, HostFunctionsAfterAnError) {
    for (const char* profile : {"generous", "strict", "generous,after_error=silent"}) {
        on_profile(profile, [] {
            Called called = called_after_error();
            EXPECT_EQ(called.functions, 0);
            EXPECT_EQ(called.nodes, 0);
            EXPECT_EQ(called.callback, CUDA_ERROR_LAUNCH_FAILED);
        });
    }
    on_profile("strict,after_error=called", [] {
        Called called = called_after_error();
        EXPECT_EQ(called.functions, 1);
        EXPECT_EQ(called.nodes, 1);
        EXPECT_EQ(called.callback, CUDA_ERROR_LAUNCH_FAILED);
    });
}

/// DB-02. Who calls the host functions of several streams, and how many are being called at the same time.
struct Calls {
    std::mutex mutex;
    std::set<std::thread::id> threads;
    int now = 0, most = 0;

    static void enter(void* user) {
        auto& calls = *static_cast<Calls*>(user);
        {
            std::lock_guard lock(calls.mutex);
            calls.threads.insert(std::this_thread::get_id());
            calls.most = std::max(calls.most, ++calls.now);
        }
        for (int i = 0; i < 1000; ++i) std::this_thread::yield();
        std::lock_guard lock(calls.mutex);
        --calls.now;
    }
};

TEST(ProfileTest, SerialHostFunctionsRunOnOneThread) {
    for (const char* profile : {"strict", "generous,host_functions=serial"}) {
        on_profile(profile, [] {
            Calls calls;
            for (int i = 0; i < 8; ++i) {
                CUstream stream = nullptr;
                ASSERT_CU(CU(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING));
                for (int k = 0; k < 4; ++k) EXPECT_CU(CU(cuLaunchHostFunc)(stream, Calls::enter, &calls));
                EXPECT_CU(CU(cuStreamAddCallback)(
                    stream, [](CUstream, CUresult, void* user) { Calls::enter(user); }, &calls, 0));
            }
            EXPECT_CU(CU(cuCtxSynchronize)());
            EXPECT_EQ(calls.threads.size(), 1u);
            EXPECT_EQ(calls.most, 1);
        });
    }
}

TEST(ProfileTest, ParallelHostFunctionsDoNotStallEachOther) {
    for (const char* profile : {"generous", "strict,host_functions=parallel"}) {
        on_profile(profile, [] {
            CUstream first = nullptr, second = nullptr;
            ASSERT_CU(CU(cuStreamCreate)(&first, CU_STREAM_NON_BLOCKING));
            ASSERT_CU(CU(cuStreamCreate)(&second, CU_STREAM_NON_BLOCKING));
            Gate gate;
            // The first can only end by what the second does.
            EXPECT_CU(CU(cuLaunchHostFunc)(
                first, [](void* user) { static_cast<Gate*>(user)->pass(); }, &gate));
            EXPECT_CU(CU(cuLaunchHostFunc)(
                second, [](void* user) { static_cast<Gate*>(user)->open(); }, &gate));
            EXPECT_CU(CU(cuCtxSynchronize)());
        });
    }
}

/// DB-03. How many calls on a stream had returned by the time at which its first work went on.
struct Burst {
    Gate gate;
    std::atomic<int> returned{0};
    int seen = 0;
};

void burst_of(int launches, Burst& burst, int expected) {
    CUmodule module = load_kernels();
    CUdeviceptr memory = 0;
    ASSERT_CU(CU(cuMemAlloc_v2)(&memory, 64));
    CUfunction store = kernel(module, "store");
    CUstream stream = nullptr;
    ASSERT_CU(CU(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING));
    CUcontext context = nullptr;
    ASSERT_CU(CU(cuCtxGetCurrent)(&context));
    auto note = [](void* user) {
        auto& seen = *static_cast<Burst*>(user);
        seen.gate.pass();
        seen.seen = seen.returned;
    };
    EXPECT_CU(CU(cuLaunchHostFunc)(stream, note, &burst));
    burst.returned = 1;
    std::thread launching([&] {
        EXPECT_CU(CU(cuCtxSetCurrent)(context));
        uint32_t value = 1;
        void* params[] = {&memory, &value};
        for (int i = 0; i < launches; ++i) {
            EXPECT_CU(CU(cuLaunchKernel)(store, 1, 1, 1, 1, 1, 1, 0, stream, params, nullptr));
            ++burst.returned;
            burst.returned.notify_all();
        }
    });
    for (int now = burst.returned; now != expected; now = burst.returned) burst.returned.wait(now);
    burst.gate.open();
    launching.join();
    EXPECT_CU(CU(cuStreamSynchronize)(stream));
    EXPECT_EQ(burst.seen, expected);
}

TEST(ProfileTest, LaunchesWaitForRoomInTheQueue) {
    on_profile("generous,launch_queue=4", [] {
        Burst burst;
        burst_of(10, burst, 4);
    });
    on_profile("strict", [] {
        Burst burst;
        burst_of(1500, burst, 1024);
    });
    on_profile("generous", [] {
        Burst burst;
        burst_of(1500, burst, 1501);
    });
}

/// DB-04 and DB-05. What a call does to a relaxed capture on another stream of the device, made by the same thread.
struct Disturbed {
    CUresult call, end;
};

Disturbed during_capture(const std::function<CUresult()>& call) {
    CUstream stream = nullptr;
    EXPECT_CU(CU(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING));
    EXPECT_CU(CU(cuStreamBeginCapture_v2)(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    Disturbed seen{call(), CUDA_SUCCESS};
    CUgraph graph = nullptr;
    seen.end = CU(cuStreamEndCapture)(stream, &graph);
    EXPECT_EQ(graph != nullptr, seen.end == CUDA_SUCCESS);
    return seen;
}

void expect_during_capture(bool breaks, const std::function<CUresult()>& call) {
    Disturbed seen = during_capture(call);
    EXPECT_EQ(seen.call, breaks ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS);
    EXPECT_EQ(seen.end, breaks ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_SUCCESS);
}

TEST(ProfileTest, SynchronisationOfTheContextBreaksCaptures) {
    for (auto [profile, breaks] : {std::pair("strict", true), std::pair("generous,synchronise_in_capture=refused", true),
                                   std::pair("generous", false), std::pair("strict,synchronise_in_capture=by_mode", false)}) {
        on_profile(profile, [breaks = breaks] { expect_during_capture(breaks, [] { return CU(cuCtxSynchronize)(); }); });
    }
}

TEST(ProfileTest, FreesBreakCaptures) {
    for (auto [profile, breaks] : {std::pair("strict,free_synchronises=yes", true), std::pair("strict", false),
                                   std::pair("generous,free_synchronises=yes", true), std::pair("generous", false)}) {
        on_profile(profile, [breaks = breaks] {
            CUdeviceptr memory = 0, managed = 0, mapped = 0;
            void* host = nullptr;
            ASSERT_CU(CU(cuMemAlloc_v2)(&memory, 64));
            ASSERT_CU(CU(cuMemAllocManaged)(&managed, 64, CU_MEM_ATTACH_GLOBAL));
            ASSERT_CU(CU(cuMemHostAlloc)(&host, 64, 0));
            CUmemAllocationProp prop{};
            prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
            prop.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
            CUmemGenericAllocationHandle handle = 0;
            const size_t bytes = 2 << 20;
            ASSERT_CU(CU(cuMemAddressReserve)(&mapped, bytes, 0, 0, 0));
            ASSERT_CU(CU(cuMemCreate)(&handle, bytes, &prop, 0));
            ASSERT_CU(CU(cuMemMap)(mapped, bytes, 0, handle, 0));
            expect_during_capture(breaks, [&] { return CU(cuMemFree_v2)(memory); });
            expect_during_capture(breaks, [&] { return CU(cuMemFree_v2)(managed); });
            expect_during_capture(breaks, [&] { return CU(cuMemFreeHost)(host); });
            expect_during_capture(breaks, [&] { return CU(cuMemUnmap)(mapped, bytes); });
            // What was refused has not been done, and can be done now.
            EXPECT_EQ(CU(cuMemFree_v2)(memory), breaks ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
            EXPECT_EQ(CU(cuMemFreeHost)(host), breaks ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
        });
    }
}

TEST(ProfileTest, FreesLeaveCapturesOnOtherDevicesAlone) {
    on_profile("strict,free_synchronises=yes",
               [] {
                   CUcontext first = nullptr, second = nullptr;
                   ASSERT_CU(CU(cuCtxGetCurrent)(&first));
                   CUdeviceptr memory = 0;
                   ASSERT_CU(CU(cuMemAlloc_v2)(&memory, 64));
                   ASSERT_CU(CU(cuCtxCreate_v4)(&second, nullptr, 0, 1));
                   expect_during_capture(false, [&] { return CU(cuMemFree_v2)(memory); });
                   expect_during_capture(false, [&] { return CU(cuCtxSynchronize_v2)(first); });
               },
               {{"SOFTGPU_DEVICES", "2"}});
}

}  // namespace
}  // namespace softgpu_test
