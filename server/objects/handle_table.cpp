// Binding, finding and forgetting handles, with all that dies with them.
#include "server/objects/handle_table.h"

#include <vector>

namespace warpline::server {

bool HandleTable::is_free(HandleKind kind, uint64_t token) const {
    MutexLock lock(m_mutex);
    return token_is(kind, token) && m_entries.size() < k_max_handles && !m_entries.contains(token);
}

bool HandleTable::bind(HandleKind kind, uint64_t token, Entry entry) {
    MutexLock lock(m_mutex);
    if (!token_is(kind, token) || m_entries.size() >= k_max_handles) return false;
    if (!m_entries.emplace(token, entry).second) return false;
    if (entry.owner != 0) m_owned[entry.owner].insert(token);
    if (is_indexed(kind)) m_tokens[{kind, entry.value}] = token;
    return true;
}

void HandleTable::set_owner(uint64_t token, uint64_t owner) {
    MutexLock lock(m_mutex);
    const auto found = m_entries.find(token);
    if (found == m_entries.end()) return;
    found->second.owner = owner;
    m_owned[owner].insert(token);
}

void HandleTable::set_layout(uint64_t token, std::shared_ptr<const ParamLayout> layout) {
    MutexLock lock(m_mutex);
    const auto found = m_entries.find(token);
    if (found != m_entries.end()) found->second.layout = std::move(layout);
}

std::optional<HandleTable::Entry> HandleTable::find(HandleKind kind, uint64_t token) const {
    if (!token_is(kind, token)) return std::nullopt;
    MutexLock lock(m_mutex);
    const auto found = m_entries.find(token);
    if (found == m_entries.end()) return std::nullopt;
    return found->second;
}

std::optional<HandleTable::Entry> HandleTable::remove(HandleKind kind, uint64_t token) {
    if (!token_is(kind, token)) return std::nullopt;
    MutexLock lock(m_mutex);
    const auto found = m_entries.find(token);
    if (found == m_entries.end()) return std::nullopt;
    const Entry entry = found->second;
    forget(token);
    return entry;
}

void HandleTable::remove_owned(uint64_t owner) {
    MutexLock lock(m_mutex);
    forget(owner);
}

/// Forgets a token (known or not) and all that it owns, and what those own.
void HandleTable::forget(uint64_t token) {
    std::vector<uint64_t> todo{token};
    while (!todo.empty()) {
        const uint64_t next = todo.back();
        todo.pop_back();
        if (const auto owned = m_owned.find(next); owned != m_owned.end()) {
            todo.insert(todo.end(), owned->second.begin(), owned->second.end());
            m_owned.erase(owned);
        }
        const auto entry = m_entries.find(next);
        if (entry == m_entries.end()) continue;
        if (const auto owner = m_owned.find(entry->second.owner); owner != m_owned.end()) owner->second.erase(next);
        if (const auto known = m_tokens.find({cuda::abi::token_kind<HandleKind>(next), entry->second.value});
            known != m_tokens.end() && known->second == next) {
            m_tokens.erase(known);
        }
        m_entries.erase(entry);
        if (token_is(HandleKind::function, next)) m_functions_forgotten.fetch_add(1, std::memory_order_release);
    }
}

uint64_t HandleTable::token_of(HandleKind kind, uint64_t value) const {
    MutexLock lock(m_mutex);
    const auto found = m_tokens.find({kind, value});
    return found != m_tokens.end() ? found->second : 0;
}

std::vector<std::pair<uint64_t, uint64_t>> HandleTable::owned(HandleKind kind, uint64_t owner) const {
    std::vector<std::pair<uint64_t, uint64_t>> found;
    MutexLock lock(m_mutex);
    const auto owned = m_owned.find(owner);
    if (owned == m_owned.end()) return found;
    for (const uint64_t token : owned->second) {
        const auto entry = m_entries.find(token);
        if (token_is(kind, token) && entry != m_entries.end()) found.emplace_back(token, entry->second.value);
    }
    return found;
}

std::vector<uint64_t> HandleTable::values_of(HandleKind kind, uint64_t owner) const {
    std::vector<uint64_t> values;
    for (const auto& [token, value] : owned(kind, owner)) values.push_back(value);
    return values;
}

size_t HandleTable::size() const {
    MutexLock lock(m_mutex);
    return m_entries.size();
}

}  // namespace warpline::server
