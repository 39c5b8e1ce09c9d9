// Tests of what libraries keep for each context.
#include "cuda/abi/context_storage.h"

#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <memory>
#include <random>
#include <thread>

namespace warpline::cuda::abi {
namespace {

CUcontext context_of(uintptr_t n) { return reinterpret_cast<CUcontext>(0x10000 + n * 0x40); }
void* key_of(uintptr_t n) { return reinterpret_cast<void*>(0x7f0000000000 + n * 0x1000); }
void* value_of(uintptr_t n) { return reinterpret_cast<void*>(n); }

// Like the process's own, these are never destroyed; they stay reachable, so that the leak checker knows them.
ContextStorage& make_storage() {
    static auto* s_storages = new std::vector<std::unique_ptr<ContextStorage>>();
    return *s_storages->emplace_back(std::make_unique<ContextStorage>());
}

struct Destroyed {
    CUcontext context;
    void* key;
    void* value;
};
std::vector<Destroyed> g_destroyed;
void record_destroyed(CUcontext context, void* key, void* value) { g_destroyed.push_back({context, key, value}); }

TEST(ContextStorage, PutGetRemove) {
    ContextStorage& storage = make_storage();
    void* value = value_of(1);
    EXPECT_EQ(storage.get(&value, context_of(1), key_of(1)), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_EQ(value, nullptr);
    EXPECT_EQ(storage.put(nullptr, key_of(1), value_of(5), nullptr), CUDA_ERROR_INVALID_CONTEXT);
    EXPECT_EQ(storage.get(&value, nullptr, key_of(1)), CUDA_ERROR_INVALID_CONTEXT);
    EXPECT_EQ(storage.put(context_of(1), key_of(1), value_of(5), nullptr), CUDA_SUCCESS);
    EXPECT_EQ(storage.get(&value, context_of(1), key_of(1)), CUDA_SUCCESS);
    EXPECT_EQ(value, value_of(5));
    EXPECT_EQ(storage.get(&value, context_of(2), key_of(1)), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_EQ(storage.get(&value, context_of(1), key_of(2)), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_EQ(storage.put(context_of(1), key_of(1), value_of(6), nullptr), CUDA_SUCCESS);
    EXPECT_EQ(storage.get(&value, context_of(1), key_of(1)), CUDA_SUCCESS);
    EXPECT_EQ(value, value_of(6));
    EXPECT_EQ(storage.remove(context_of(1), key_of(1)), CUDA_SUCCESS);
    EXPECT_EQ(storage.remove(context_of(1), key_of(1)), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_EQ(storage.get(&value, context_of(1), key_of(1)), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_EQ(storage.get(nullptr, context_of(1), key_of(1)), CUDA_ERROR_INVALID_VALUE);
}

TEST(ContextStorage, ClearRunsTheDestructorsOfThatContextOnly) {
    ContextStorage& storage = make_storage();
    g_destroyed.clear();
    storage.put(context_of(1), key_of(1), value_of(11), record_destroyed);
    storage.put(context_of(1), key_of(2), value_of(12), record_destroyed);
    storage.put(context_of(1), key_of(3), value_of(13), nullptr);
    storage.put(context_of(1), key_of(4), value_of(14), record_destroyed);
    storage.put(context_of(2), key_of(1), value_of(21), record_destroyed);
    storage.remove(context_of(1), key_of(4));
    storage.clear(context_of(1));
    ASSERT_EQ(g_destroyed.size(), 2u);
    for (const Destroyed& each : g_destroyed) EXPECT_EQ(each.context, context_of(1));
    void* value = nullptr;
    EXPECT_EQ(storage.get(&value, context_of(1), key_of(3)), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_EQ(storage.get(&value, context_of(2), key_of(1)), CUDA_SUCCESS);
    storage.clear(context_of(1));
    EXPECT_EQ(g_destroyed.size(), 2u);
}

// Destructors call back into the driver: no lock may be held.
ContextStorage* g_reentered = nullptr;
void reenter(CUcontext context, void* key, void*) {
    void* value = nullptr;
    EXPECT_EQ(g_reentered->get(&value, context, key), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_EQ(g_reentered->put(context, key_of(99), nullptr, nullptr), CUDA_SUCCESS);
}
TEST(ContextStorage, DestructorsMayUseTheStorage) {
    ContextStorage& storage = make_storage();
    g_reentered = &storage;
    storage.put(context_of(1), key_of(1), value_of(1), reenter);
    storage.clear(context_of(1));
    void* value = nullptr;
    EXPECT_EQ(storage.get(&value, context_of(1), key_of(99)), CUDA_ERROR_INVALID_HANDLE);
}

TEST(ContextStorage, BehavesAsAMapThroughGrowthAndChurn) {
    ContextStorage& storage = make_storage();
    std::map<std::pair<uintptr_t, uintptr_t>, uintptr_t> model;
    std::mt19937 random(7);
    for (int step = 0; step < 60000; step++) {
        uintptr_t context = random() % 40, key = random() % 25;
        if (random() % 3 != 0) {
            ASSERT_EQ(storage.put(context_of(context), key_of(key), value_of(step), nullptr), CUDA_SUCCESS);
            model[{context, key}] = step;
        } else {
            ASSERT_EQ(storage.remove(context_of(context), key_of(key)) == CUDA_SUCCESS, model.erase({context, key}) == 1);
        }
        if (step % 500 == 0) {
            for (uintptr_t c = 0; c < 40; c++) {
                for (uintptr_t k = 0; k < 25; k++) {
                    void* value = nullptr;
                    bool found = storage.get(&value, context_of(c), key_of(k)) == CUDA_SUCCESS;
                    auto expected = model.find({c, k});
                    ASSERT_EQ(found, expected != model.end());
                    if (found && value != value_of(expected->second)) FAIL();
                }
            }
        }
    }
}

// An entry that is never touched must be found at any time, whatever is written around it.
TEST(ContextStorage, ReadersNeverMissWhatIsThere) {
    ContextStorage& storage = make_storage();
    storage.put(context_of(1), key_of(1), value_of(4711), nullptr);
    std::atomic<bool> stop{false};
    std::atomic<uint64_t> wrong{0}, reads{0};
    std::vector<std::thread> readers;
    for (int i = 0; i < 2; i++) {
        readers.emplace_back([&] {
            while (!stop.load(std::memory_order_relaxed)) {
                void* value = nullptr;
                if (storage.get(&value, context_of(1), key_of(1)) != CUDA_SUCCESS || value != value_of(4711)) wrong++;
                reads++;
            }
        });
    }
    for (uintptr_t round = 0; round < 20000; round++) {
        storage.put(context_of(100 + round % 700), key_of(2), value_of(round), nullptr);
        if (round % 3 == 0) storage.clear(context_of(100 + (round / 3) % 700));
    }
    while (reads.load() < 1000) std::this_thread::yield();
    stop = true;
    for (std::thread& reader : readers) reader.join();
    EXPECT_EQ(wrong.load(), 0u);
}

}  // namespace
}  // namespace warpline::cuda::abi
