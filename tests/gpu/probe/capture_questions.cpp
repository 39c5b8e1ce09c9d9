// Stream capture: what begins, what ends, what breaks it.
#include <thread>

#include "tests/gpu/probe/question.h"

namespace warpline::probe {

namespace {

CUstream make_stream(Asker& a, unsigned flags = CU_STREAM_NON_BLOCKING) {
    CUstream stream = nullptr;
    made("stream", WL_CU(a.driver, cuStreamCreate)(&stream, flags));
    return stream;
}

CUevent make_event(Asker& a) {
    CUevent event = nullptr;
    made("event", WL_CU(a.driver, cuEventCreate)(&event, CU_EVENT_DISABLE_TIMING));
    return event;
}

void begin(Asker& a, CUstream stream, CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL) {
    a.fixtures.device_memory();  // cannot be allocated any more once a capture has begun
    made("capture", WL_CU(a.driver, cuStreamBeginCapture_v2)(stream, mode));
}

/// Ends the capture, and tells how that went.
int end(Asker& a, CUstream stream) {
    auto graph = reinterpret_cast<CUgraph>(uintptr_t{1});
    const int result = WL_CU(a.driver, cuStreamEndCapture)(stream, &graph);
    a.value("graph_null", graph == nullptr);
    return result;
}

void add_begins(const Group& ask) {
    ask("capture/legacy", [](Asker& a) {
        return static_cast<int>(WL_CU(a.driver, cuStreamBeginCapture_v2)(nullptr, CU_STREAM_CAPTURE_MODE_GLOBAL));
    });
    ask("capture/unknown-mode", [](Asker& a) {
        return static_cast<int>(
            WL_CU(a.driver, cuStreamBeginCapture_v2)(make_stream(a), static_cast<CUstreamCaptureMode>(9999)));
    });
    ask("capture/begin-twice", [](Asker& a) {
        const CUstream stream = make_stream(a);
        begin(a, stream);
        const int result = WL_CU(a.driver, cuStreamBeginCapture_v2)(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
        a.value("refused", result != CUDA_SUCCESS);
        end(a, stream);
        return result;
    });
    ask("capture/end-without-begin", [](Asker& a) {
        CUgraph graph = nullptr;
        return static_cast<int>(WL_CU(a.driver, cuStreamEndCapture)(make_stream(a), &graph));
    });
    ask("capture/end-from-other-thread", [](Asker& a) {
        const CUstream stream = make_stream(a);
        begin(a, stream);
        int result = 0;
        const CUcontext context = a.fixtures.context();
        std::thread([&] {
            CUgraph graph = nullptr;
            WL_CU(a.driver, cuCtxSetCurrent)(context);
            result = WL_CU(a.driver, cuStreamEndCapture)(stream, &graph);
        }).join();
        end(a, stream);
        return result;
    });
    ask("capture/end-from-other-thread-relaxed", [](Asker& a) {
        const CUstream stream = make_stream(a);
        begin(a, stream, CU_STREAM_CAPTURE_MODE_RELAXED);
        int result = 0;
        const CUcontext context = a.fixtures.context();
        std::thread([&] {
            CUgraph graph = nullptr;
            WL_CU(a.driver, cuCtxSetCurrent)(context);
            result = WL_CU(a.driver, cuStreamEndCapture)(stream, &graph);
        }).join();
        return result;
    });
    ask("capture/unjoined", [](Asker& a) {
        const CUstream first = make_stream(a), second = make_stream(a);
        const CUevent event = make_event(a);
        begin(a, first);
        made("record", WL_CU(a.driver, cuEventRecord)(event, first));
        made("wait", WL_CU(a.driver, cuStreamWaitEvent)(second, event, 0));
        made("memset", WL_CU(a.driver, cuMemsetD8Async)(a.fixtures.device_memory(), 1, 64, second));
        return end(a, first);
    });
    ask("capture/joined-two", [](Asker& a) {
        const CUstream first = make_stream(a), second = make_stream(a);
        const CUevent event = make_event(a);
        begin(a, first);
        begin(a, second);
        made("record", WL_CU(a.driver, cuEventRecord)(event, first));
        const int result = WL_CU(a.driver, cuStreamWaitEvent)(second, event, 0);
        end(a, first);
        end(a, second);
        return result;
    });
    ask("capture/origin-ended-elsewhere", [](Asker& a) {
        const CUstream first = make_stream(a), second = make_stream(a);
        const CUevent event = make_event(a);
        begin(a, first);
        made("record", WL_CU(a.driver, cuEventRecord)(event, first));
        made("wait", WL_CU(a.driver, cuStreamWaitEvent)(second, event, 0));
        const int result = end(a, second);
        end(a, first);
        return result;
    });
}

void add_breaks(const Group& ask) {
    ask("capture/query-of-captured-event", [](Asker& a) {
        const CUstream stream = make_stream(a);
        const CUevent event = make_event(a);
        begin(a, stream);
        made("record", WL_CU(a.driver, cuEventRecord)(event, stream));
        const int result = WL_CU(a.driver, cuEventQuery)(event);
        a.value("end", end(a, stream));
        return result;
    });
    ask("capture/synchronise-captured-event", [](Asker& a) {
        const CUstream stream = make_stream(a);
        const CUevent event = make_event(a);
        begin(a, stream);
        made("record", WL_CU(a.driver, cuEventRecord)(event, stream));
        const int result = WL_CU(a.driver, cuEventSynchronize)(event);
        a.value("end", end(a, stream));
        return result;
    });
    ask("capture/stream-synchronise", [](Asker& a) {
        const CUstream stream = make_stream(a);
        begin(a, stream);
        const int result = WL_CU(a.driver, cuStreamSynchronize)(stream);
        a.value("next", WL_CU(a.driver, cuMemsetD8Async)(a.fixtures.device_memory(), 1, 64, stream));
        a.value("end", end(a, stream));
        return result;
    });
    ask("capture/stream-query", [](Asker& a) {
        const CUstream stream = make_stream(a);
        begin(a, stream);
        const int result = WL_CU(a.driver, cuStreamQuery)(stream);
        a.value("end", end(a, stream));
        return result;
    });
    ask("capture/context-synchronise", [](Asker& a) {
        const CUstream stream = make_stream(a);
        begin(a, stream);
        const int result = WL_CU(a.driver, cuCtxSynchronize)();
        a.value("end", end(a, stream));
        return result;
    });
    ask("capture/allocation", [](Asker& a) {
        const CUstream stream = make_stream(a);
        begin(a, stream);
        CUdeviceptr memory = 0;
        const int result = WL_CU(a.driver, cuMemAlloc_v2)(&memory, 64);
        a.value("end", end(a, stream));
        return result;
    });
    ask("capture/allocation-relaxed", [](Asker& a) {
        const CUstream stream = make_stream(a);
        begin(a, stream, CU_STREAM_CAPTURE_MODE_RELAXED);
        CUdeviceptr memory = 0;
        const int result = WL_CU(a.driver, cuMemAlloc_v2)(&memory, 64);
        a.value("end", end(a, stream));
        return result;
    });
    ask("capture/add-callback", [](Asker& a) {
        const CUstream stream = make_stream(a);
        begin(a, stream);
        const int result = WL_CU(a.driver, cuStreamAddCallback)(
            stream, [](CUstream, CUresult, void*) {}, nullptr, 0);
        a.value("end", end(a, stream));
        return result;
    });
    ask("capture/host-function", [](Asker& a) {
        const CUstream stream = make_stream(a);
        begin(a, stream);
        const int result = WL_CU(a.driver, cuLaunchHostFunc)(
            stream, [](void*) {}, nullptr);
        a.value("end", end(a, stream));
        return result;
    });
    ask("capture/legacy-is-capturing-implicit", [](Asker& a) {
        const CUstream stream = make_stream(a, CU_STREAM_DEFAULT);
        begin(a, stream);
        CUstreamCaptureStatus status{};
        const int result = WL_CU(a.driver, cuStreamIsCapturing)(nullptr, &status);
        a.value("end", end(a, stream));
        return result;
    });
    ask("capture/legacy-is-capturing-non-blocking", [](Asker& a) {
        const CUstream stream = make_stream(a);
        begin(a, stream);
        CUstreamCaptureStatus status{};
        const int result = WL_CU(a.driver, cuStreamIsCapturing)(nullptr, &status);
        a.value("status", status);
        a.value("end", end(a, stream));
        return result;
    });
    ask("capture/legacy-use-implicit", [](Asker& a) {
        const CUstream stream = make_stream(a, CU_STREAM_DEFAULT);
        begin(a, stream);
        const int result = WL_CU(a.driver, cuMemsetD8Async)(a.fixtures.device_memory(), 1, 64, nullptr);
        a.value("end", end(a, stream));
        return result;
    });
    ask("capture/legacy-capture-info-implicit", [](Asker& a) {
        const CUstream stream = make_stream(a, CU_STREAM_DEFAULT);
        begin(a, stream);
        CUstreamCaptureStatus status{};
        const int result = WL_CU(a.driver, cuStreamGetCaptureInfo_v2)(nullptr, &status, nullptr, nullptr, nullptr, nullptr);
        a.value("end", end(a, stream));
        return result;
    });
    ask("capture/context-record-event", [](Asker& a) {
        const CUstream stream = make_stream(a);
        const CUevent event = make_event(a);
        begin(a, stream);
        const int result = WL_CU(a.driver, cuCtxRecordEvent)(a.fixtures.context(), event);
        a.value("end", end(a, stream));
        return result;
    });
    ask("capture/context-wait-event", [](Asker& a) {
        const CUstream stream = make_stream(a);
        const CUevent event = make_event(a);
        begin(a, stream);
        made("record", WL_CU(a.driver, cuEventRecord)(event, stream));
        const int result = WL_CU(a.driver, cuCtxWaitEvent)(a.fixtures.context(), event);
        a.value("end", end(a, stream));
        return result;
    });
    ask("capture/stream-destroyed", [](Asker& a) {
        const CUstream stream = make_stream(a);
        begin(a, stream);
        return static_cast<int>(WL_CU(a.driver, cuStreamDestroy_v2)(stream));
    });
}

void add_status(const Group& ask) {
    const std::pair<const char*, CUstream> streams[] = {{"null", nullptr}, {"per-thread", CU_STREAM_PER_THREAD}};
    for (const auto& [name, stream] : streams) {
        ask(std::string("capture/status-") + name, [s = stream](Asker& a) {
            auto status = static_cast<CUstreamCaptureStatus>(77);
            const int result = WL_CU(a.driver, cuStreamIsCapturing)(s, &status);
            a.value("status", status);
            return result;
        });
    }
    ask("capture/status-idle", [](Asker& a) {
        auto status = static_cast<CUstreamCaptureStatus>(77);
        const int result = WL_CU(a.driver, cuStreamIsCapturing)(make_stream(a), &status);
        a.value("status", status);
        return result;
    });
    ask("capture/status-active", [](Asker& a) {
        const CUstream stream = make_stream(a);
        begin(a, stream);
        auto status = static_cast<CUstreamCaptureStatus>(77);
        const int result = WL_CU(a.driver, cuStreamIsCapturing)(stream, &status);
        a.value("status", status);
        end(a, stream);
        return result;
    });
    ask("capture/exchange-mode-unknown", [](Asker& a) {
        auto mode = static_cast<CUstreamCaptureMode>(9999);
        return static_cast<int>(WL_CU(a.driver, cuThreadExchangeStreamCaptureMode)(&mode));
    });
}

}  // namespace

void add_captures(Questions& all) {
    const Group ask(all, Stage::context, "captures");
    add_begins(ask);
    add_breaks(ask);
    add_status(ask);
}

}  // namespace warpline::probe
