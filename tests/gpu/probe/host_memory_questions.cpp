// Page-locked and registered host memory.
#include <cstdlib>

#include "tests/gpu/probe/question.h"

namespace warpline::probe {

namespace {

/// A few pages of the program's own.
struct Pages {
    unsigned char* at = static_cast<unsigned char*>(std::aligned_alloc(4096, 4 * 4096));
    Pages() = default;
    Pages(const Pages&) = delete;
    Pages& operator=(const Pages&) = delete;
    ~Pages() { std::free(at); }
};

int reg(Asker& a, void* at, size_t bytes, unsigned flags = 0) {
    return WL_CU(a.driver, cuMemHostRegister_v2)(at, bytes, flags);
}
int unreg(Asker& a, void* at) { return WL_CU(a.driver, cuMemHostUnregister)(at); }

void add_registration(const Group& ask) {
    ask("register/unaligned", [](Asker& a) {
        Pages pages;
        const int result = reg(a, pages.at + 64, 2 * 4096 + 17);
        a.value("unregister", unreg(a, pages.at + 64));
        return result;
    });
    ask("register/unaligned-mapped", [](Asker& a) {
        Pages pages;
        const int result = reg(a, pages.at + 3, 5, CU_MEMHOSTREGISTER_DEVICEMAP);
        a.value("unregister", unreg(a, pages.at + 3));
        return result;
    });
    ask("register/neighbours-on-a-page", [](Asker& a) {
        Pages pages;
        made("first", reg(a, pages.at, 80));
        made("second", reg(a, pages.at + 80, 20));
        const int result = reg(a, pages.at + 120, 72);
        a.value("unregister", unreg(a, pages.at + 80));
        a.value("first_stays", reg(a, pages.at, 80));
        a.value("first", unreg(a, pages.at));
        a.value("third", unreg(a, pages.at + 120));
        return result;
    });
    ask("register/twice", [](Asker& a) {
        Pages pages;
        made("first", reg(a, pages.at, 4096));
        const int result = reg(a, pages.at, 4096);
        unreg(a, pages.at);
        return result;
    });
    ask("register/overlap-end", [](Asker& a) {
        Pages pages;
        made("first", reg(a, pages.at, 100));
        const int result = reg(a, pages.at + 99, 100);
        unreg(a, pages.at);
        return result;
    });
    ask("register/overlap-begin", [](Asker& a) {
        Pages pages;
        made("first", reg(a, pages.at + 100, 100));
        const int result = reg(a, pages.at, 101);
        unreg(a, pages.at + 100);
        return result;
    });
    ask("register/around", [](Asker& a) {
        Pages pages;
        made("first", reg(a, pages.at + 100, 100));
        const int result = reg(a, pages.at, 4096);
        unreg(a, pages.at + 100);
        return result;
    });
    ask("register/host-alloc", [](Asker& a) {
        void* memory = nullptr;
        made("host memory", WL_CU(a.driver, cuMemHostAlloc)(&memory, 4096, 0));
        const int result = reg(a, memory, 4096);
        WL_CU(a.driver, cuMemFreeHost)(memory);
        return result;
    });
    ask("register/null", [](Asker& a) { return reg(a, nullptr, 4096); });
    ask("register/0-bytes", [](Asker& a) { return reg(a, Pages().at, 0); });
    ask("register/wrap", [](Asker& a) { return reg(a, Pages().at, SIZE_MAX); });
    ask("register/unknown-flags", [](Asker& a) { return reg(a, Pages().at, 4096, 0x80); });
    ask("unregister/inside", [](Asker& a) {
        Pages pages;
        made("first", reg(a, pages.at, 4096));
        const int result = unreg(a, pages.at + 16);
        unreg(a, pages.at);
        return result;
    });
    ask("unregister/unknown", [](Asker& a) { return unreg(a, Pages().at); });
    ask("unregister/null", [](Asker& a) { return unreg(a, nullptr); });
    ask("unregister/twice", [](Asker& a) {
        Pages pages;
        made("first", reg(a, pages.at, 4096));
        made("unregister", unreg(a, pages.at));
        return unreg(a, pages.at);
    });
    ask("unregister/host-alloc", [](Asker& a) {
        void* memory = nullptr;
        made("host memory", WL_CU(a.driver, cuMemHostAlloc)(&memory, 4096, 0));
        const int result = unreg(a, memory);
        WL_CU(a.driver, cuMemFreeHost)(memory);
        return result;
    });
}

void add_allocation(const Group& ask) {
    ask("host-alloc/0-bytes", [](Asker& a) {
        void* memory = nullptr;
        const int result = WL_CU(a.driver, cuMemHostAlloc)(&memory, 0, 0);
        a.value("free", WL_CU(a.driver, cuMemFreeHost)(memory));
        return result;
    });
    ask("host-alloc/flags", [](Asker& a) {
        a.value("can_map", a.fixtures.attribute(CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY));
        void* memory = nullptr;
        unsigned flags = 77;
        made("host memory", WL_CU(a.driver, cuMemHostAlloc)(&memory, 64, 0));
        const int result = WL_CU(a.driver, cuMemHostGetFlags)(&flags, memory);
        a.value("flags", flags);
        WL_CU(a.driver, cuMemFreeHost)(memory);
        return result;
    });
    ask("host-alloc/unknown-flags", [](Asker& a) {
        void* memory = nullptr;
        return static_cast<int>(WL_CU(a.driver, cuMemHostAlloc)(&memory, 64, 0x80));
    });
    ask("host-alloc/too-much", [](Asker& a) {
        void* memory = nullptr;
        return static_cast<int>(WL_CU(a.driver, cuMemHostAlloc)(&memory, size_t{1} << 60, 0));
    });
    ask("host-free/null", [](Asker& a) { return static_cast<int>(WL_CU(a.driver, cuMemFreeHost)(nullptr)); });
    ask("host-free/unknown", [](Asker& a) { return static_cast<int>(WL_CU(a.driver, cuMemFreeHost)(Pages().at)); });
    ask("host-free/inside", [](Asker& a) {
        void* memory = nullptr;
        made("host memory", WL_CU(a.driver, cuMemHostAlloc)(&memory, 4096, 0));
        const int result = WL_CU(a.driver, cuMemFreeHost)(static_cast<char*>(memory) + 16);
        WL_CU(a.driver, cuMemFreeHost)(memory);
        return result;
    });
    ask("host-free/registered", [](Asker& a) {
        Pages pages;
        made("register", reg(a, pages.at, 4096));
        const int result = WL_CU(a.driver, cuMemFreeHost)(pages.at);
        unreg(a, pages.at);
        return result;
    });
    ask("host-flags/unknown", [](Asker& a) {
        unsigned flags = 0;
        return static_cast<int>(WL_CU(a.driver, cuMemHostGetFlags)(&flags, Pages().at));
    });
    ask("host-pointer/interior", [](Asker& a) {
        a.value("can_map", a.fixtures.attribute(CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY));
        void* memory = nullptr;
        made("host memory", WL_CU(a.driver, cuMemHostAlloc)(&memory, 4096, CU_MEMHOSTALLOC_DEVICEMAP));
        CUdeviceptr base = 0, inside = 0;
        WL_CU(a.driver, cuMemHostGetDevicePointer_v2)(&base, memory, 0);
        const int result = WL_CU(a.driver, cuMemHostGetDevicePointer_v2)(&inside, static_cast<char*>(memory) + 100, 0);
        a.value("offset", static_cast<int64_t>(inside - base));
        WL_CU(a.driver, cuMemFreeHost)(memory);
        return result;
    });
    ask("host-pointer/unknown", [](Asker& a) {
        CUdeviceptr base = 0;
        return static_cast<int>(WL_CU(a.driver, cuMemHostGetDevicePointer_v2)(&base, Pages().at, 0));
    });
    ask("host-pointer/flags", [](Asker& a) {
        void* memory = nullptr;
        CUdeviceptr base = 0;
        made("host memory", WL_CU(a.driver, cuMemHostAlloc)(&memory, 4096, CU_MEMHOSTALLOC_DEVICEMAP));
        const int result = WL_CU(a.driver, cuMemHostGetDevicePointer_v2)(&base, memory, 1);
        WL_CU(a.driver, cuMemFreeHost)(memory);
        return result;
    });
}

}  // namespace

void add_host_memory(Questions& all) {
    const Group ask(all, Stage::context, "host memory");
    add_registration(ask);
    add_allocation(ask);
}

}  // namespace warpline::probe
