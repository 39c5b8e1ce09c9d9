// The tables have no header anywhere: layouts and meanings were found by observing libcudart 11.8 to 13.5, cuBLAS, cuFFT,
// NVRTC and CUPTI 12.8 to 13.5. Slot 0 of a table is its size in bytes (CONTEXT_LOCAL_STORAGE has none). A slot that nobody was
// seen to call refuses and says so: answering CUDA_SUCCESS without doing anything makes NVRTC and cuBLASLt crash.
#include "cuda/abi/export_tables.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <new>
#include <vector>

#include "common/log/log.h"
#include "cuda/abi/context_storage.h"
#include "cuda/abi/integrity.h"

namespace warpline::cuda::abi {

namespace {

std::atomic<ExportTableHost*> g_host{nullptr};

// Released in set_export_table_host, acquired here.
ExportTableHost* host() { return g_host.load(std::memory_order_acquire); }

// The context that a slot's argument means; null where there is none. Libraries say "the current one" by null, libcudart 11 by
// -1.
CUcontext or_current(CUcontext context) {
    if (context != nullptr && reinterpret_cast<intptr_t>(context) != -1) return context;
    ExportTableHost* driver = host();
    return driver != nullptr ? driver->current_context() : nullptr;
}

using Slot = const void*;

template <typename F>
Slot slot(F* function) {
    return reinterpret_cast<Slot>(function);
}

enum class TableName : uint8_t { cudart, hooks, tls, checks, integrity, context, function, topology, profiler };
constexpr const char* k_table_names[] = {"CUDART_INTERFACE", "TOOLS_RUNTIME_CALLBACK_HOOKS",
                                         "TOOLS_TLS",        "CONTEXT_CHECKS",
                                         "INTEGRITY_CHECK",  "CONTEXT",
                                         "FUNCTION",         "1734DC26",
                                         "7CB63F9B"};

// What a profiler is told, once: its own error codes say nothing.
void refuse_profiler() noexcept {
    static std::atomic<bool> s_told{false};
    if (s_told.exchange(true, std::memory_order_relaxed)) return;
    WL_LOG(warn, "cuda",
           "CUPTI is refused: what a profiler collects is not to be had here; 'warpline run --trace FILE' shows what a program "
           "does on its GPU");
}

// One function per table and slot, so that the line says which one was called. Any arguments: the caller cleans up.
template <TableName Name, size_t Index>
CUresult refuse() noexcept {
    if constexpr (Name == TableName::profiler) {
        refuse_profiler();
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    static std::atomic<bool> s_told{false};
    if (!s_told.exchange(true, std::memory_order_relaxed)) {
        // cuBLASLt tries this one and is content with the refusal.
        if constexpr (Name == TableName::topology)
            WL_LOG(info, "cuda", "export table {} slot {} refused", k_table_names[static_cast<size_t>(Name)], Index);
        else
            WL_LOG(warn, "cuda", "export table {} slot {} is not supported", k_table_names[static_cast<size_t>(Name)], Index);
    }
    return CUDA_ERROR_NOT_SUPPORTED;
}

// A table of Count slots, size word first, all others refusing until set.
template <TableName Name, size_t Count>
class Table {
public:
    Table() : Table(std::make_index_sequence<Count>()) {}
    Table& set(size_t index, Slot function) {
        m_slots[index] = function;
        return *this;
    }
    Slot at(size_t index) const { return m_slots[index]; }
    const void* address() const { return m_slots.data(); }

private:
    template <size_t... Index>
    explicit Table(std::index_sequence<Index...>) : m_slots{slot(&refuse<Name, Index>)...} {
        m_slots[0] = reinterpret_cast<Slot>(Count * sizeof(Slot));
    }
    std::array<Slot, Count> m_slots;
};

// CUDART_INTERFACE slot 2.
CUresult primary_context(CUcontext* context, CUdevice device) noexcept {
    if (context == nullptr) return CUDA_ERROR_INVALID_VALUE;
    ExportTableHost* driver = host();
    return driver != nullptr ? driver->primary_context(context, device) : CUDA_ERROR_NOT_INITIALIZED;
}

// CUDART_INTERFACE slot 6: how libcudart 11 loads a module, from what nvcc registered. What the last three arguments could say
// was never seen: they are null and 0.
CUresult load_fat_binary(CUmodule* module, const void* wrapper, const void* first, const void* second,
                         uintptr_t third) noexcept {
    if (module == nullptr || wrapper == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (first != nullptr || second != nullptr || third != 0) {
        WL_LOG(warn, "cuda", "export table CUDART_INTERFACE slot 6 with options ({}, {}, {}) is not supported", first, second,
               third);
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    ExportTableHost* driver = host();
    return driver != nullptr ? driver->load_module(module, wrapper) : CUDA_ERROR_NOT_INITIALIZED;
}

// CUDART_INTERFACE slots 7 (libcudart 11, around its module loads) and 12 (libcudart 13.1 and later, at its start: NVIDIA's
// driver loads its compilers there; ours are where the device is). libcudart 13.1 makes any other answer the error of every
// later call.
CUresult nothing_to_do() noexcept { return CUDA_SUCCESS; }

// TOOLS_RUNTIME_CALLBACK_HOOKS slots 2 and 6: memory that says which callbacks of a profiler are on. All zero: none.
alignas(64) std::array<void*, 1024> g_hooks_first;
alignas(64) std::array<void*, 32> g_hooks_second;

void hooks_first(void** buffer, size_t* count) noexcept {
    if (buffer != nullptr) *buffer = g_hooks_first.data();
    if (count != nullptr) *count = g_hooks_first.size();
}
void hooks_second(void** buffer, size_t* count) noexcept {
    constexpr size_t k_count = 14;
    if (buffer != nullptr) *buffer = g_hooks_second.data();
    if (count != nullptr) *count = k_count;
}

// TOOLS_TLS slot 2. The calling thread's context, or null. cuBLAS asks.
CUresult thread_context(CUcontext* context) noexcept {
    if (context == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *context = or_current(nullptr);
    return CUDA_SUCCESS;
}

// CONTEXT_LOCAL_STORAGE slots 0, 1, 2.
CUresult storage_put(CUcontext context, void* key, void* value, ContextStorage::Destructor destructor) noexcept {
    return context_storage().put(or_current(context), key, value, destructor);
}
CUresult storage_remove(CUcontext context, void* key) noexcept { return context_storage().remove(or_current(context), key); }
CUresult storage_get(void** value, CUcontext context, void* key) noexcept {
    return context_storage().get(value, or_current(context), key);
}

// CONTEXT_CHECKS slots 2 and 3: of which kind the context is, and no check is switched on. libcudart 13.1 and later destroys
// execution contexts and makes streams in them as it is told here.
CUresult check_context(CUcontext context, uint32_t* kind, void** detail) noexcept {
    constexpr uint32_t k_ordinary = 0, k_green = 1;
    ExportTableHost* driver = host();
    if (kind != nullptr) *kind = driver != nullptr && driver->is_green(or_current(context)) ? k_green : k_ordinary;
    if (detail != nullptr) *detail = nullptr;
    return CUDA_SUCCESS;
}
uint32_t enabled_checks() noexcept { return 0; }

CUresult check_integrity(uint32_t version, uint64_t unix_seconds, uint64_t answer[2]) noexcept;

// CONTEXT slots 4, 51 and 39. A stream's private handle is the public one; the two default streams need one that is not null.
CUresult context_id(CUcontext context, uint64_t* id) noexcept {
    if (id == nullptr) return CUDA_ERROR_INVALID_VALUE;
    context = or_current(context);
    if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
    return host()->context_id(context, id);
}
CUresult private_stream(CUcontext, CUstream stream, void** handle, int is_per_thread) noexcept {
    if (handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (stream == nullptr) stream = is_per_thread != 0 ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY;
    *handle = stream;
    return CUDA_SUCCESS;
}
CUresult private_stream_id(CUcontext context, void* handle, uint64_t* id) noexcept {
    if (handle == nullptr || id == nullptr) return CUDA_ERROR_INVALID_VALUE;
    context = or_current(context);
    if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
    auto stream = static_cast<CUstream>(handle);
    return host()->stream_id(context, stream, stream == CU_STREAM_PER_THREAD, id);
}

// FUNCTION slot 7. Success is exactly 1; cuFFT gives up on anything else.
using VisitFunction = void (*)(void* user, CUfunction function, uint64_t zero);
struct Visit {
    VisitFunction function;
    void* user;
};
int each_function(CUcontext, CUmodule module, VisitFunction function, void* user) noexcept {
    constexpr int k_success = 1;
    ExportTableHost* driver = host();
    if (driver == nullptr || function == nullptr) return 0;
    Visit visit{function, user};
    auto forward = [](void* opaque, CUfunction found) {
        const Visit& to = *static_cast<Visit*>(opaque);
        to.function(to.user, found, 0);
    };
    return driver->functions_of_module(module, forward, &visit) == CUDA_SUCCESS ? k_success : 0;
}

using CudartTable = Table<TableName::cudart, 13>;
using HooksTable = Table<TableName::hooks, 7>;
using TlsTable = Table<TableName::tls, 4>;
using ChecksTable = Table<TableName::checks, 4>;
using IntegrityTable = Table<TableName::integrity, 3>;
using ContextTable = Table<TableName::context, 93>;
using FunctionTable = Table<TableName::function, 8>;
// Which multiprocessors make up a cluster of the chip. cuBLASLt calls slot 4 without looking whether there is a table, and
// falls back when the slot refuses.
using TopologyTable = Table<TableName::topology, 100>;
// CUPTI's. Without it CUPTI 13.2 calls itself without end, and 13.5 does not even tell its version; with a slot 67 that refuses
// 13.2 does the same, and with one that does nothing it crashes. A table that ends at slot 32, which CUPTI 12 calls, makes
// CUPTI 12.8 to 13.5 tell version and time, and refuse everything else.
using ProfilerTable = Table<TableName::profiler, 33>;

struct Tables {
    CudartTable cudart;
    HooksTable hooks;
    TlsTable tls;
    std::array<Slot, 4> storage{slot(&storage_put), slot(&storage_remove), slot(&storage_get), nullptr};
    ChecksTable checks;
    IntegrityTable integrity;
    ContextTable context;
    FunctionTable function;
    TopologyTable topology;
    ProfilerTable profiler;

    Tables() {
        cudart.set(2, slot(&primary_context)).set(6, slot(&load_fat_binary));
        cudart.set(7, slot(&nothing_to_do)).set(12, slot(&nothing_to_do));
        hooks.set(2, slot(&hooks_first)).set(6, slot(&hooks_second));
        tls.set(2, slot(&thread_context));
        checks.set(2, slot(&check_context)).set(3, slot(&enabled_checks));
        integrity.set(1, slot(&check_integrity));
        context.set(4, slot(&context_id)).set(39, slot(&private_stream_id)).set(51, slot(&private_stream));
        function.set(7, slot(&each_function));
    }
};

// Made at the first use, in memory that no destructor gives back: slots are called after main.
const Tables& tables() {
    alignas(Tables) static std::byte s_memory[sizeof(Tables)];
    static const Tables* s_tables = new (s_memory) Tables();
    return *s_tables;
}

uint64_t address_number(const void* address) { return reinterpret_cast<uintptr_t>(address); }

CUresult check_integrity(uint32_t version, uint64_t unix_seconds, uint64_t answer[2]) noexcept {
    if (answer == nullptr) return CUDA_ERROR_INVALID_VALUE;
    ExportTableHost* driver = host();
    if (driver == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
    try {
        std::vector<DeviceIdentity> devices(static_cast<size_t>(std::max(driver->device_count(), 0)));
        for (size_t i = 0; i < devices.size(); i++) {
            CUresult result = driver->device_identity(static_cast<int>(i), &devices[i]);
            if (result != CUDA_SUCCESS) return result;
        }
        IntegrityInput input;
        input.driver_version = static_cast<uint32_t>(driver->driver_version());
        input.version = version;
        input.process_id = static_cast<uint32_t>(getpid());
        input.thread_id = static_cast<uint32_t>(pthread_self());
        input.cudart_table = address_number(tables().cudart.address());
        input.integrity_table = address_number(tables().integrity.address());
        input.integrity_function = address_number(tables().integrity.at(1));
        input.unix_seconds = unix_seconds;
        input.devices = devices;
        integrity_answer(input, answer);
        return CUDA_SUCCESS;
    } catch (const std::bad_alloc&) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
}

using Uuid = std::array<uint8_t, 16>;

struct Known {
    Uuid id;
    const char* name;
    const void* (*table)();               ///< null: known, and refused on purpose
    void (*refuse)() noexcept = nullptr;  ///< what is said then
};

constexpr Known k_known[] = {
    {{0x6B, 0xD5, 0xFB, 0x6C, 0x5B, 0xF4, 0xE7, 0x4A, 0x89, 0x87, 0xD9, 0x39, 0x12, 0xFD, 0x9D, 0xF9},
     "CUDART_INTERFACE",
     [] { return tables().cudart.address(); }},
    {{0xA0, 0x94, 0x79, 0x8C, 0x2E, 0x74, 0x2E, 0x74, 0x93, 0xF2, 0x08, 0x00, 0x20, 0x0C, 0x0A, 0x66},
     "TOOLS_RUNTIME_CALLBACK_HOOKS",
     [] { return tables().hooks.address(); }},
    {{0x42, 0xD8, 0x5A, 0x81, 0x23, 0xF6, 0xCB, 0x47, 0x82, 0x98, 0xF6, 0xE7, 0x8A, 0x3A, 0xEC, 0xDC},
     "TOOLS_TLS",
     [] { return tables().tls.address(); }},
    {{0xC6, 0x93, 0x33, 0x6E, 0x11, 0x21, 0xDF, 0x11, 0xA8, 0xC3, 0x68, 0xF3, 0x55, 0xD8, 0x95, 0x93},
     "CONTEXT_LOCAL_STORAGE",
     [] { return static_cast<const void*>(tables().storage.data()); }},
    {{0x26, 0x3E, 0x88, 0x60, 0x7C, 0xD2, 0x61, 0x43, 0x92, 0xF6, 0xBB, 0xD5, 0x00, 0x6D, 0xFA, 0x7E},
     "CONTEXT_CHECKS",
     [] { return tables().checks.address(); }},
    {{0xD4, 0x08, 0x20, 0x55, 0xBD, 0xE6, 0x70, 0x4B, 0x8D, 0x34, 0xBA, 0x12, 0x3C, 0x66, 0xE1, 0xF2},
     "INTEGRITY_CHECK",
     [] { return tables().integrity.address(); }},
    {{0x21, 0x31, 0x8C, 0x60, 0x97, 0x14, 0x32, 0x48, 0x8C, 0xA6, 0x41, 0xFF, 0x73, 0x24, 0xC8, 0xF2},
     "CONTEXT",
     [] { return tables().context.address(); }},
    {{0x6E, 0x16, 0x3F, 0xBE, 0xB9, 0x58, 0x44, 0x4D, 0x83, 0x5C, 0xE1, 0x82, 0xAF, 0xF1, 0x99, 0x1E},
     "FUNCTION",
     [] { return tables().function.address(); }},
    {{0x17, 0x34, 0xDC, 0x26, 0x80, 0x0D, 0x47, 0x45, 0x87, 0x26, 0xC0, 0xF1, 0xE7, 0xDD, 0x8B, 0xCA},
     "1734DC26",
     [] { return tables().topology.address(); }},
    {{0x7C, 0xB6, 0x3F, 0x9B, 0x9C, 0xA4, 0x8E, 0x42, 0xA4, 0x84, 0xBE, 0xB6, 0x6E, 0x6A, 0xED, 0x7F},
     "7CB63F9B",
     [] { return tables().profiler.address(); }},
    // CUPTI 13 asks for this one first when it is to collect something.
    {{0x2C, 0x8E, 0x0A, 0xD8, 0x07, 0x10, 0xAB, 0x4E, 0x90, 0xDD, 0x54, 0x71, 0x9F, 0xE5, 0xF7, 0x4B},
     "2C8E0AD8",
     nullptr,
     &refuse_profiler},
    // libcudart asks for this one first of all and does its ordinary start when it is refused.
    {{0xF8, 0xCF, 0xF9, 0x51, 0x21, 0x46, 0x8B, 0x4E, 0xB9, 0xE2, 0xFB, 0x46, 0x9E, 0x7C, 0x0D, 0xD9}, "F8CFF951", nullptr},
    // NVRTC asks when it compiles, and does without.
    {{0xDA, 0x91, 0x51, 0xD3, 0x3A, 0xE6, 0xCC, 0x41, 0xA5, 0xC0, 0x4F, 0x26, 0xD5, 0x33, 0xE3, 0x28}, "DA9151D3", nullptr},
};

void log_unknown(const Uuid& id) {
    std::string text;
    for (uint8_t byte : id) text += log::format("{:02X}", byte);
    WL_LOG(info, "cuda", "unknown export table {} asked for: refused", text);
}

}  // namespace

void set_export_table_host(ExportTableHost* new_host) { g_host.store(new_host, std::memory_order_release); }

CUresult get_export_table(const void** table, const CUuuid* id) noexcept {
    if (table == nullptr || id == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *table = nullptr;
    Uuid bytes;
    static_assert(sizeof bytes == sizeof id->bytes);
    std::memcpy(bytes.data(), id->bytes, sizeof bytes);
    for (const Known& known : k_known) {
        if (known.id != bytes) continue;
        if (known.table == nullptr) {
            WL_LOG(debug, "cuda", "export table {} refused", known.name);
            if (known.refuse != nullptr) known.refuse();
            return CUDA_ERROR_INVALID_VALUE;
        }
        *table = known.table();
        return CUDA_SUCCESS;
    }
    if (log::enabled(log::Level::info, "cuda")) log_unknown(bytes);
    return CUDA_ERROR_INVALID_VALUE;
}

void context_storage_clear(CUcontext context) noexcept { context_storage().clear(context); }

}  // namespace warpline::cuda::abi
