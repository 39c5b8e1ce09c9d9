// Before cuInit, cuInit itself, versions, names of errors, lookup of functions, ordinals of devices, and the child of a fork.
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "tests/gpu/probe/question.h"

namespace warpline::probe {

namespace {

CUcontext bogus_context() { return reinterpret_cast<CUcontext>(uintptr_t{0x5a5a5a50}); }

void add_before_init(Questions& all) {
    const Group ask(all, Stage::loaded, "before cuInit, by hand");
    ask("init/before/cuCtxGetCurrent", [](Asker& a) {
        CUcontext context = bogus_context();
        const int result = WL_CU(a.driver, cuCtxGetCurrent)(&context);
        a.value("written", written(context, bogus_context()));
        return result;
    });
    ask("init/before/cuCtxGetCurrent-null", [](Asker& a) { return WL_CU(a.driver, cuCtxGetCurrent)(nullptr); });
    ask("init/before/cuCtxSetCurrent-null", [](Asker& a) { return WL_CU(a.driver, cuCtxSetCurrent)(nullptr); });
    ask("init/before/cuCtxPushCurrent-null", [](Asker& a) { return WL_CU(a.driver, cuCtxPushCurrent_v2)(nullptr); });
    ask("init/before/cuCtxPopCurrent", [](Asker& a) {
        CUcontext context = bogus_context();
        const int result = WL_CU(a.driver, cuCtxPopCurrent_v2)(&context);
        a.value("written", written(context, bogus_context()));
        return result;
    });
    ask("init/before/cuCtxGetDevice", [](Asker& a) {
        CUdevice device = -77;
        const int result = WL_CU(a.driver, cuCtxGetDevice)(&device);
        a.value("written", written(device, -77));
        return result;
    });
    ask("init/before/cuCtxGetDevice-null", [](Asker& a) { return WL_CU(a.driver, cuCtxGetDevice)(nullptr); });
    ask("init/before/cuProfilerStart",
        [](Asker& a) { return static_cast<int>(a.driver.function<CUresult()>("cuProfilerStart")()); });
    ask("init/before/cuProfilerStop",
        [](Asker& a) { return static_cast<int>(a.driver.function<CUresult()>("cuProfilerStop")()); });
    ask("init/before/cuDeviceGetCount", [](Asker& a) {
        int count = -77;
        const int result = WL_CU(a.driver, cuDeviceGetCount)(&count);
        a.value("written", written(count, -77));
        return result;
    });
    ask("init/before/cuDriverGetVersion", [](Asker& a) {
        int version = 0;
        const int result = WL_CU(a.driver, cuDriverGetVersion)(&version);
        a.value("positive", version > 0);
        return result;
    });
    ask("init/before/cuDriverGetVersion-null", [](Asker& a) { return WL_CU(a.driver, cuDriverGetVersion)(nullptr); });
    ask("init/before/flags=1", [](Asker& a) { return WL_CU(a.driver, cuInit)(1); });
    ask("init/twice", [](Asker& a) {
        const int first = WL_CU(a.driver, cuInit)(0);
        return first != CUDA_SUCCESS ? first : static_cast<int>(WL_CU(a.driver, cuInit)(0));
    });
}

void add_names(Questions& all) {
    const Group ask(all, Stage::initialised, "names");
    ask("names/error-name-unknown", [](Asker& a) {
        const char* name = "x";
        const int result = WL_CU(a.driver, cuGetErrorName)(static_cast<CUresult>(9999), &name);
        a.value("null", name == nullptr);
        return result;
    });
    ask("names/error-string-unknown", [](Asker& a) {
        const char* name = "x";
        const int result = WL_CU(a.driver, cuGetErrorString)(static_cast<CUresult>(9999), &name);
        a.value("null", name == nullptr);
        return result;
    });
    ask("names/error-string-1", [](Asker& a) {
        const char* text = nullptr;
        const int result = WL_CU(a.driver, cuGetErrorString)(CUDA_ERROR_INVALID_VALUE, &text);
        a.text("text", text ? text : "");
        return result;
    });
    ask("names/error-name-1", [](Asker& a) {
        const char* text = nullptr;
        const int result = WL_CU(a.driver, cuGetErrorName)(CUDA_ERROR_INVALID_VALUE, &text);
        a.text("text", text ? text : "");
        return result;
    });
    ask("lookup/v2-unknown", [](Asker& a) {
        void* found = &a;
        auto status = static_cast<CUdriverProcAddressQueryResult>(77);
        const int result = WL_CU(a.driver, cuGetProcAddress_v2)("cuNoSuchFunction", &found, 12000, 0, &status);
        a.value("null", found == nullptr);
        a.value("status", status);
        return result;
    });
    ask("lookup/v1-unknown", [](Asker& a) {
        void* found = &a;
        const int result = WL_CU(a.driver, cuGetProcAddress)("cuNoSuchFunction", &found, 11030, 0);
        a.value("written", found != &a);
        return result;
    });
    ask("lookup/version-above-driver", [](Asker& a) {
        void* found = nullptr;
        auto status = static_cast<CUdriverProcAddressQueryResult>(77);
        return static_cast<int>(WL_CU(a.driver, cuGetProcAddress_v2)("cuInit", &found, 99000, 0, &status));
    });
    ask("lookup/too-old", [](Asker& a) {
        void* found = &a;
        auto status = static_cast<CUdriverProcAddressQueryResult>(77);
        const int result = WL_CU(a.driver, cuGetProcAddress_v2)("cuGraphCreate", &found, 9000, 0, &status);
        a.value("status", status);
        return result;
    });
    ask("lookup/null-symbol", [](Asker& a) {
        void* found = nullptr;
        return static_cast<int>(WL_CU(a.driver, cuGetProcAddress_v2)(nullptr, &found, 12000, 0, nullptr));
    });
    ask("lookup/null-function",
        [](Asker& a) { return static_cast<int>(WL_CU(a.driver, cuGetProcAddress_v2)("cuInit", nullptr, 12000, 0, nullptr)); });
    ask("lookup/unknown-export-table", [](Asker& a) {
        const void* table = nullptr;
        CUuuid id{};
        std::memset(&id, 0x77, sizeof id);
        return static_cast<int>(WL_CU(a.driver, cuGetExportTable)(&table, &id));
    });
}

void add_ordinals(Questions& all) {
    const Group ask(all, Stage::initialised, "ordinals");
    for (int ordinal : {-1, 1000}) {
        const std::string at = "ordinal=" + std::to_string(ordinal) + "/";
        ask(at + "cuDeviceGet", [=](Asker& a) {
            CUdevice device = 0;
            return static_cast<int>(WL_CU(a.driver, cuDeviceGet)(&device, ordinal));
        });
        ask(at + "cuDeviceGetName", [=](Asker& a) {
            char name[64];
            return static_cast<int>(WL_CU(a.driver, cuDeviceGetName)(name, sizeof name, ordinal));
        });
        ask(at + "cuDeviceGetAttribute", [=](Asker& a) {
            int value = 0;
            return static_cast<int>(WL_CU(a.driver, cuDeviceGetAttribute)(&value, CU_DEVICE_ATTRIBUTE_WARP_SIZE, ordinal));
        });
        ask(at + "cuDeviceTotalMem", [=](Asker& a) {
            size_t bytes = 0;
            return static_cast<int>(WL_CU(a.driver, cuDeviceTotalMem_v2)(&bytes, ordinal));
        });
        ask(at + "cuDeviceGetUuid", [=](Asker& a) {
            CUuuid id{};
            return static_cast<int>(WL_CU(a.driver, cuDeviceGetUuid_v2)(&id, ordinal));
        });
        ask(at + "cuDevicePrimaryCtxRetain", [=](Asker& a) {
            CUcontext context = nullptr;
            return static_cast<int>(WL_CU(a.driver, cuDevicePrimaryCtxRetain)(&context, ordinal));
        });
        ask(at + "cuDevicePrimaryCtxGetState", [=](Asker& a) {
            unsigned flags = 0;
            int active = 0;
            return static_cast<int>(WL_CU(a.driver, cuDevicePrimaryCtxGetState)(ordinal, &flags, &active));
        });
        ask(at + "cuDeviceCanAccessPeer", [=](Asker& a) {
            int can = 0;
            return static_cast<int>(WL_CU(a.driver, cuDeviceCanAccessPeer)(&can, 0, ordinal));
        });
        ask(at + "cuCtxCreate", [=](Asker& a) {
            CUcontext context = nullptr;
            return static_cast<int>(WL_CU(a.driver, cuCtxCreate_v2)(&context, 0, ordinal));
        });
    }
    ask("p2p/null-value", [](Asker& a) {
        return static_cast<int>(
            WL_CU(a.driver, cuDeviceGetP2PAttribute)(nullptr, static_cast<CUdevice_P2PAttribute>(9999), 1000, 1000));
    });
    ask("p2p/same-device-unknown-attribute", [](Asker& a) {
        int value = 0;
        return static_cast<int>(
            WL_CU(a.driver, cuDeviceGetP2PAttribute)(&value, static_cast<CUdevice_P2PAttribute>(9999), 0, 0));
    });
    ask("p2p/same-device", [](Asker& a) {
        int value = 0;
        return static_cast<int>(
            WL_CU(a.driver, cuDeviceGetP2PAttribute)(&value, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, 0, 0));
    });
    ask("p2p/no-such-device", [](Asker& a) {
        int value = 0;
        return static_cast<int>(
            WL_CU(a.driver, cuDeviceGetP2PAttribute)(&value, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, 0, 1000));
    });
    ask("device/attribute-unknown", [](Asker& a) {
        int value = -77;
        return static_cast<int>(WL_CU(a.driver, cuDeviceGetAttribute)(&value, static_cast<CUdevice_attribute>(9999), 0));
    });
    ask("device/name-length-0", [](Asker& a) {
        char name[4] = "x";
        return static_cast<int>(WL_CU(a.driver, cuDeviceGetName)(name, 0, 0));
    });
    ask("device/name-cut", [](Asker& a) {
        char name[8] = "xxxxxxx";
        const int result = WL_CU(a.driver, cuDeviceGetName)(name, 4, 0);
        a.value("length", static_cast<int64_t>(::strnlen(name, sizeof name)));
        return result;
    });
}

/// What a call answers in the child of a fork of this process.
int in_child(const std::function<int()>& body) {
    const pid_t child = ::fork();
    if (child == 0) std::_Exit(body() & 0xff);  // the codes asked for are below 256
    int status = 0;
    ::waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

void add_forks(Questions& all) {
    const Group ask(all, Stage::context, "fork");
    ask("fork/cuInit", [](Asker& a) { return in_child([&] { return WL_CU(a.driver, cuInit)(0); }); });
    ask("fork/cuDeviceGetCount", [](Asker& a) {
        return in_child([&] {
            int count = 0;
            return static_cast<int>(WL_CU(a.driver, cuDeviceGetCount)(&count));
        });
    });
    ask("fork/cuCtxSynchronize", [](Asker& a) { return in_child([&] { return WL_CU(a.driver, cuCtxSynchronize)(); }); });
    ask("fork/cuMemAlloc", [](Asker& a) {
        return in_child([&] {
            CUdeviceptr memory = 0;
            return static_cast<int>(WL_CU(a.driver, cuMemAlloc_v2)(&memory, 64));
        });
    });
    ask("fork/parent-goes-on", [](Asker& a) {
        in_child([&] { return WL_CU(a.driver, cuInit)(0); });
        CUdeviceptr memory = 0;
        const int result = WL_CU(a.driver, cuMemAlloc_v2)(&memory, 64);
        return result != CUDA_SUCCESS ? result : static_cast<int>(WL_CU(a.driver, cuMemFree_v2)(memory));
    });
}

}  // namespace

void add_start(Questions& all) {
    add_before_init(all);
    add_names(all);
    add_ordinals(all);
    add_forks(all);
}

}  // namespace warpline::probe
