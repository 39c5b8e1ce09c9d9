// Objects by their handles.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "common/base/mutex.h"
#include "cuda/abi/cuda_types.h"
#include "cuda/abi/token.h"

namespace warpline::softgpu::driver {

/// What a handle names; part of its value, so that a stream passed as an event is recognised.
enum class HandleKind : uint8_t {
    context = 0x10,
    stream,
    event,
    module,
    function,
    library,
    graph,
    node,
    graph_exec,
    pool,
    array,
    mipmapped_array,
    texref,
    surfref,
    link_state,
    user_object,
    physical_memory,
    green_context,
    resource_descriptor,
    async_callback,
};

/// Objects by opaque handles that are never dereferenced: a value that was not given out, or whose object has gone, finds
/// nothing. Values are tokens (cuda/abi/token.h), never one of CUDA's special values.
/// Any thread may call.
template <typename T>
class HandleTable {
public:
    explicit HandleTable(HandleKind kind) : m_kind(kind) {}

    uint64_t add(std::shared_ptr<T> object) {
        MutexLock lock(m_mutex);
        uint32_t index;
        if (m_free.empty()) {
            index = static_cast<uint32_t>(m_slots.size());
            m_slots.emplace_back();
        } else {
            index = m_free.back();
            m_free.pop_back();
        }
        Slot& slot = m_slots[index];
        slot.object = std::move(object);
        return cuda::abi::make_token(m_kind, slot.generation, index);
    }

    std::shared_ptr<T> find(uint64_t handle) const {
        MutexLock lock(m_mutex);
        const Slot* slot = slot_of(handle);
        return slot != nullptr ? slot->object : nullptr;
    }

    template <typename Handle>
    std::shared_ptr<T> find(Handle* handle) const {
        return find(reinterpret_cast<uint64_t>(handle));
    }

    /// The object, which the handle no longer names. Null if it named none.
    std::shared_ptr<T> remove(uint64_t handle) {
        MutexLock lock(m_mutex);
        const Slot* found = slot_of(handle);
        if (found == nullptr) return nullptr;
        const uint32_t index = cuda::abi::token_index(handle);
        Slot& slot = m_slots[index];
        std::shared_ptr<T> object = std::move(slot.object);
        slot.object = nullptr;
        ++slot.generation;
        m_free.push_back(index);
        return object;
    }

    template <typename Handle>
    std::shared_ptr<T> remove(Handle* handle) {
        return remove(reinterpret_cast<uint64_t>(handle));
    }

    /// Takes out the objects that match.
    template <typename Matches>
    std::vector<std::shared_ptr<T>> remove_if(Matches matches) {
        std::vector<std::shared_ptr<T>> removed;  // destroyed by the caller, without the lock
        MutexLock lock(m_mutex);
        for (size_t i = 0; i < m_slots.size(); ++i) {
            Slot& slot = m_slots[i];
            if (slot.object == nullptr || !matches(*slot.object)) continue;
            removed.push_back(std::move(slot.object));
            slot.object = nullptr;
            ++slot.generation;
            m_free.push_back(static_cast<uint32_t>(i));
        }
        return removed;
    }

    /// Every object, as of now.
    std::vector<std::shared_ptr<T>> all() const {
        MutexLock lock(m_mutex);
        std::vector<std::shared_ptr<T>> objects;
        for (const Slot& slot : m_slots) {
            if (slot.object != nullptr) objects.push_back(slot.object);
        }
        return objects;
    }

    /// Whether a value looks like a handle of another kind.
    bool is_of_other_kind(uint64_t handle) const {
        const uint64_t kind = handle >> 48;
        return kind >= static_cast<uint64_t>(HandleKind::context) &&
               kind <= static_cast<uint64_t>(HandleKind::async_callback) && !cuda::abi::token_is(m_kind, handle);
    }

private:
    struct Slot {
        std::shared_ptr<T> object;  // shared: a call in another thread may still use what this one destroys
        uint16_t generation = 1;
    };

    const Slot* slot_of(uint64_t handle) const WL_REQUIRES(m_mutex) {
        const uint32_t index = cuda::abi::token_index(handle);
        if (index >= m_slots.size()) return nullptr;
        const Slot& slot = m_slots[index];
        if (slot.object == nullptr || cuda::abi::make_token(m_kind, slot.generation, index) != handle) return nullptr;
        return &slot;
    }

    const HandleKind m_kind;
    mutable Mutex m_mutex;
    std::vector<Slot> m_slots WL_GUARDED_BY(m_mutex);
    std::vector<uint32_t> m_free WL_GUARDED_BY(m_mutex);
};

/// What calls answer to a stream or an event that a table does not have. NVIDIA's driver asks the object for its context: in
/// one of another kind it finds none.
template <typename T, typename Handle>
CUresult not_found(const HandleTable<T>& table, Handle* handle) {
    const bool other = table.is_of_other_kind(reinterpret_cast<uint64_t>(handle));
    return other ? CUDA_ERROR_CONTEXT_IS_DESTROYED : CUDA_ERROR_INVALID_HANDLE;
}

template <typename Handle>
Handle as_handle(uint64_t value) {
    return reinterpret_cast<Handle>(value);
}

}  // namespace warpline::softgpu::driver
