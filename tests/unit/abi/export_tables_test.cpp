// The tables through the eyes of their callers: by identifier, slot number and prototype.
#include "cuda/abi/export_tables.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "common/log/log.h"
#include "cuda/abi/context_storage.h"
#include "cuda/abi/integrity.h"

namespace warpline::cuda::abi {
namespace {

CUcontext fake_context() { return reinterpret_cast<CUcontext>(0xc0de000); }
CUcontext fake_green_context() { return reinterpret_cast<CUcontext>(0xc0de010); }

class FakeDriver final : public ExportTableHost {
public:
    CUresult primary_context(CUcontext* context, CUdevice device) override {
        if (device != 0) return CUDA_ERROR_INVALID_DEVICE;
        *context = fake_context();
        return CUDA_SUCCESS;
    }
    CUcontext current_context() override { return current; }
    CUresult context_id(CUcontext context, uint64_t* id) override {
        *id = context == fake_context() ? 77 : 0;
        return CUDA_SUCCESS;
    }
    CUresult stream_id(CUcontext, CUstream stream, bool per_thread, uint64_t* id) override {
        *id = reinterpret_cast<uintptr_t>(stream) + (per_thread ? 1000 : 0);
        return CUDA_SUCCESS;
    }
    bool is_green(CUcontext context) override { return context == fake_green_context(); }
    CUresult functions_of_module(CUmodule module, void (*visit)(void*, CUfunction), void* user) override {
        if (module == nullptr) return CUDA_ERROR_INVALID_HANDLE;
        visit(user, reinterpret_cast<CUfunction>(0xf1));
        visit(user, reinterpret_cast<CUfunction>(0xf2));
        return CUDA_SUCCESS;
    }
    CUresult load_module(CUmodule* module, const void* image) override {
        *module = reinterpret_cast<CUmodule>(reinterpret_cast<uintptr_t>(image) + 1);
        return CUDA_SUCCESS;
    }
    int driver_version() override { return 13000; }
    int device_count() override { return 1; }
    CUresult device_identity(int, DeviceIdentity* identity) override {
        identity->uuid.bytes[3] = 9;
        identity->pci_bus = 5;
        return CUDA_SUCCESS;
    }
    CUcontext current = nullptr;
};
FakeDriver& driver() {
    static FakeDriver driver;
    return driver;
}

CUuuid uuid(const char* hex) {
    CUuuid result{};
    for (int i = 0; i < 16; i++) {
        unsigned byte = 0;
        sscanf(hex + 2 * i, "%2x", &byte);
        result.bytes[i] = static_cast<char>(byte);
    }
    return result;
}

class ExportTables : public testing::Test {
protected:
    void SetUp() override {
        set_export_table_host(&driver());
        driver().current = fake_context();
    }
    static const uintptr_t* table(const char* id) {
        const void* found = nullptr;
        CUuuid key = uuid(id);
        EXPECT_EQ(get_export_table(&found, &key), CUDA_SUCCESS) << id;
        return static_cast<const uintptr_t*>(found);
    }
    template <typename F>
    static F* function(const uintptr_t* table, size_t slot) {
        return reinterpret_cast<F*>(table[slot]);
    }
};

constexpr const char* k_cudart = "6BD5FB6C5BF4E74A8987D93912FD9DF9";
constexpr const char* k_hooks = "A094798C2E742E7493F20800200C0A66";
constexpr const char* k_tls = "42D85A8123F6CB478298F6E78A3AECDC";
constexpr const char* k_storage = "C693336E1121DF11A8C368F355D89593";
constexpr const char* k_checks = "263E88607CD2614392F6BBD5006DFA7E";
constexpr const char* k_integrity = "D4082055BDE6704B8D34BA123C66E1F2";
constexpr const char* k_context = "21318C60971432488CA641FF7324C8F2";
constexpr const char* k_function = "6E163FBEB958444D835CE182AFF1991E";
constexpr const char* k_topology = "1734DC26800D47458726C0F1E7DD8BCA";
constexpr const char* k_profiler = "7CB63F9B9CA48E42A484BEB66E6AED7F";

TEST_F(ExportTables, SizesAsCallersCheckThem) {
    EXPECT_EQ(table(k_cudart)[0], 13 * 8u);
    EXPECT_EQ(table(k_hooks)[0], 56u);
    EXPECT_EQ(table(k_tls)[0], 4 * 8u);
    EXPECT_EQ(table(k_storage)[3], 0u) << "no size, null at the end";
    EXPECT_EQ(table(k_checks)[0], 4 * 8u);
    EXPECT_EQ(table(k_integrity)[0], 3 * 8u);
    EXPECT_EQ(table(k_context)[0], 93 * 8u);
    EXPECT_GT(table(k_function)[0], 0x37u);
    EXPECT_EQ(table(k_profiler)[0], 33 * 8u) << "with slot 67 CUPTI 13.2 crashes";
    EXPECT_EQ(table(k_cudart), table(k_cudart)) << "the same table every time: its address is part of the integrity answer";
}

TEST_F(ExportTables, UnknownTablesAreRefused) {
    for (const char* id :
         {"F8CFF95121468B4EB9E2FB469E7C0DD9", "DA9151D33AE6CC41A5C04F26D533E328", "00112233445566778899AABBCCDDEEFF"}) {
        const void* found = &found;
        CUuuid key = uuid(id);
        EXPECT_EQ(get_export_table(&found, &key), CUDA_ERROR_INVALID_VALUE) << id;
        EXPECT_EQ(found, nullptr);
    }
    const void* found = nullptr;
    CUuuid key = uuid(k_cudart);
    EXPECT_EQ(get_export_table(nullptr, &key), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(get_export_table(&found, nullptr), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(ExportTables, AProfilerIsToldWhyOnce) {
    testing::internal::CaptureStderr();
    CUuuid key = uuid("2C8E0AD80710AB4E90DD54719FE5F74B");
    const void* found = nullptr;
    for (int i = 0; i < 2; ++i) EXPECT_EQ(get_export_table(&found, &key), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(function<CUresult(void*, void*)>(table(k_profiler), 32)(nullptr, nullptr), CUDA_ERROR_NOT_SUPPORTED);
    const std::string said = testing::internal::GetCapturedStderr();
    EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
    EXPECT_NE(said.find("warpline run --trace"), std::string::npos) << said;
}

TEST_F(ExportTables, EverySlotIsCallableAndUnknownOnesRefuse) {
    log::configure("off");  // each refusal says a line
    struct Row {
        const char* id;
        std::vector<size_t> served;
    };
    for (const Row& row :
         {Row{k_cudart, {2, 6, 7, 12}}, Row{k_hooks, {2, 6}}, Row{k_tls, {2}}, Row{k_checks, {2, 3}}, Row{k_integrity, {1}},
          Row{k_context, {4, 39, 51}}, Row{k_function, {7}}, Row{k_topology, {}}, Row{k_profiler, {}}}) {
        const uintptr_t* slots = table(row.id);
        for (size_t i = 1; i < slots[0] / 8; i++) {
            ASSERT_NE(slots[i], 0u) << row.id << " slot " << i;
            if (std::find(row.served.begin(), row.served.end(), i) != row.served.end()) continue;
            EXPECT_EQ(function<CUresult()>(slots, i)(), CUDA_ERROR_NOT_SUPPORTED);
        }
    }
}

TEST_F(ExportTables, PrimaryAndCurrentContext) {
    CUcontext context = nullptr;
    auto* primary = function<CUresult(CUcontext*, CUdevice)>(table(k_cudart), 2);
    EXPECT_EQ(primary(&context, 0), CUDA_SUCCESS);
    EXPECT_EQ(context, fake_context());
    EXPECT_EQ(primary(&context, 9), CUDA_ERROR_INVALID_DEVICE);
    auto* current = function<CUresult(CUcontext*)>(table(k_tls), 2);
    context = nullptr;
    EXPECT_EQ(current(&context), CUDA_SUCCESS);
    EXPECT_EQ(context, fake_context());
    driver().current = nullptr;
    EXPECT_EQ(current(&context), CUDA_SUCCESS);
    EXPECT_EQ(context, nullptr);
}

TEST_F(ExportTables, WhatNewerAndOlderRuntimesCallAtTheirStart) {
    EXPECT_EQ(function<CUresult()>(table(k_cudart), 12)(), CUDA_SUCCESS)
        << "libcudart 13.1: its answer is that of every later call";
    EXPECT_EQ(function<CUresult(void*)>(table(k_cudart), 7)(nullptr), CUDA_SUCCESS) << "libcudart 11.8";
    using Load = CUresult(CUmodule*, const void*, void*, void*, uintptr_t);
    auto* load = function<Load>(table(k_cudart), 6);
    const auto* wrapper = reinterpret_cast<const void*>(0x1000);
    CUmodule module = nullptr;
    EXPECT_EQ(load(&module, wrapper, nullptr, nullptr, 0), CUDA_SUCCESS);
    EXPECT_EQ(module, reinterpret_cast<CUmodule>(0x1001)) << "as the driver's own loader";
    EXPECT_EQ(load(nullptr, wrapper, nullptr, nullptr, 0), CUDA_ERROR_INVALID_VALUE);
    log::configure("off");
    EXPECT_EQ(load(&module, wrapper, &module, nullptr, 0), CUDA_ERROR_NOT_SUPPORTED) << "options that nobody knows";
}

TEST_F(ExportTables, MinusOneMeansTheCurrentContext) {
    auto* minus_one = reinterpret_cast<CUcontext>(intptr_t{-1});
    int key = 0, value = 0;
    auto* put = function<CUresult(CUcontext, void*, void*, ContextStorage::Destructor)>(table(k_storage), 0);
    auto* get = function<CUresult(void**, CUcontext, void*)>(table(k_storage), 2);
    EXPECT_EQ(put(minus_one, &key, &value, nullptr), CUDA_SUCCESS);
    void* found = nullptr;
    EXPECT_EQ(get(&found, fake_context(), &key), CUDA_SUCCESS);
    EXPECT_EQ(found, &value);
    EXPECT_EQ(function<CUresult(CUcontext, void*)>(table(k_storage), 1)(minus_one, &key), CUDA_SUCCESS);
    uint64_t id = 0;
    EXPECT_EQ((function<CUresult(CUcontext, uint64_t*)>(table(k_context), 4)(minus_one, &id)), CUDA_SUCCESS);
    EXPECT_EQ(id, 77u);
    driver().current = nullptr;
    EXPECT_EQ(get(&found, minus_one, &key), CUDA_ERROR_INVALID_CONTEXT);
}

TEST_F(ExportTables, ToolHooksAreMemoryOfZeros) {
    for (size_t slot : {2u, 6u}) {
        void* buffer = nullptr;
        size_t count = 0;
        function<void(void**, size_t*)>(table(k_hooks), slot)(&buffer, &count);
        ASSERT_NE(buffer, nullptr);
        EXPECT_EQ(count, slot == 2 ? 1024u : 14u);
        std::vector<void*> zeros(count);
        EXPECT_EQ(memcmp(buffer, zeros.data(), count * sizeof(void*)), 0);
    }
}

TEST_F(ExportTables, ContextLocalStorage) {
    int key = 0, value = 0;
    auto* put = function<CUresult(CUcontext, void*, void*, ContextStorage::Destructor)>(table(k_storage), 0);
    auto* remove = function<CUresult(CUcontext, void*)>(table(k_storage), 1);
    auto* get = function<CUresult(void**, CUcontext, void*)>(table(k_storage), 2);
    void* found = &value;
    EXPECT_EQ(get(&found, nullptr, &key), CUDA_ERROR_INVALID_HANDLE);
    static int s_destroyed = 0;
    EXPECT_EQ(put(fake_context(), &key, &value, [](CUcontext, void*, void*) { s_destroyed++; }), CUDA_SUCCESS);
    EXPECT_EQ(get(&found, nullptr, &key), CUDA_SUCCESS) << "null means the current context";
    EXPECT_EQ(found, &value);
    driver().current = nullptr;
    EXPECT_EQ(get(&found, nullptr, &key), CUDA_ERROR_INVALID_CONTEXT);
    EXPECT_EQ(get(&found, fake_context(), &key), CUDA_SUCCESS);
    context_storage_clear(fake_context());
    EXPECT_EQ(s_destroyed, 1);
    EXPECT_EQ(remove(fake_context(), &key), CUDA_ERROR_INVALID_HANDLE);
}

TEST_F(ExportTables, ContextChecksTellGreenContexts) {
    const auto check = function<CUresult(CUcontext, uint32_t*, void**)>(table(k_checks), 2);
    uint32_t kind = 99;
    void* detail = &kind;
    EXPECT_EQ(check(fake_context(), &kind, &detail), CUDA_SUCCESS);
    EXPECT_EQ(kind, 0u);
    EXPECT_EQ(detail, nullptr);
    EXPECT_EQ(check(fake_green_context(), &kind, nullptr), CUDA_SUCCESS);
    EXPECT_EQ(kind, 1u);
    driver().current = fake_green_context();
    EXPECT_EQ(check(nullptr, &kind, nullptr), CUDA_SUCCESS);
    EXPECT_EQ(kind, 1u);
    EXPECT_EQ(function<uint32_t()>(table(k_checks), 3)(), 0u);
}

TEST_F(ExportTables, IntegrityAnswerIsMadeOfThisProcess) {
    const uintptr_t* integrity = table(k_integrity);
    uint64_t answer[2] = {}, expected[2] = {};
    auto* check = function<CUresult(uint32_t, uint64_t, uint64_t*)>(integrity, 1);
    ASSERT_EQ(check(13002, 1234567890, answer), CUDA_SUCCESS);
    DeviceIdentity identity;
    driver().device_identity(0, &identity);
    IntegrityInput input{13000,
                         13002,
                         static_cast<uint32_t>(getpid()),
                         static_cast<uint32_t>(pthread_self()),
                         reinterpret_cast<uintptr_t>(table(k_cudart)),
                         reinterpret_cast<uintptr_t>(integrity),
                         integrity[1],
                         1234567890,
                         {&identity, 1}};
    integrity_answer(input, expected);
    EXPECT_EQ(answer[0], expected[0]);
    EXPECT_EQ(answer[1], expected[1]);
    EXPECT_EQ(check(13002, 1, nullptr), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(ExportTables, ContextAndStreamNumbers) {
    const uintptr_t* slots = table(k_context);
    uint64_t id = 0;
    EXPECT_EQ((function<CUresult(CUcontext, uint64_t*)>(slots, 4)(nullptr, &id)), CUDA_SUCCESS);
    EXPECT_EQ(id, 77u);
    auto* private_stream = function<CUresult(CUcontext, CUstream, void**, int)>(slots, 51);
    auto* stream_id = function<CUresult(CUcontext, void*, uint64_t*)>(slots, 39);
    struct Row {
        CUstream stream;
        int per_thread;
        uint64_t id;
    };
    for (const Row& row : {Row{nullptr, 0, 1}, Row{nullptr, 1, 1002}, Row{CU_STREAM_PER_THREAD, 1, 1002},
                           Row{CU_STREAM_LEGACY, 0, 1}, Row{reinterpret_cast<CUstream>(0x5000), 0, 0x5000}}) {
        void* handle = nullptr;
        EXPECT_EQ(private_stream(fake_context(), row.stream, &handle, row.per_thread), CUDA_SUCCESS);
        ASSERT_NE(handle, nullptr) << "cuBLAS takes null for a failure";
        EXPECT_EQ(stream_id(fake_context(), handle, &id), CUDA_SUCCESS);
        EXPECT_EQ(id, row.id);
    }
    driver().current = nullptr;
    EXPECT_EQ((function<CUresult(CUcontext, uint64_t*)>(slots, 4)(nullptr, &id)), CUDA_ERROR_INVALID_CONTEXT);
}

TEST_F(ExportTables, FunctionsOfAModule) {
    using Visit = void(void*, CUfunction, uint64_t);
    auto* each = function<int(CUcontext, CUmodule, Visit*, void*)>(table(k_function), 7);
    std::vector<CUfunction> found;
    Visit* visit = [](void* user, CUfunction function, uint64_t) {
        static_cast<std::vector<CUfunction>*>(user)->push_back(function);
    };
    EXPECT_EQ(each(fake_context(), reinterpret_cast<CUmodule>(0x33), visit, &found), 1) << "cuFFT wants exactly 1";
    EXPECT_EQ(found.size(), 2u);
    EXPECT_NE(each(fake_context(), nullptr, visit, &found), 1);
}

}  // namespace
}  // namespace warpline::cuda::abi
