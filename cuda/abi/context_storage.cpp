// A table that is read without a lock; calls that change it take turns.
#include "cuda/abi/context_storage.h"

#include <new>
#include <thread>

namespace warpline::cuda::abi {

namespace {

constexpr size_t k_first_capacity = 64;

// No driver's context has this value: handles 0, 1 and 2 mean something else everywhere.
CUcontext removed() { return reinterpret_cast<CUcontext>(uintptr_t{1}); }

size_t hash(CUcontext context, void* key) {
    // Multiplying spreads addresses, which differ in the middle bits, over the upper ones.
    uint64_t mixed = reinterpret_cast<uintptr_t>(context) * 0x9E3779B97F4A7C15 + reinterpret_cast<uintptr_t>(key);
    mixed *= 0xD6E8FEB86659FD93;
    return static_cast<size_t>(mixed >> 32);
}

constinit ContextStorage g_storage;

}  // namespace

ContextStorage& context_storage() noexcept { return g_storage; }

// Acquire loads, so that a reader that saw any part of a change also sees, afterwards, that the version moved.
ContextStorage::Slot* ContextStorage::search(const Table& table, CUcontext context, void* key) {
    size_t at = hash(context, key) & table.mask;
    for (size_t probes = 0; probes <= table.mask; probes++, at = (at + 1) & table.mask) {
        Slot& slot = table.slots[at];
        CUcontext found = slot.context.load(std::memory_order_acquire);
        if (found == nullptr) return nullptr;
        if (found == context && slot.key.load(std::memory_order_acquire) == key) return &slot;
    }
    return nullptr;
}

CUresult ContextStorage::get(void** value, CUcontext context, void* key) noexcept {
    if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *value = nullptr;
    if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
    for (;;) {
        uint64_t version = m_version.load(std::memory_order_acquire);
        if (version & 1) {
            std::this_thread::yield();
            continue;
        }
        const Table* table = m_table.load(std::memory_order_acquire);
        Slot* slot = table != nullptr ? search(*table, context, key) : nullptr;
        void* found = slot != nullptr ? slot->value.load(std::memory_order_acquire) : nullptr;
        if (m_version.load(std::memory_order_relaxed) != version) continue;
        if (slot == nullptr) return CUDA_ERROR_INVALID_HANDLE;
        *value = found;
        return CUDA_SUCCESS;
    }
}

void ContextStorage::begin_change() { m_version.fetch_add(1, std::memory_order_relaxed); }
void ContextStorage::end_change() { m_version.fetch_add(1, std::memory_order_release); }

template <typename F>
void ContextStorage::for_each(F visit) {
    const Table* table = m_table.load(std::memory_order_relaxed);
    for (size_t i = 0; table != nullptr && i <= table->mask; i++) {
        Slot& slot = table->slots[i];
        CUcontext context = slot.context.load(std::memory_order_relaxed);
        if (context == nullptr || context == removed()) continue;
        visit(slot, Entry{context, slot.key.load(std::memory_order_relaxed), slot.value.load(std::memory_order_relaxed),
                          slot.destructor});
    }
}

// Release stores: see search().
void ContextStorage::insert(const Table& table, const Entry& entry) {
    size_t at = hash(entry.context, entry.key) & table.mask;
    while (table.slots[at].context.load(std::memory_order_relaxed) != nullptr) at = (at + 1) & table.mask;
    Slot& slot = table.slots[at];
    slot.destructor = entry.destructor;
    slot.key.store(entry.key, std::memory_order_release);
    slot.value.store(entry.value, std::memory_order_release);
    slot.context.store(entry.context, std::memory_order_release);
}

// Keeps the table at most half full. With enough removed slots among the used ones the table is cleaned in a copy of the same
// size.
bool ContextStorage::make_room() {
    const Table* old = m_table.load(std::memory_order_relaxed);
    size_t capacity = old != nullptr ? old->mask + 1 : 0;
    if (2 * (m_used + 1) <= capacity) return true;
    if (m_live >= k_max_entries) return false;
    if (old != nullptr && 4 * (m_live + 1) <= capacity) {
        std::vector<Entry> live;
        try {
            live.reserve(m_live);
        } catch (const std::bad_alloc&) {
            return false;
        }
        for_each([&](Slot&, const Entry& entry) { live.push_back(entry); });
        begin_change();
        for (size_t i = 0; i < capacity; i++) old->slots[i].context.store(nullptr, std::memory_order_release);
        for (const Entry& entry : live) insert(*old, entry);
        m_used = m_live;
        end_change();
        return true;
    }
    size_t larger = old != nullptr ? 2 * capacity : k_first_capacity;
    auto* slots = new (std::nothrow) Slot[larger];
    auto* table = slots != nullptr ? new (std::nothrow) Table{larger - 1, slots, old} : nullptr;
    if (table == nullptr) {
        delete[] slots;
        return false;
    }
    for_each([&](Slot&, const Entry& entry) { insert(*table, entry); });
    m_used = m_live;
    m_table.store(table, std::memory_order_release);
    return true;
}

CUresult ContextStorage::put(CUcontext context, void* key, void* value, Destructor destructor) noexcept {
    if (context == nullptr || context == removed()) return CUDA_ERROR_INVALID_CONTEXT;
    MutexLock lock(m_writing);
    const Table* table = m_table.load(std::memory_order_relaxed);
    if (Slot* slot = table != nullptr ? search(*table, context, key) : nullptr) {
        slot->destructor = destructor;
        slot->value.store(value, std::memory_order_release);
        return CUDA_SUCCESS;
    }
    if (!make_room()) return CUDA_ERROR_OUT_OF_MEMORY;
    begin_change();
    insert(*m_table.load(std::memory_order_relaxed), Entry{context, key, value, destructor});
    m_used++;
    m_live++;
    end_change();
    return CUDA_SUCCESS;
}

CUresult ContextStorage::remove(CUcontext context, void* key) noexcept {
    if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
    MutexLock lock(m_writing);
    const Table* table = m_table.load(std::memory_order_relaxed);
    Slot* slot = table != nullptr ? search(*table, context, key) : nullptr;
    if (slot == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    begin_change();
    slot->context.store(removed(), std::memory_order_release);
    m_live--;
    end_change();
    return CUDA_SUCCESS;
}

void ContextStorage::clear(CUcontext context) noexcept {
    // One at a time: a destructor may add or remove entries, also of this context.
    for (size_t rounds = 0; rounds < k_max_entries; rounds++) {
        Entry found{};
        {
            MutexLock lock(m_writing);
            Slot* slot_found = nullptr;
            for_each([&](Slot& slot, const Entry& entry) {
                if (entry.context != context || slot_found != nullptr) return;
                slot_found = &slot;
                found = entry;
            });
            if (slot_found == nullptr) return;
            begin_change();
            slot_found->context.store(removed(), std::memory_order_release);
            m_live--;
            end_change();
        }
        if (found.destructor != nullptr) found.destructor(found.context, found.key, found.value);
    }
}

}  // namespace warpline::cuda::abi
