// Contexts: none, the stack, primary ones, destroyed ones, limits; and what a reset leaves.
#include <thread>

#include "tests/gpu/probe/question.h"

namespace warpline::probe {

namespace {

void add_without(Questions& all) {
    const Group ask(all, Stage::initialised, "no context");
    ask("no-context/cuCtxGetDevice", [](Asker& a) {
        CUdevice device = 0;
        return static_cast<int>(WL_CU(a.driver, cuCtxGetDevice)(&device));
    });
    ask("no-context/cuModuleLoadData", [](Asker& a) {
        CUmodule module = nullptr;
        return static_cast<int>(WL_CU(a.driver, cuModuleLoadData)(&module, k_ptx));
    });
    ask("no-context/cuCtxSetCacheConfig",
        [](Asker& a) { return static_cast<int>(WL_CU(a.driver, cuCtxSetCacheConfig)(CU_FUNC_CACHE_PREFER_NONE)); });
    ask("no-context/cuLibraryLoadData", [](Asker& a) {
        CUlibrary library = nullptr;
        return static_cast<int>(WL_CU(a.driver, cuLibraryLoadData)(&library, k_ptx, nullptr, nullptr, 0, nullptr, nullptr, 0));
    });
    ask("no-context/cuLibraryGetModule", [](Asker& a) {
        CUmodule module = nullptr;
        auto library = reinterpret_cast<CUlibrary>(a.fixtures.fresh("library"));
        return static_cast<int>(WL_CU(a.driver, cuLibraryGetModule)(&module, library));
    });
    ask("no-context/cuMemAllocAsync", [](Asker& a) {
        CUdeviceptr memory = 0;
        return static_cast<int>(WL_CU(a.driver, cuMemAllocAsync)(&memory, 64, nullptr));
    });
    ask("no-context/pop", [](Asker& a) {
        CUcontext context = nullptr;
        return static_cast<int>(WL_CU(a.driver, cuCtxPopCurrent_v2)(&context));
    });
    ask("no-context/get-current", [](Asker& a) {
        auto context = reinterpret_cast<CUcontext>(uintptr_t{8});
        const int result = WL_CU(a.driver, cuCtxGetCurrent)(&context);
        a.value("null", context == nullptr);
        return result;
    });
    ask("no-context/set-null", [](Asker& a) { return static_cast<int>(WL_CU(a.driver, cuCtxSetCurrent)(nullptr)); });
    ask("primary/state-at-first", [](Asker& a) {
        unsigned flags = 77;
        int active = 77;
        const int result = WL_CU(a.driver, cuDevicePrimaryCtxGetState)(0, &flags, &active);
        a.value("flags", flags);
        a.value("active", active);
        return result;
    });
    ask("primary/release-without-retain",
        [](Asker& a) { return static_cast<int>(WL_CU(a.driver, cuDevicePrimaryCtxRelease_v2)(0)); });
    ask("primary/set-flags-unknown",
        [](Asker& a) { return static_cast<int>(WL_CU(a.driver, cuDevicePrimaryCtxSetFlags_v2)(0, 0x80000000u)); });
    ask("primary/retain-does-not-make-current", [](Asker& a) {
        CUcontext context = nullptr, current = reinterpret_cast<CUcontext>(uintptr_t{8});
        const int result = WL_CU(a.driver, cuDevicePrimaryCtxRetain)(&context, 0);
        WL_CU(a.driver, cuCtxGetCurrent)(&current);
        a.value("current_null", current == nullptr);
        return result;
    });
    ask("primary/same-handle-again", [](Asker& a) {
        CUcontext first = nullptr, second = nullptr;
        int result = WL_CU(a.driver, cuDevicePrimaryCtxRetain)(&first, 0);
        WL_CU(a.driver, cuDevicePrimaryCtxRelease_v2)(0);
        if (result == CUDA_SUCCESS) result = WL_CU(a.driver, cuDevicePrimaryCtxRetain)(&second, 0);
        a.value("same", first == second);
        return result;
    });
}

void add_stack(Questions& all) {
    const Group ask(all, Stage::context, "context stack");
    ask("context/pop-into-null", [](Asker& a) { return static_cast<int>(WL_CU(a.driver, cuCtxPopCurrent_v2)(nullptr)); });
    ask("context/pop-empty", [](Asker& a) {
        WL_CU(a.driver, cuCtxSetCurrent)(nullptr);
        CUcontext context = nullptr;
        return static_cast<int>(WL_CU(a.driver, cuCtxPopCurrent_v2)(&context));
    });
    ask("context/cache-config-4",
        [](Asker& a) { return static_cast<int>(WL_CU(a.driver, cuCtxSetCacheConfig)(static_cast<CUfunc_cache>(4))); });
    ask("context/shared-config-9",
        [](Asker& a) { return static_cast<int>(WL_CU(a.driver, cuCtxSetSharedMemConfig)(static_cast<CUsharedconfig>(9))); });
    ask("context/api-version", [](Asker& a) {
        unsigned version = 0;
        const int result = WL_CU(a.driver, cuCtxGetApiVersion)(a.fixtures.context(), &version);
        a.value("version", version);
        return result;
    });
    ask("context/api-version-of-v4", [](Asker& a) {
        CUcontext context = nullptr;
        made("context", WL_CU(a.driver, cuCtxCreate_v4)(&context, nullptr, 0, 0));
        unsigned version = 0;
        const int result = WL_CU(a.driver, cuCtxGetApiVersion)(context, &version);
        a.value("version", version);
        WL_CU(a.driver, cuCtxDestroy_v2)(context);
        return result;
    });
    ask("context/create-unknown-flags", [](Asker& a) {
        CUcontext context = nullptr;
        return static_cast<int>(WL_CU(a.driver, cuCtxCreate_v2)(&context, 0x80000000u, 0));
    });
    ask("context/destroy-pops", [](Asker& a) {
        CUcontext context = nullptr, current = nullptr;
        made("context", WL_CU(a.driver, cuCtxCreate_v2)(&context, 0, 0));
        const int result = WL_CU(a.driver, cuCtxDestroy_v2)(context);
        WL_CU(a.driver, cuCtxGetCurrent)(&current);
        a.value("still_current", current == context);
        return result;
    });
    ask("context/destroyed-elsewhere-use", [](Asker& a) {
        CUcontext context = nullptr;
        made("context", WL_CU(a.driver, cuCtxCreate_v2)(&context, 0, 0));
        std::thread([&] { WL_CU(a.driver, cuCtxDestroy_v2)(context); }).join();
        CUdeviceptr memory = 0;
        return static_cast<int>(WL_CU(a.driver, cuMemAlloc_v2)(&memory, 64));
    });
    ask("context/destroyed-elsewhere-synchronise", [](Asker& a) {
        CUcontext context = nullptr;
        made("context", WL_CU(a.driver, cuCtxCreate_v2)(&context, 0, 0));
        std::thread([&] { WL_CU(a.driver, cuCtxDestroy_v2)(context); }).join();
        return static_cast<int>(WL_CU(a.driver, cuCtxSynchronize)());
    });
    ask("context/destroyed-elsewhere-current", [](Asker& a) {
        CUcontext context = nullptr, current = nullptr;
        made("context", WL_CU(a.driver, cuCtxCreate_v2)(&context, 0, 0));
        std::thread([&] { WL_CU(a.driver, cuCtxDestroy_v2)(context); }).join();
        const int result = WL_CU(a.driver, cuCtxGetCurrent)(&current);
        a.value("same", current == context);
        return result;
    });
    ask("context/pool-memory-outlives", [](Asker& a) {
        CUcontext context = nullptr;
        CUdeviceptr memory = 0;
        made("context", WL_CU(a.driver, cuCtxCreate_v2)(&context, 0, 0));
        made("memory", WL_CU(a.driver, cuMemAllocAsync)(&memory, 64, nullptr));
        made("wait", WL_CU(a.driver, cuCtxSynchronize)());
        made("destroy", WL_CU(a.driver, cuCtxDestroy_v2)(context));
        a.fixtures.context();
        return static_cast<int>(WL_CU(a.driver, cuMemsetD8_v2)(memory, 1, 64));
    });
    ask("context/enable-own-peer",
        [](Asker& a) { return static_cast<int>(WL_CU(a.driver, cuCtxEnablePeerAccess)(a.fixtures.context(), 0)); });
    ask("context/stream-priority-range-nulls",
        [](Asker& a) { return static_cast<int>(WL_CU(a.driver, cuCtxGetStreamPriorityRange)(nullptr, nullptr)); });
}

void add_limits(Questions& all) {
    const Group ask(all, Stage::context, "limits");
    ask("limit/unknown-get", [](Asker& a) {
        size_t value = 0;
        return static_cast<int>(WL_CU(a.driver, cuCtxGetLimit)(&value, static_cast<CUlimit>(9999)));
    });
    ask("limit/unknown-set",
        [](Asker& a) { return static_cast<int>(WL_CU(a.driver, cuCtxSetLimit)(static_cast<CUlimit>(9999), 1)); });
    ask("limit/sync-depth", [](Asker& a) {
        int major = 0;
        WL_CU(a.driver, cuDeviceGetAttribute)(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0);
        a.value("major_at_least_9", major >= 9);
        return static_cast<int>(WL_CU(a.driver, cuCtxSetLimit)(CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH, 2));
    });
    ask("limit/stack-reads-back", [](Asker& a) {
        size_t value = 0;
        made("limit", WL_CU(a.driver, cuCtxSetLimit)(CU_LIMIT_STACK_SIZE, 4096));
        const int result = WL_CU(a.driver, cuCtxGetLimit)(&value, CU_LIMIT_STACK_SIZE);
        a.value("at_least", value >= 4096);
        return result;
    });
}

}  // namespace

void add_contexts(Questions& all) {
    add_without(all);
    add_stack(all);
    add_limits(all);
}

void add_resets(Questions& all) {
    const Group ask(all, Stage::context, "");
    ask("reset/handle-and-state", [](Asker& a) {
        const CUcontext before = a.fixtures.context();
        const int result = WL_CU(a.driver, cuDevicePrimaryCtxReset_v2)(0);
        CUcontext current = nullptr, again = nullptr;
        unsigned flags = 77;
        int active = 77;
        WL_CU(a.driver, cuCtxGetCurrent)(&current);
        WL_CU(a.driver, cuDevicePrimaryCtxGetState)(0, &flags, &active);
        a.value("current_same", current == before);
        a.value("active", active);
        WL_CU(a.driver, cuDevicePrimaryCtxRetain)(&again, 0);
        a.value("retained_same", again == before);
        WL_CU(a.driver, cuCtxSetCurrent)(again);
        CUdeviceptr memory = 0;
        a.value("allocates", WL_CU(a.driver, cuMemAlloc_v2)(&memory, 64));
        return result;
    });
    ask("reset/use-of-dead-context", [](Asker& a) {
        made("reset", WL_CU(a.driver, cuDevicePrimaryCtxReset_v2)(0));
        CUdeviceptr memory = 0;
        return static_cast<int>(WL_CU(a.driver, cuMemAlloc_v2)(&memory, 64));
    });
    ask("reset/release-then-retain", [](Asker& a) {
        made("release", WL_CU(a.driver, cuDevicePrimaryCtxRelease_v2)(0));
        unsigned flags = 0;
        int active = 77;
        WL_CU(a.driver, cuDevicePrimaryCtxGetState)(0, &flags, &active);
        a.value("active", active);
        CUcontext context = nullptr;
        made("retain", WL_CU(a.driver, cuDevicePrimaryCtxRetain)(&context, 0));
        made("current", WL_CU(a.driver, cuCtxSetCurrent)(context));
        CUdeviceptr memory = 0;
        return static_cast<int>(WL_CU(a.driver, cuMemAlloc_v2)(&memory, 64));
    });
    ask("reset/events-of-it", [](Asker& a) {
        CUevent event = nullptr;
        made("event", WL_CU(a.driver, cuEventCreate)(&event, 0));
        made("reset", WL_CU(a.driver, cuDevicePrimaryCtxReset_v2)(0));
        return static_cast<int>(WL_CU(a.driver, cuEventQuery)(event));
    });
    ask("limit/printf-fifo-after-printf", [](Asker& a) {
        static const char* const k_printing = R"(.version 6.3
.target sm_75
.address_size 64
.extern .func (.param .b32 r) vprintf (.param .b64 f, .param .b64 v);
.global .align 1 .b8 text[2] = {10, 0};
.visible .entry say()
{
    .reg .b64 %a;
    cvta.global.u64 %a, text;
    {
    .param .b64 f; .param .b64 v; .param .b32 r;
    st.param.b64 [f], %a;
    st.param.b64 [v], 0;
    call.uni (r), vprintf, (f, v);
    }
    ret;
}
)";
        CUmodule module = nullptr;
        CUfunction function = nullptr;
        made("module", WL_CU(a.driver, cuModuleLoadData)(&module, k_printing));
        made("function", WL_CU(a.driver, cuModuleGetFunction)(&function, module, "say"));
        made("launch", WL_CU(a.driver, cuLaunchKernel)(function, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr));
        made("wait", WL_CU(a.driver, cuCtxSynchronize)());
        return static_cast<int>(WL_CU(a.driver, cuCtxSetLimit)(CU_LIMIT_PRINTF_FIFO_SIZE, 8 << 20));
    });
}

}  // namespace warpline::probe
