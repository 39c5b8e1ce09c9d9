// Logs that a driver may write to while a link or a library lives.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "common/base/mutex.h"
#include "server/objects/jit_log.h"

namespace warpline::server {

/// The logs of links in progress, or of libraries: the driver keeps pointers to them until the link is destroyed, or the
/// library unloaded.
///
/// @thread  any
class Links {
public:
    /// Links, or libraries with logs, at a time; each has two logs. @source JitLog::k_log_bytes
    static constexpr size_t k_max_links = 1024;

    /// True if there is no room, not even once those are forgotten that ended with their context: `alive(token)`.
    template <typename Alive>
    bool full(Alive&& alive) {
        MutexLock lock(m_mutex);
        if (m_logs.size() < k_max_links) return false;
        std::erase_if(m_logs, [&](const auto& item) { return !alive(item.first); });
        return m_logs.size() >= k_max_links;
    }
    void add(uint64_t token, std::unique_ptr<JitLog> log) {
        MutexLock lock(m_mutex);
        m_logs[token] = std::move(log);
    }
    /// Puts what a link has told so far into a reply.
    template <typename Values>
    void answer(uint64_t token, Values& values) {
        MutexLock lock(m_mutex);
        if (const auto found = m_logs.find(token); found != m_logs.end()) found->second->answer(values);
    }
    void remove(uint64_t token) {
        MutexLock lock(m_mutex);
        m_logs.erase(token);
    }

private:
    Mutex m_mutex;
    std::map<uint64_t, std::unique_ptr<JitLog>> m_logs WL_GUARDED_BY(m_mutex);
};

}  // namespace warpline::server
