// Objects of the program that graphs keep alive.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "common/base/mutex.h"

namespace warpline::client {

/// A program's object whose destructor runs when the last reference has gone (cuUserObjectCreate). Any thread.
class UserObject {
public:
    /// @param on_last  called once, by whoever gives up the last reference; must not wait
    UserObject(uint32_t references, std::function<void()> on_last) : m_references(references), m_on_last(std::move(on_last)) {}
    void retain(uint32_t count) { m_references.fetch_add(count); }
    /// False if there are not so many references.
    bool release(uint32_t count);

private:
    std::atomic<uint32_t> m_references;
    const std::function<void()> m_on_last;
};
using UserObjectPtr = std::shared_ptr<UserObject>;

/// The references to user objects that a graph has, and those of the graphs inside it: of child graph nodes and of the bodies
/// of conditional nodes. Given up at its end, or by clear(). Any thread.
class UserReferences {
public:
    UserReferences();
    ~UserReferences() { clear(); }
    UserReferences(const UserReferences&) = delete;
    UserReferences& operator=(const UserReferences&) = delete;

    void add(const UserObjectPtr& object, uint32_t count) WL_EXCLUDES(m_mutex);
    /// Gives some up. False if there are not so many.
    bool remove(const UserObjectPtr& object, uint32_t count) WL_EXCLUDES(m_mutex);
    /// The graph, or the node that holds it, is gone; likewise for those inside.
    void clear() WL_EXCLUDES(m_mutex);
    /// As many again, for a copy of the graph.
    std::shared_ptr<UserReferences> clone() const WL_EXCLUDES(m_mutex);
    bool empty() const WL_EXCLUDES(m_mutex);

    void add_inner(const std::shared_ptr<UserReferences>& inner) WL_EXCLUDES(m_mutex);
    /// In a copy: another graph takes the place of the copy of one inside.
    void replace_inner(const UserReferences& original, const std::shared_ptr<UserReferences>& inner) WL_EXCLUDES(m_mutex);

private:
    uint64_t m_source;  // of copies: which graph they are copies of
    mutable Mutex m_mutex;
    std::map<UserObjectPtr, uint32_t> m_counts WL_GUARDED_BY(m_mutex);
    std::vector<std::shared_ptr<UserReferences>> m_inner WL_GUARDED_BY(m_mutex);
};
using UserReferencesPtr = std::shared_ptr<UserReferences>;

}  // namespace warpline::client
