// The way from a token to its object, which every call takes: no locks.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>

#include "client/state/token.h"
#include "common/base/mutex.h"

namespace warpline::client {

/// The objects of one kind, named by tokens. Looking one up takes no lock and never faults, whatever the token is; a token
/// whose object was removed is not found again, because the slot's generation has moved on.
///
/// Slots are reused, never given back: a thread that still reads an object while another one destroys it (a mistake of the
/// program) reads old values, not freed memory.
template <typename T, HandleKind kind>
class TokenTable {
public:
    static constexpr HandleKind k_kind = kind;

    TokenTable() = default;
    ~TokenTable() {
        for (auto& chunk : m_chunks) delete[] chunk.load(std::memory_order_relaxed);
    }
    TokenTable(const TokenTable&) = delete;
    TokenTable& operator=(const TokenTable&) = delete;

    struct Entry {
        uint64_t token = 0;
        T* object = nullptr;
        explicit operator bool() const { return object != nullptr; }
    };

    /// A new object, default-constructed. Empty if the table is full.
    Entry make() {
        MutexLock lock(m_mutex);
        uint32_t index = 0;
        if (m_free.size() > k_reuse_delay || m_next == k_max_entries) {
            if (m_free.empty()) return {};
            index = m_free.front();
            m_free.pop_front();
        } else {
            index = m_next++;
        }
        Slot* slot = ensure_slot(index);
        slot->object = std::make_unique<T>();
        uint32_t generation = (slot->generation.load(std::memory_order_relaxed) + 1) & 0xffff;
        // Released here, acquired in find(): who sees the live generation sees the object.
        slot->generation.store(generation | k_live, std::memory_order_release);
        ++m_count;
        return {make_token(kind, static_cast<uint16_t>(generation), index), slot->object.get()};
    }

    /// The object, or nullptr if the token is of another kind, was removed, or never existed.
    T* find(uint64_t token) const {
        if (!token_is(kind, token)) return nullptr;
        const Slot* slot = slot_of(token_index(token));
        if (!slot) return nullptr;
        if (slot->generation.load(std::memory_order_acquire) != (token_generation(token) | k_live)) return nullptr;
        return slot->object.get();
    }

    /// Ends a token. False if it was not live. The object stays readable until its slot is used again.
    bool remove(uint64_t token) {
        if (!token_is(kind, token)) return false;
        Slot* slot = slot_of(token_index(token));
        if (!slot) return false;
        uint32_t live = token_generation(token) | k_live;
        if (!slot->generation.compare_exchange_strong(live, token_generation(token), std::memory_order_acq_rel)) return false;
        MutexLock lock(m_mutex);
        m_free.push_back(token_index(token));
        --m_count;
        return true;
    }

    /// Calls function(token, object) for each live object. Objects made meanwhile may be missed.
    template <typename F>
    void for_each(F function) const {
        for (uint32_t index = 0; index < k_max_entries; ++index) {
            const Slot* slot = slot_of(index);
            if (!slot) break;
            uint32_t generation = slot->generation.load(std::memory_order_acquire);
            if (generation & k_live) function(make_token(kind, static_cast<uint16_t>(generation), index), *slot->object);
        }
    }

    size_t count() const {
        MutexLock lock(m_mutex);
        return m_count;
    }

private:
    static constexpr uint32_t k_live = 1u << 31;
    static constexpr uint32_t k_first_entries = 256;  // of the first chunk; each further one has twice as many
    static constexpr uint32_t k_max_chunks = 13;
    static constexpr uint32_t k_max_entries = k_first_entries * ((1u << k_max_chunks) - 1);
    static constexpr size_t k_reuse_delay = 64;

    struct Slot {
        std::atomic<uint32_t> generation{0};
        std::unique_ptr<T> object;
    };

    // The chunk of an entry, and its place there. Few chunks, because a table that is made clears the list of them.
    struct Place {
        uint32_t chunk = 0;
        uint32_t slot = 0;
    };
    static Place place_of(uint32_t index) {
        const uint32_t from_one = index / k_first_entries + 1;
        const uint32_t chunk = static_cast<uint32_t>(std::bit_width(from_one)) - 1;
        return {chunk, index - k_first_entries * ((1u << chunk) - 1)};
    }

    Slot* slot_of(uint32_t index) const {
        if (index >= k_max_entries) return nullptr;
        const Place place = place_of(index);
        Slot* chunk = m_chunks[place.chunk].load(std::memory_order_acquire);
        return chunk ? chunk + place.slot : nullptr;
    }

    Slot* ensure_slot(uint32_t index) WL_REQUIRES(m_mutex) {
        const Place place = place_of(index);
        std::atomic<Slot*>& chunk = m_chunks[place.chunk];
        // Chunks live as long as the table: lookups need no lock.
        if (!chunk.load(std::memory_order_relaxed))
            chunk.store(new Slot[k_first_entries << place.chunk], std::memory_order_release);
        return chunk.load(std::memory_order_relaxed) + place.slot;
    }

    mutable Mutex m_mutex;
    std::array<std::atomic<Slot*>, k_max_chunks> m_chunks{};
    std::deque<uint32_t> m_free WL_GUARDED_BY(m_mutex);
    uint32_t m_next WL_GUARDED_BY(m_mutex) = 0;
    size_t m_count WL_GUARDED_BY(m_mutex) = 0;
};

}  // namespace warpline::client
