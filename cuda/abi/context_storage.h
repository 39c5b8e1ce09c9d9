// What libraries keep for each context.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/base/mutex.h"
#include "cuda/abi/cuda_types.h"

namespace warpline::cuda::abi {

/// What libraries keep per context: (context, key) → value. Each copy of libcudart in a process looks its state up here on
/// every runtime call, so reading takes no lock; writing happens once per context and library.
///
/// A hash table of atomics whose version number is odd while a writer changes it; a reader that saw an odd or a changed number
/// reads again. The table doubles when half full, and tables that were outgrown stay: readers may still look at them, and
/// together they are smaller than the current one.
class ContextStorage {
public:
    using Destructor = void (*)(CUcontext context, void* key, void* value);

    /// The most entries: contexts × copies of libcudart.
    static constexpr size_t k_max_entries = size_t{1} << 20;

    constexpr ContextStorage() = default;
    ContextStorage(const ContextStorage&) = delete;
    ContextStorage& operator=(const ContextStorage&) = delete;

    /// Adds or replaces. The destructor of a value that is replaced does not run: its owner has replaced it.
    ///
    /// @errors  CUDA_ERROR_INVALID_CONTEXT (null), CUDA_ERROR_OUT_OF_MEMORY
    CUresult put(CUcontext context, void* key, void* value, Destructor destructor) noexcept WL_EXCLUDES(m_writing);

    /// @errors  CUDA_ERROR_INVALID_CONTEXT (null), CUDA_ERROR_INVALID_HANDLE (nothing of that key; *value is null then)
    /// @blocks  no; waits for a concurrent writer's few instructions
    CUresult get(void** value, CUcontext context, void* key) noexcept WL_EXCLUDES(m_writing);

    /// Forgets an entry without running its destructor.
    CUresult remove(CUcontext context, void* key) noexcept WL_EXCLUDES(m_writing);

    /// Forgets the entries of a context, then runs their destructors, without a lock held.
    void clear(CUcontext context) noexcept WL_EXCLUDES(m_writing);

private:
    struct Slot {
        std::atomic<CUcontext> context{nullptr};  // null: free, 1: removed, the search goes on
        std::atomic<void*> key{nullptr};
        std::atomic<void*> value{nullptr};
        Destructor destructor = nullptr;  // read by writers only
    };
    struct Table {
        size_t mask = 0;
        Slot* slots = nullptr;
        const Table* outgrown = nullptr;  // the one before, which readers may still look at
    };
    struct Entry {
        CUcontext context;
        void* key;
        void* value;
        Destructor destructor;
    };

    static Slot* search(const Table& table, CUcontext context, void* key);
    bool make_room() WL_REQUIRES(m_writing);
    static void insert(const Table& table, const Entry& entry);
    void begin_change() WL_REQUIRES(m_writing);
    void end_change() WL_REQUIRES(m_writing);
    template <typename F>
    void for_each(F visit) WL_REQUIRES(m_writing);

    Mutex m_writing;                     ///< held by whoever changes anything
    std::atomic<uint64_t> m_version{0};  ///< odd: a change is under way. Released by end_change, acquired by get.
    std::atomic<const Table*> m_table{nullptr};
    size_t m_used WL_GUARDED_BY(m_writing) = 0;  ///< slots that are not free, removed ones included
    size_t m_live WL_GUARDED_BY(m_writing) = 0;
};

/// The process's own. Never destroyed: libraries look things up after main.
ContextStorage& context_storage() noexcept;

}  // namespace warpline::cuda::abi
