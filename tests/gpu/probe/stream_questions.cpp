// Events, streams, copies and memory of devices.
#include "tests/gpu/probe/question.h"

namespace warpline::probe {

namespace {

CUevent make_event(Asker& a, unsigned flags = CU_EVENT_DEFAULT) {
    CUevent event = nullptr;
    made("event", WL_CU(a.driver, cuEventCreate)(&event, flags));
    return event;
}

CUstream make_stream(Asker& a) {
    CUstream stream = nullptr;
    made("stream", WL_CU(a.driver, cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING));
    return stream;
}

int elapsed(Asker& a, CUevent from, CUevent to) {
    float ms = -1;
    return WL_CU(a.driver, cuEventElapsedTime)(&ms, from, to);
}

void add_events(const Group& ask) {
    ask("event/elapsed-never-recorded", [](Asker& a) { return elapsed(a, make_event(a), make_event(a)); });
    ask("event/elapsed-one-never-recorded", [](Asker& a) {
        const CUevent first = make_event(a), second = make_event(a);
        made("record", WL_CU(a.driver, cuEventRecord)(first, nullptr));
        made("wait", WL_CU(a.driver, cuCtxSynchronize)());
        return elapsed(a, first, second);
    });
    ask("event/elapsed-without-timing", [](Asker& a) {
        const CUevent first = make_event(a, CU_EVENT_DISABLE_TIMING), second = make_event(a);
        made("record", WL_CU(a.driver, cuEventRecord)(first, nullptr));
        made("record", WL_CU(a.driver, cuEventRecord)(second, nullptr));
        made("wait", WL_CU(a.driver, cuCtxSynchronize)());
        return elapsed(a, first, second);
    });
    ask("event/elapsed-not-ready", [](Asker& a) {
        const CUevent first = make_event(a), second = make_event(a);
        const CUstream stream = make_stream(a);
        const CUdeviceptr flag = a.fixtures.device_memory();
        made("memset", WL_CU(a.driver, cuMemsetD32_v2)(flag, 0, 1));
        made("wait", WL_CU(a.driver, cuCtxSynchronize)());
        made("record", WL_CU(a.driver, cuEventRecord)(first, stream));
        made("wait for value", WL_CU(a.driver, cuStreamWaitValue32_v2)(stream, flag, 1, CU_STREAM_WAIT_VALUE_EQ));
        made("record", WL_CU(a.driver, cuEventRecord)(second, stream));
        const int result = elapsed(a, first, second);
        made("write value", WL_CU(a.driver, cuStreamWriteValue32_v2)(make_stream(a), flag, 1, 0));
        made("wait", WL_CU(a.driver, cuStreamSynchronize)(stream));
        a.value("later", elapsed(a, first, second));
        return result;
    });
    ask("event/query-never-recorded", [](Asker& a) { return static_cast<int>(WL_CU(a.driver, cuEventQuery)(make_event(a))); });
    ask("event/synchronise-never-recorded",
        [](Asker& a) { return static_cast<int>(WL_CU(a.driver, cuEventSynchronize)(make_event(a))); });
    ask("event/wait-never-recorded",
        [](Asker& a) { return static_cast<int>(WL_CU(a.driver, cuStreamWaitEvent)(make_stream(a), make_event(a), 0)); });
    ask("event/interprocess-with-timing", [](Asker& a) {
        CUevent event = nullptr;
        return static_cast<int>(WL_CU(a.driver, cuEventCreate)(&event, CU_EVENT_INTERPROCESS));
    });
    ask("event/unknown-flags", [](Asker& a) {
        CUevent event = nullptr;
        return static_cast<int>(WL_CU(a.driver, cuEventCreate)(&event, 0x80));
    });
    ask("event/record-unknown-flags",
        [](Asker& a) { return static_cast<int>(WL_CU(a.driver, cuEventRecordWithFlags)(make_event(a), nullptr, 0x80)); });
    ask("event/destroy-pending", [](Asker& a) {
        const CUevent event = make_event(a);
        made("record", WL_CU(a.driver, cuEventRecord)(event, make_stream(a)));
        return static_cast<int>(WL_CU(a.driver, cuEventDestroy_v2)(event));
    });
}

void add_streams_only(const Group& ask) {
    ask("stream/unknown-flags", [](Asker& a) {
        CUstream stream = nullptr;
        return static_cast<int>(WL_CU(a.driver, cuStreamCreate)(&stream, 0x80));
    });
    ask("stream/destroy-null", [](Asker& a) { return static_cast<int>(WL_CU(a.driver, cuStreamDestroy_v2)(nullptr)); });
    ask("stream/destroy-legacy",
        [](Asker& a) { return static_cast<int>(WL_CU(a.driver, cuStreamDestroy_v2)(CU_STREAM_LEGACY)); });
    ask("stream/green-context", [](Asker& a) {
        auto context = reinterpret_cast<CUgreenCtx>(uintptr_t{8});
        const auto get = a.driver.function<CUresult(CUstream, CUgreenCtx*)>("cuStreamGetGreenCtx");
        const int result = get(make_stream(a), &context);
        a.value("null", context == nullptr);
        return result;
    });
    ask("stream/priority-clamped", [](Asker& a) {
        CUstream stream = nullptr;
        int priority = 77, least = 0, greatest = 0;
        const int result = WL_CU(a.driver, cuStreamCreateWithPriority)(&stream, 0, -1000);
        WL_CU(a.driver, cuStreamGetPriority)(stream, &priority);
        WL_CU(a.driver, cuCtxGetStreamPriorityRange)(&least, &greatest);
        a.value("greatest", priority == greatest);
        return result;
    });
    ask("stream/wait-unknown-flags",
        [](Asker& a) { return static_cast<int>(WL_CU(a.driver, cuStreamWaitEvent)(nullptr, make_event(a), 0x80)); });
    ask("stream/callback-null",
        [](Asker& a) { return static_cast<int>(WL_CU(a.driver, cuStreamAddCallback)(nullptr, nullptr, nullptr, 0)); });
    ask("stream/callback-flags", [](Asker& a) {
        return static_cast<int>(WL_CU(a.driver, cuStreamAddCallback)(
            nullptr, [](CUstream, CUresult, void*) {}, nullptr, 1));
    });
    ask("stream/host-function-null",
        [](Asker& a) { return static_cast<int>(WL_CU(a.driver, cuLaunchHostFunc)(nullptr, nullptr, nullptr)); });
    ask("stream/attribute-unknown", [](Asker& a) {
        CUstreamAttrValue value{};
        return static_cast<int>(
            WL_CU(a.driver, cuStreamGetAttribute)(make_stream(a), static_cast<CUstreamAttrID>(9999), &value));
    });
}

void add_copies(const Group& ask) {
    ask("copy/2d-height-0", [](Asker& a) {
        CUDA_MEMCPY2D copy{};
        copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
        copy.srcDevice = a.fixtures.device_memory();
        copy.dstDevice = a.fixtures.device_memory() + 4096;
        copy.WidthInBytes = 64;
        return static_cast<int>(WL_CU(a.driver, cuMemcpy2D_v2)(&copy));
    });
    ask("copy/2d-unaligned-height-0", [](Asker& a) {
        CUDA_MEMCPY2D copy{};
        copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
        copy.srcDevice = a.fixtures.device_memory();
        copy.dstDevice = a.fixtures.device_memory() + 4096;
        copy.WidthInBytes = 64;
        return static_cast<int>(WL_CU(a.driver, cuMemcpy2DUnaligned_v2)(&copy));
    });
    ask("copy/2d-async-height-0", [](Asker& a) {
        CUDA_MEMCPY2D copy{};
        copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
        copy.srcDevice = a.fixtures.device_memory();
        copy.dstDevice = a.fixtures.device_memory() + 4096;
        copy.WidthInBytes = 64;
        return static_cast<int>(WL_CU(a.driver, cuMemcpy2DAsync_v2)(&copy, nullptr));
    });
    ask("copy/3d-depth-0", [](Asker& a) {
        CUDA_MEMCPY3D copy{};
        copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
        copy.srcDevice = a.fixtures.device_memory();
        copy.dstDevice = a.fixtures.device_memory() + 4096;
        copy.WidthInBytes = 64;
        copy.Height = 1;
        return static_cast<int>(WL_CU(a.driver, cuMemcpy3D_v2)(&copy));
    });
    ask("copy/3d-async-depth-0", [](Asker& a) {
        CUDA_MEMCPY3D copy{};
        copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
        copy.srcDevice = a.fixtures.device_memory();
        copy.dstDevice = a.fixtures.device_memory() + 4096;
        copy.WidthInBytes = 64;
        copy.Height = 1;
        return static_cast<int>(WL_CU(a.driver, cuMemcpy3DAsync_v2)(&copy, nullptr));
    });
    ask("copy/0-bytes", [](Asker& a) {
        char here = 0;
        return static_cast<int>(WL_CU(a.driver, cuMemcpyHtoD_v2)(a.fixtures.device_memory(), &here, 0));
    });
    ask("copy/to-unknown-memory", [](Asker& a) {
        char here[64] = {};
        return static_cast<int>(WL_CU(a.driver, cuMemcpyHtoD_v2)(0x10, here, sizeof here));
    });
    ask("copy/past-the-end", [](Asker& a) {
        CUdeviceptr memory = 0;
        made("memory", WL_CU(a.driver, cuMemAlloc_v2)(&memory, 1 << 20));
        std::vector<char> here(8 << 20);
        return static_cast<int>(WL_CU(a.driver, cuMemcpyHtoD_v2)(memory, here.data(), here.size()));
    });
}

void add_memory(const Group& ask) {
    ask("memory/alloc-0", [](Asker& a) {
        CUdeviceptr memory = 0;
        return static_cast<int>(WL_CU(a.driver, cuMemAlloc_v2)(&memory, 0));
    });
    ask("memory/alloc-managed-0", [](Asker& a) {
        CUdeviceptr memory = 0;
        a.value("managed_memory", a.fixtures.attribute(CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY));
        return static_cast<int>(WL_CU(a.driver, cuMemAllocManaged)(&memory, 0, CU_MEM_ATTACH_GLOBAL));
    });
    ask("memory/alloc-too-much", [](Asker& a) {
        CUdeviceptr memory = 0;
        return static_cast<int>(WL_CU(a.driver, cuMemAlloc_v2)(&memory, size_t{1} << 50));
    });
    ask("memory/free-0", [](Asker& a) { return static_cast<int>(WL_CU(a.driver, cuMemFree_v2)(0)); });
    ask("memory/free-unknown", [](Asker& a) { return static_cast<int>(WL_CU(a.driver, cuMemFree_v2)(0x10)); });
    ask("memory/free-inside",
        [](Asker& a) { return static_cast<int>(WL_CU(a.driver, cuMemFree_v2)(a.fixtures.device_memory() + 256)); });
    ask("memory/free-twice", [](Asker& a) {
        CUdeviceptr memory = 0;
        made("memory", WL_CU(a.driver, cuMemAlloc_v2)(&memory, 4096));
        made("free", WL_CU(a.driver, cuMemFree_v2)(memory));
        return static_cast<int>(WL_CU(a.driver, cuMemFree_v2)(memory));
    });
    ask("memory/range-of-unknown", [](Asker& a) {
        CUdeviceptr base = 0;
        size_t size = 0;
        return static_cast<int>(WL_CU(a.driver, cuMemGetAddressRange_v2)(&base, &size, 0x10));
    });
    ask("memory/range-nulls", [](Asker& a) {
        return static_cast<int>(WL_CU(a.driver, cuMemGetAddressRange_v2)(nullptr, nullptr, a.fixtures.device_memory()));
    });
    ask("memory/pitch-element-3", [](Asker& a) {
        CUdeviceptr memory = 0;
        size_t pitch = 0;
        return static_cast<int>(WL_CU(a.driver, cuMemAllocPitch_v2)(&memory, &pitch, 100, 4, 3));
    });
}

}  // namespace

void add_streams(Questions& all) {
    const Group ask(all, Stage::context, "streams and memory");
    add_events(ask);
    add_streams_only(ask);
    add_copies(ask);
    add_memory(ask);
}

}  // namespace warpline::probe
