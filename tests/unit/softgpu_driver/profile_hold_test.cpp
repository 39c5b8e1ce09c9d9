// Row DB-50 of docs/driver-behaviour.md: which calls of other threads wait while a call that waits holds the context.
#include <vector>

#include "tests/unit/softgpu_driver/profiles.h"

namespace softgpu_test {
namespace {

constexpr size_t k_bytes = size_t{2} << 20;  // more than is staged

struct Named {
    const char* name;
    std::function<CUresult()> call;
};

/// A stream that stands still, which the legacy default stream waits for, one that is free, and what calls need.
struct Scene {
    Gate gate;
    CUstream busy = nullptr, idle = nullptr, unused = nullptr;
    CUdeviceptr memory = 0, other = 0, unused_memory = 0, from_pool = 0;
    void* locked = nullptr;
    void* unused_locked = nullptr;
    CUevent event = nullptr, done = nullptr, unused_event = nullptr;
    CUmodule module = load_kernels();
    CUgraphExec graph = nullptr;
    std::vector<uint8_t> pageable, registered;

    Scene() : pageable(k_bytes), registered(k_bytes) {
        EXPECT_CU(CU(cuStreamCreate)(&busy, CU_STREAM_DEFAULT));
        for (CUstream* one : {&idle, &unused}) EXPECT_CU(CU(cuStreamCreate)(one, CU_STREAM_NON_BLOCKING));
        for (CUdeviceptr* one : {&memory, &other, &unused_memory}) EXPECT_CU(CU(cuMemAlloc_v2)(one, k_bytes));
        for (void** one : {&locked, &unused_locked}) EXPECT_CU(CU(cuMemHostAlloc)(one, k_bytes, 0));
        for (CUevent* one : {&event, &done, &unused_event}) EXPECT_CU(CU(cuEventCreate)(one, CU_EVENT_DISABLE_TIMING));
        CUgraph made = nullptr;
        EXPECT_CU(CU(cuGraphCreate)(&made, 0));
        EXPECT_CU(CU(cuGraphInstantiateWithFlags)(&graph, made, 0));
        EXPECT_CU(launch_store(module, memory, 1, idle));  // loaded
        EXPECT_CU(CU(cuMemAllocAsync)(&from_pool, 64, idle));
        EXPECT_CU(CU(cuEventRecord)(done, idle));
        EXPECT_CU(CU(cuCtxSynchronize)());
        EXPECT_CU(CU(cuLaunchHostFunc)(
            busy, [](void* user) { static_cast<Gate*>(user)->pass(); }, &gate));
        EXPECT_CU(CU(cuEventRecord)(event, busy));
    }

    ~Scene() {
        gate.open();
        EXPECT_CU(CU(cuCtxSynchronize)());
        CU(cuMemHostUnregister)(registered.data());  // if it was
    }

    /// Calls that hold the whole context while they wait.
    std::vector<Named> holding_everything() {
        return {{"copy from the device", [this] { return CU(cuMemcpyDtoH_v2)(pageable.data(), memory, 64); }},
                {"to page-locked memory", [this] { return CU(cuMemcpyDtoH_v2)(locked, memory, 64); }},
                {"copy to the device", [this] { return CU(cuMemcpyHtoD_v2)(memory, pageable.data(), k_bytes); }},
                {"free", [this] { return CU(cuMemFree_v2)(unused_memory); }},
                {"free of page-locked memory", [this] { return CU(cuMemFreeHost)(unused_locked); }}};
    }
    /// So do loads.
    std::vector<Named> loading() {
        return {{"load", [] { return load(); }}};
    }
    /// Those that hold what making needs.
    std::vector<Named> holding_making() {
        return {{"asynchronous copy to pageable memory",
                 [this] { return CU(cuMemcpyDtoHAsync_v2)(pageable.data(), memory, 64, busy); }},
                {"large asynchronous copy of pageable memory",
                 [this] { return CU(cuMemcpyHtoDAsync_v2)(memory, pageable.data(), k_bytes, busy); }},
                {"full queue", [this] { return fill(); }}};
    }
    std::vector<Named> holding_nothing() {
        return {{"cuStreamSynchronize", [this] { return CU(cuStreamSynchronize)(busy); }},
                {"cuEventSynchronize", [this] { return CU(cuEventSynchronize)(event); }},
                {"cuCtxSynchronize", [] { return CU(cuCtxSynchronize)(); }}};
    }

    /// Work for a stream.
    std::vector<Named> queueing() {
        return {{"launch", [this] { return launch_store(module, other, 2, idle); }},
                {"launch of a graph", [this] { return CU(cuGraphLaunch)(graph, idle); }},
                {"record", [this] { return CU(cuEventRecord)(done, idle); }},
                {"asynchronous copy", [this] { return CU(cuMemcpyHtoDAsync_v2)(other, locked, 64, idle); }},
                {"fill", [this] { return CU(cuMemsetD8Async)(other, 0, 64, idle); }}};
    }
    std::vector<Named> making() {
        return {{"host function",
                 [this] {
                     return CU(cuLaunchHostFunc)(
                         idle, [](void*) {}, nullptr);
                 }},
                {"cuEventCreate", [] { return CU(cuEventCreate)(&scratch<CUevent>(), 0); }},
                {"cuEventDestroy", [this] { return CU(cuEventDestroy_v2)(unused_event); }},
                {"cuStreamCreate", [] { return CU(cuStreamCreate)(&scratch<CUstream>(), 0); }},
                {"cuStreamDestroy", [this] { return CU(cuStreamDestroy_v2)(unused); }},
                {"cuMemAlloc", [] { return CU(cuMemAlloc_v2)(&scratch<CUdeviceptr>(), 64); }},
                {"cuMemHostAlloc", [] { return CU(cuMemHostAlloc)(&scratch<void*>(), 64, 0); }},
                {"cuMemHostRegister", [this] { return CU(cuMemHostRegister_v2)(registered.data(), k_bytes, 0); }},
                {"load", [] { return load(); }}};
    }
    /// What goes on beside everything.
    std::vector<Named> asking() {
        return {
            {"cuStreamQuery", [this] { return CU(cuStreamQuery)(unused); }},
            {"cuEventQuery", [this] { return CU(cuEventQuery)(done); }},
            {"cuEventSynchronize", [this] { return CU(cuEventSynchronize)(done); }},
            {"cuStreamSynchronize", [this] { return CU(cuStreamSynchronize)(unused); }},
            {"cuStreamWaitEvent", [this] { return CU(cuStreamWaitEvent)(unused, done, 0); }},
            {"cuMemFreeAsync", [this] { return CU(cuMemFreeAsync)(from_pool, unused); }},
            {"cuMemAllocAsync", [this] { return CU(cuMemAllocAsync)(&scratch<CUdeviceptr>(), 64, unused); }},
            {"cuMemGetInfo", [] { return CU(cuMemGetInfo_v2)(&scratch<size_t>(), &scratch<size_t>()); }},
            {"cuMemAddressReserve", [] { return CU(cuMemAddressReserve)(&scratch<CUdeviceptr>(), size_t{2} << 20, 0, 0, 0); }}};
    }

private:
    template <typename T>
    static T& scratch() {
        thread_local T value{};
        return value;
    }
    static CUresult load() { return CU(cuModuleLoadData)(&scratch<CUmodule>(), k_kernels_ptx); }
    CUresult fill() {
        for (int i = 0; i < 16; ++i) {
            if (CUresult result = CU(cuMemsetD8Async)(memory, 0, 64, busy); result != CUDA_SUCCESS) return result;
        }
        return CUDA_SUCCESS;
    }
};

using Choice = std::vector<Named> (Scene::*)();

/// For each pair: while one thread waits in the first call, does another's second call wait, too?
void expect_held(const std::string& profile, Choice holding, Choice calls, bool held) {
    on_profile(profile, [=] {
        const size_t firsts = (Scene().*holding)().size(), seconds = (Scene().*calls)().size();
        for (size_t first = 0; first < firsts; ++first) {
            for (size_t second = 0; second < seconds; ++second) {
                Scene scene;
                const Named waits = (scene.*holding)()[first], goes = (scene.*calls)()[second];
                SCOPED_TRACE(std::string(waits.name) + ", then " + goes.name);
                Calling waiting([&] { EXPECT_CU(waits.call()); });
                EXPECT_FALSE(waiting.returned());
                Calling going([&] { EXPECT_CU(goes.call()); });
                if (held) {
                    EXPECT_FALSE(going.returned());
                } else {
                    going.join();  // one that waits never comes back: the test's time-out ends it
                }
                scene.gate.open();
            }
        }
    });
}

const char* const k_strict = "strict,launch_queue=8,host_allocations=free";

TEST(ProfileHoldTest, SynchronousCopiesFreesAndLoadsHoldTheContext) {
    for (Choice holding : {&Scene::holding_everything, &Scene::loading}) {
        expect_held(k_strict, holding, &Scene::queueing, true);
        expect_held(k_strict, holding, &Scene::making, true);
        expect_held(k_strict, holding, &Scene::asking, false);
    }
}

TEST(ProfileHoldTest, FullQueuesHoldWhatMakes) {
    expect_held(k_strict, &Scene::holding_making, &Scene::queueing, false);
    expect_held(k_strict, &Scene::holding_making, &Scene::making, true);
    expect_held(k_strict, &Scene::holding_making, &Scene::asking, false);
}

TEST(ProfileHoldTest, WaitsHoldNothing) {
    expect_held(k_strict, &Scene::holding_nothing, &Scene::queueing, false);
    expect_held(k_strict, &Scene::holding_nothing, &Scene::asking, false);
}

TEST(ProfileHoldTest, GenerousCallsHoldNothing) {
    const std::string generous = "generous,launch_queue=8,pageable_staging=64KiB";
    expect_held(generous, &Scene::holding_everything, &Scene::queueing, false);
    expect_held(generous, &Scene::holding_making, &Scene::asking, false);
    expect_held("strict,launch_queue=8,context_calls=free", &Scene::holding_making, &Scene::queueing, false);
}

}  // namespace
}  // namespace softgpu_test
