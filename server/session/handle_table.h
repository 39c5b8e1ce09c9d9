#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "common/base/mutex.h"
#include "cuda/gen/call_id.gen.h"

namespace warpline::server {

using cuda::HandleKind;

/// A token is `kind (8 bits) << 48 | generation (16 bits) << 32 | index (32 bits)` (docs/session.md#names).
constexpr uint64_t make_token(HandleKind kind, uint16_t generation, uint32_t index) {
    return static_cast<uint64_t>(kind) << 48 | static_cast<uint64_t>(generation) << 32 | index;
}
constexpr bool token_is(HandleKind kind, uint64_t token) { return token >> 48 == static_cast<uint64_t>(kind); }

/// The driver's handles by the client's tokens. The kind is part of the token and of the question: a stream's token never finds
/// an event, and a token whose object has gone never finds the object that took its index.
///
/// @thread  any
class HandleTable {
public:
    /// More handles than any program holds; bounds what a client can make us remember.
    static constexpr size_t k_max_handles = 4u << 20;

    /// What is remembered of a handle.
    struct Entry {
        uint64_t value = 0;    ///< the driver's handle
        uint64_t context = 0;  ///< token of the context that it was made in; 0: none
    };

    /// True if a new object may take this token: it is of the kind, and free.
    bool is_free(HandleKind kind, uint64_t token) const {
        MutexLock lock(m_mutex);
        return token_is(kind, token) && m_entries.size() < k_max_handles && !m_entries.contains(token);
    }

    /// False if the token is not free.
    bool bind(HandleKind kind, uint64_t token, Entry entry) {
        MutexLock lock(m_mutex);
        if (!token_is(kind, token) || m_entries.size() >= k_max_handles) return false;
        return m_entries.emplace(token, entry).second;
    }

    std::optional<Entry> find(HandleKind kind, uint64_t token) const {
        if (!token_is(kind, token)) return std::nullopt;
        MutexLock lock(m_mutex);
        const auto found = m_entries.find(token);
        if (found == m_entries.end()) return std::nullopt;
        return found->second;
    }

    std::optional<Entry> remove(HandleKind kind, uint64_t token) {
        if (!token_is(kind, token)) return std::nullopt;
        MutexLock lock(m_mutex);
        const auto found = m_entries.find(token);
        if (found == m_entries.end()) return std::nullopt;
        const Entry entry = found->second;
        m_entries.erase(found);
        return entry;
    }

    /// The token of a driver's handle of this kind; for the rare calls that answer with a handle that exists already. Slow.
    std::optional<uint64_t> token_of(HandleKind kind, uint64_t value) const {
        MutexLock lock(m_mutex);
        for (const auto& [token, entry] : m_entries) {
            if (entry.value == value && token_is(kind, token)) return token;
        }
        return std::nullopt;
    }

    /// Forgets what a context took with it: everything that was made in it and dies with it.
    void remove_context(uint64_t context) {
        MutexLock lock(m_mutex);
        std::erase_if(m_entries, [context](const auto& item) { return item.second.context == context; });
    }

    size_t size() const {
        MutexLock lock(m_mutex);
        return m_entries.size();
    }

private:
    mutable Mutex m_mutex;
    std::unordered_map<uint64_t, Entry> m_entries WL_GUARDED_BY(m_mutex);
};

}  // namespace warpline::server
