// Counting references, across graphs inside of graphs.
#include "client/state/user_objects.h"

#include <algorithm>
#include <utility>

namespace warpline::client {

namespace {
std::atomic<uint64_t> next_source{1};
}  // namespace

bool UserObject::release(uint32_t count) {
    uint32_t now = m_references.load();
    do {
        if (count > now) return false;
    } while (!m_references.compare_exchange_weak(now, now - count));
    if (now == count) m_on_last();
    return true;
}

UserReferences::UserReferences() : m_source(next_source++) {}

void UserReferences::add(const UserObjectPtr& object, uint32_t count) {
    MutexLock lock(m_mutex);
    m_counts[object] += count;
}

bool UserReferences::remove(const UserObjectPtr& object, uint32_t count) {
    {
        MutexLock lock(m_mutex);
        auto found = m_counts.find(object);
        if (found == m_counts.end() || found->second < count) return false;
        found->second -= count;
        if (found->second == 0) m_counts.erase(found);
    }
    return object->release(count);
}

void UserReferences::clear() {
    std::map<UserObjectPtr, uint32_t> counts;
    std::vector<std::shared_ptr<UserReferences>> inner;
    {
        MutexLock lock(m_mutex);
        counts.swap(m_counts);
        inner.swap(m_inner);
    }
    for (const auto& [object, count] : counts) object->release(count);
    for (const auto& graph : inner) graph->clear();
}

std::shared_ptr<UserReferences> UserReferences::clone() const {
    auto copy = std::make_shared<UserReferences>();
    copy->m_source = m_source;
    MutexLock lock(m_mutex);
    for (const auto& [object, count] : m_counts) {
        object->retain(count);
        copy->add(object, count);
    }
    for (const auto& graph : m_inner) copy->add_inner(graph->clone());
    return copy;
}

bool UserReferences::empty() const {
    MutexLock lock(m_mutex);
    return m_counts.empty() && std::all_of(m_inner.begin(), m_inner.end(), [](const auto& graph) { return graph->empty(); });
}

void UserReferences::add_inner(const std::shared_ptr<UserReferences>& inner) {
    MutexLock lock(m_mutex);
    m_inner.push_back(inner);
}

void UserReferences::replace_inner(const UserReferences& original, const std::shared_ptr<UserReferences>& inner) {
    std::shared_ptr<UserReferences> replaced;  // given up without the lock
    MutexLock lock(m_mutex);
    const auto found =
        std::find_if(m_inner.begin(), m_inner.end(), [&](const auto& graph) { return graph->m_source == original.m_source; });
    if (found == m_inner.end()) {
        m_inner.push_back(inner);
        return;
    }
    // What takes its place is found by the same node later.
    inner->m_source = original.m_source;
    replaced = std::exchange(*found, inner);
}

}  // namespace warpline::client
