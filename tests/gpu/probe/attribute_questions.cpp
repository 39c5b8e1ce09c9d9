// Attributes of functions, pools and pointers; names and parameters of functions; variables; libraries; the driver's log.
#include <cstring>

#include "tests/gpu/probe/question.h"

namespace warpline::probe {

namespace {

constexpr int k_unknown = 9999;
unsigned char all_of_it[64];  // ordinary memory, which no driver knows

CUkernel kernel(Asker& a) { return reinterpret_cast<CUkernel>(a.fixtures.handle("kernel")); }
CUlibrary library(Asker& a) { return reinterpret_cast<CUlibrary>(a.fixtures.handle("library")); }

void add_functions(Questions& all) {
    const Group ask(all, Stage::context, "functions");
    ask("function/attribute-unknown", [](Asker& a) {
        int value = 0;
        return static_cast<int>(WL_CU(a.driver, cuFuncGetAttribute)(&value, static_cast<CUfunction_attribute>(k_unknown),
                                                                    a.fixtures.function("empty")));
    });
    ask("function/attribute-unknown-again", [](Asker& a) {
        int value = 0;
        const CUfunction function = a.fixtures.function("empty");
        WL_CU(a.driver, cuFuncGetAttribute)(&value, static_cast<CUfunction_attribute>(k_unknown), function);
        return static_cast<int>(
            WL_CU(a.driver, cuFuncGetAttribute)(&value, static_cast<CUfunction_attribute>(k_unknown), function));
    });
    ask("function/set-attribute-unknown", [](Asker& a) {
        return static_cast<int>(
            WL_CU(a.driver, cuFuncSetAttribute)(a.fixtures.function("empty"), static_cast<CUfunction_attribute>(k_unknown), 0));
    });
    ask("function/set-attribute-read-only", [](Asker& a) {
        return static_cast<int>(
            WL_CU(a.driver, cuFuncSetAttribute)(a.fixtures.function("empty"), CU_FUNC_ATTRIBUTE_NUM_REGS, 8));
    });
    ask("function/carveout-reads-back", [](Asker& a) {
        const CUfunction function = a.fixtures.function("empty");
        constexpr auto k_carveout = CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT;
        int first = -1, second = -1;
        int result = WL_CU(a.driver, cuFuncSetAttribute)(function, k_carveout, 25);
        WL_CU(a.driver, cuFuncGetAttribute)(&first, k_carveout, function);
        if (result == CUDA_SUCCESS) result = WL_CU(a.driver, cuFuncSetAttribute)(function, k_carveout, 50);
        WL_CU(a.driver, cuFuncGetAttribute)(&second, k_carveout, function);
        a.value("first", first);
        a.value("second", second);
        return result;
    });
    ask("function/carveout-too-large", [](Asker& a) {
        return static_cast<int>(WL_CU(a.driver, cuFuncSetAttribute)(a.fixtures.function("empty"),
                                                                    CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, 101));
    });
    ask("function/dynamic-shared-too-large", [](Asker& a) {
        return static_cast<int>(WL_CU(a.driver, cuFuncSetAttribute)(a.fixtures.function("empty"),
                                                                    CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 1 << 28));
    });
    ask("function/parameter-past-end", [](Asker& a) {
        size_t offset = 0, size = 0;
        return static_cast<int>(WL_CU(a.driver, cuFuncGetParamInfo)(a.fixtures.function("add"), 2, &offset, &size));
    });
    ask("function/parameter", [](Asker& a) {
        size_t offset = 0, size = 0;
        const int result = WL_CU(a.driver, cuFuncGetParamInfo)(a.fixtures.function("add"), 1, &offset, &size);
        a.value("offset", static_cast<int64_t>(offset));
        a.value("size", static_cast<int64_t>(size));
        return result;
    });
    ask("function/name-of-null", [](Asker& a) {
        const char* name = nullptr;
        return static_cast<int>(WL_CU(a.driver, cuFuncGetName)(&name, nullptr));
    });
    ask("function/name-into-null",
        [](Asker& a) { return static_cast<int>(WL_CU(a.driver, cuFuncGetName)(nullptr, a.fixtures.function("empty"))); });
    ask("function/missing", [](Asker& a) {
        CUfunction function = nullptr;
        return static_cast<int>(WL_CU(a.driver, cuModuleGetFunction)(&function, a.fixtures.module(), "no_such_kernel"));
    });
    ask("kernel/name-of-null", [](Asker& a) {
        const char* name = nullptr;
        return static_cast<int>(WL_CU(a.driver, cuKernelGetName)(&name, nullptr));
    });
    ask("kernel/name-into-null",
        [](Asker& a) { return static_cast<int>(WL_CU(a.driver, cuKernelGetName)(nullptr, kernel(a))); });
    ask("kernel/parameter-past-end", [](Asker& a) {
        size_t offset = 0, size = 0;
        return static_cast<int>(WL_CU(a.driver, cuKernelGetParamInfo)(kernel(a), 0, &offset, &size));
    });
    ask("kernel/attribute-unknown", [](Asker& a) {
        int value = 0;
        return static_cast<int>(
            WL_CU(a.driver, cuKernelGetAttribute)(&value, static_cast<CUfunction_attribute>(k_unknown), kernel(a), 0));
    });
    ask("kernel/dynamic-shared-reads-back", [](Asker& a) {
        constexpr auto k_shared = CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        int value = -1;
        const int result = WL_CU(a.driver, cuKernelSetAttribute)(k_shared, 1024, kernel(a), 0);
        WL_CU(a.driver, cuKernelGetAttribute)(&value, k_shared, kernel(a), 0);
        a.value("value", value);
        return result;
    });
    ask("library/missing-kernel", [](Asker& a) {
        CUkernel found = nullptr;
        return static_cast<int>(WL_CU(a.driver, cuLibraryGetKernel)(&found, library(a), "no_such_kernel"));
    });
    ask("library/unload-its-module", [](Asker& a) {
        CUmodule module = nullptr;
        made("module", WL_CU(a.driver, cuLibraryGetModule)(&module, library(a)));
        return static_cast<int>(WL_CU(a.driver, cuModuleUnload)(module));
    });
    ask("library/same-layout-as-module", [](Asker& a) {
        CUkernel add = nullptr;
        made("kernel", WL_CU(a.driver, cuLibraryGetKernel)(&add, library(a), "add"));
        size_t offset[2] = {}, size[2] = {};
        made("module's", WL_CU(a.driver, cuFuncGetParamInfo)(a.fixtures.function("add"), 1, &offset[0], &size[0]));
        const int result = WL_CU(a.driver, cuKernelGetParamInfo)(add, 1, &offset[1], &size[1]);
        a.value("same", offset[0] == offset[1] && size[0] == size[1]);
        return result;
    });
}

void add_globals(Questions& all) {
    const Group ask(all, Stage::context, "variables");
    ask("global/address-null", [](Asker& a) {
        size_t size = 0;
        const int result = WL_CU(a.driver, cuModuleGetGlobal_v2)(nullptr, &size, a.fixtures.module(), "counter");
        a.value("size", static_cast<int64_t>(size));
        return result;
    });
    ask("global/size-null", [](Asker& a) {
        CUdeviceptr address = 0;
        const int result = WL_CU(a.driver, cuModuleGetGlobal_v2)(&address, nullptr, a.fixtures.module(), "counter");
        a.value("found", address != 0);
        return result;
    });
    ask("global/missing", [](Asker& a) {
        CUdeviceptr address = 0;
        size_t size = 0;
        return static_cast<int>(
            WL_CU(a.driver, cuModuleGetGlobal_v2)(&address, &size, a.fixtures.module(), "no_such_variable"));
    });
    ask("global/name-null", [](Asker& a) {
        CUdeviceptr address = 0;
        return static_cast<int>(WL_CU(a.driver, cuModuleGetGlobal_v2)(&address, nullptr, a.fixtures.module(), nullptr));
    });
}

CUmemoryPool pool(Asker& a) { return reinterpret_cast<CUmemoryPool>(a.fixtures.handle("mem_pool")); }

void add_pools(Questions& all) {
    const Group ask(all, Stage::context, "pools");
    ask("pool/get-unknown", [](Asker& a) {
        uint64_t value = 0;
        return static_cast<int>(
            WL_CU(a.driver, cuMemPoolGetAttribute)(pool(a), static_cast<CUmemPool_attribute>(k_unknown), &value));
    });
    ask("pool/set-unknown", [](Asker& a) {
        uint64_t value = 0;
        return static_cast<int>(
            WL_CU(a.driver, cuMemPoolSetAttribute)(pool(a), static_cast<CUmemPool_attribute>(k_unknown), &value));
    });
    ask("pool/set-read-only", [](Asker& a) {
        uint64_t value = 1;
        return static_cast<int>(WL_CU(a.driver, cuMemPoolSetAttribute)(pool(a), CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &value));
    });
    ask("pool/high-mark-nonzero", [](Asker& a) {
        uint64_t value = 1;
        return static_cast<int>(WL_CU(a.driver, cuMemPoolSetAttribute)(pool(a), CU_MEMPOOL_ATTR_USED_MEM_HIGH, &value));
    });
    ask("pool/destroy-default", [](Asker& a) {
        CUmemoryPool own = nullptr;
        made("default pool", WL_CU(a.driver, cuDeviceGetDefaultMemPool)(&own, 0));
        return static_cast<int>(WL_CU(a.driver, cuMemPoolDestroy)(own));
    });
    ask("pool/destroy-with-memory", [](Asker& a) {
        CUdeviceptr memory = 0;
        auto mine = reinterpret_cast<CUmemoryPool>(a.fixtures.fresh("mem_pool"));
        made("memory", WL_CU(a.driver, cuMemAllocFromPoolAsync)(&memory, 64, mine, nullptr));
        return static_cast<int>(WL_CU(a.driver, cuMemPoolDestroy)(mine));
    });
}

using Attributes = std::vector<CUpointer_attribute>;

/// cuPointerGetAttributes of many attributes at once; values that were not written are left out of the answer.
int ask_many(Asker& a, CUdeviceptr pointer) {
    Attributes attributes = {CU_POINTER_ATTRIBUTE_CONTEXT,        CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                             CU_POINTER_ATTRIBUTE_DEVICE_POINTER, CU_POINTER_ATTRIBUTE_HOST_POINTER,
                             CU_POINTER_ATTRIBUTE_IS_MANAGED,     CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                             CU_POINTER_ATTRIBUTE_MAPPED,         CU_POINTER_ATTRIBUTE_BUFFER_ID};
    constexpr uint64_t k_untouched = 0x5a5a5a5a5a5a5a5a;
    std::vector<uint64_t> values(attributes.size(), k_untouched);
    std::vector<void*> places;
    for (uint64_t& value : values) places.push_back(&value);
    const int result = WL_CU(a.driver, cuPointerGetAttributes)(static_cast<unsigned>(attributes.size()), attributes.data(),
                                                               places.data(), pointer);
    auto low = [&](size_t i) { return static_cast<int32_t>(values[i]); };
    a.value("context_null", values[0] == 0);
    a.value("type", low(1));
    a.text("device_pointer", values[2] == pointer       ? "echo"
                             : values[2] == 0           ? "null"
                             : values[2] == k_untouched ? "-"
                                                        : "other");
    a.text("host_pointer", values[3] == pointer ? "echo" : values[3] == 0 ? "null" : values[3] == k_untouched ? "-" : "other");
    a.value("managed", static_cast<uint8_t>(values[4]));
    a.value("ordinal", low(5));
    a.value("mapped", static_cast<uint8_t>(values[6]));
    a.value("buffer_id_zero", values[7] == 0);
    int pageable = 0;
    WL_CU(a.driver, cuDeviceGetAttribute)(&pageable, CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS, 0);
    a.value("pageable_access", pageable);
    return result;
}

void add_pointers(Questions& all) {
    const Group ask(all, Stage::context, "pointers");
    ask("pointer/one-unknown-attribute", [](Asker& a) {
        uint64_t value = 0;
        return static_cast<int>(WL_CU(a.driver, cuPointerGetAttribute)(&value, static_cast<CUpointer_attribute>(k_unknown),
                                                                       a.fixtures.device_memory()));
    });
    ask("pointer/many-unknown-attribute", [](Asker& a) {
        uint64_t value = 0;
        void* place = &value;
        auto attribute = static_cast<CUpointer_attribute>(k_unknown);
        return static_cast<int>(WL_CU(a.driver, cuPointerGetAttributes)(1, &attribute, &place, a.fixtures.device_memory()));
    });
    ask("pointer/one-of-malloc", [](Asker& a) {
        uint64_t value = 0;
        return static_cast<int>(WL_CU(a.driver, cuPointerGetAttribute)(&value, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                                                       reinterpret_cast<CUdeviceptr>(&all_of_it)));
    });
    ask("pointer/one-of-null", [](Asker& a) {
        uint64_t value = 0;
        return static_cast<int>(WL_CU(a.driver, cuPointerGetAttribute)(&value, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, 0));
    });
    ask("pointer/many-of-null", [](Asker& a) { return ask_many(a, 0); });
    ask("pointer/many-of-bogus", [](Asker& a) { return ask_many(a, 0x10); });
    ask("pointer/many-of-malloc", [](Asker& a) { return ask_many(a, reinterpret_cast<CUdeviceptr>(&all_of_it)); });
    ask("pointer/many-of-device", [](Asker& a) { return ask_many(a, a.fixtures.device_memory() + 16); });
    ask("pointer/many-of-host-alloc", [](Asker& a) {
        void* memory = nullptr;
        made("host memory", WL_CU(a.driver, cuMemHostAlloc)(&memory, 4096, 0));
        const int result = ask_many(a, reinterpret_cast<CUdeviceptr>(memory));
        WL_CU(a.driver, cuMemFreeHost)(memory);
        return result;
    });
    ask("pointer/many-range-of-malloc", [](Asker& a) {
        uint64_t start = 77, size = 77;
        CUpointer_attribute attributes[] = {CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, CU_POINTER_ATTRIBUTE_RANGE_SIZE};
        void* places[] = {&start, &size};
        const int result =
            WL_CU(a.driver, cuPointerGetAttributes)(2, attributes, places, reinterpret_cast<CUdeviceptr>(&all_of_it));
        a.value("start_written", start != 77);
        a.value("size_written", size != 77);
        return result;
    });
    ask("pointer/buffer-ids-differ", [](Asker& a) {
        uint64_t ids[2] = {};
        int result = CUDA_SUCCESS;
        for (uint64_t& id : ids) {
            CUdeviceptr memory = 0;
            made("memory", WL_CU(a.driver, cuMemAlloc_v2)(&memory, 4096));
            result = WL_CU(a.driver, cuPointerGetAttribute)(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, memory);
            made("free", WL_CU(a.driver, cuMemFree_v2)(memory));
        }
        a.value("differ", ids[0] != ids[1]);
        return result;
    });
    ask("pointer/set-sync-memops", [](Asker& a) {
        unsigned on = 1, now = 77;
        const int result =
            WL_CU(a.driver, cuPointerSetAttribute)(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, a.fixtures.device_memory());
        WL_CU(a.driver, cuPointerGetAttribute)(&now, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, a.fixtures.device_memory());
        a.value("now", now);
        on = 0;
        WL_CU(a.driver, cuPointerSetAttribute)(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, a.fixtures.device_memory());
        WL_CU(a.driver, cuPointerGetAttribute)(&now, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, a.fixtures.device_memory());
        a.value("then", now);
        return result;
    });
    ask("pointer/set-other", [](Asker& a) {
        unsigned value = 1;
        const int result =
            WL_CU(a.driver, cuPointerSetAttribute)(&value, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, a.fixtures.device_memory());
        a.value("refused", result != CUDA_SUCCESS);
        return result;
    });
    ask("pointer/set-on-malloc", [](Asker& a) {
        unsigned value = 1;
        return static_cast<int>(WL_CU(a.driver, cuPointerSetAttribute)(&value, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS,
                                                                       reinterpret_cast<CUdeviceptr>(&all_of_it)));
    });
}

void count_lines(void* data, CUlogLevel level, char*, size_t) {
    if (level == CU_LOG_LEVEL_ERROR) ++*static_cast<int*>(data);
}

void add_logs(Questions& all) {
    const Group ask(all, Stage::context, "logs");
    ask("logs/current-null", [](Asker& a) { return static_cast<int>(WL_CU(a.driver, cuLogsCurrent)(nullptr, 0)); });
    ask("logs/file-null", [](Asker& a) { return static_cast<int>(WL_CU(a.driver, cuLogsDumpToFile)(nullptr, nullptr, 0)); });
    ask("logs/memory-null", [](Asker& a) {
        size_t size = 64;
        return static_cast<int>(WL_CU(a.driver, cuLogsDumpToMemory)(nullptr, nullptr, &size, 0));
    });
    ask("logs/callback-of-an-error", [](Asker& a) {
        int lines = 0;
        CUlogsCallbackHandle handle = nullptr;
        const int result = WL_CU(a.driver, cuLogsRegisterCallback)(count_lines, &lines, &handle);
        WL_CU(a.driver, cuMemAlloc_v2)(nullptr, 64);
        a.value("told", lines > 0);
        WL_CU(a.driver, cuLogsUnregisterCallback)(handle);
        return result;
    });
    ask("logs/dump-after-an-error", [](Asker& a) {
        CUlogIterator from{};
        made("iterator", WL_CU(a.driver, cuLogsCurrent)(&from, 0));
        WL_CU(a.driver, cuMemAlloc_v2)(nullptr, 64);
        char text[25601];
        std::memset(text, 'x', sizeof text);
        size_t size = 25600;
        const int result = WL_CU(a.driver, cuLogsDumpToMemory)(&from, text, &size, 0);
        a.value("some", size > 0 && size <= 25600);
        a.value("ends", size <= 25600 && text[size] == '\0');
        return result;
    });
}

}  // namespace

void add_attributes(Questions& all) {
    add_functions(all);
    add_globals(all);
    add_pools(all);
    add_pointers(all);
    add_logs(all);
}

}  // namespace warpline::probe
