#pragma once

#include <map>
#include <memory>
#include <string>

#include "common/base/mutex.h"
#include "server/hooks/images.h"

namespace warpline::server {

/// The logs of links in progress: the driver keeps pointers to them until the link is destroyed.
///
/// @thread  any
class Links {
public:
    void add(uint64_t token, std::unique_ptr<JitLog> log) {
        MutexLock lock(m_mutex);
        m_logs[token] = std::move(log);
    }
    void copy_log(uint64_t token, std::string& info, std::string& error) {
        MutexLock lock(m_mutex);
        const auto found = m_logs.find(token);
        if (found == m_logs.end()) return;
        info = found->second->info();
        error = found->second->error();
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
