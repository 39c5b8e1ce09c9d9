// Who loads code, and who gives functions of the program's to streams: not both at once.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "common/base/mutex.h"

namespace warpline::client {

/// A driver that loads code waits for all work of the context, and holds up other calls meanwhile (docs/driver-behaviour.md,
/// DB-15). A function that a stream has called may need such calls to come to memory that the device has, so none may be under
/// way then. @thread any
class LoadTurns {
public:
    /// No function is given to a stream until end_load(), and none is being given when this returns. Several may load.
    /// @returns tokens of the contexts whose streams have been given functions
    std::vector<uint64_t> begin_load() WL_EXCLUDES(m_mutex) {
        MutexLock lock(m_mutex);
        ++m_loads;
        while (m_functions != 0) m_changed.wait(m_mutex);
        return m_contexts;
    }
    void end_load() WL_EXCLUDES(m_mutex) {
        MutexLock lock(m_mutex);
        if (--m_loads == 0) m_changed.notify_all();
    }

    /// The same while no memory is used by both sides: functions need no driver, and nothing is waited for.
    void begin_load_beside() WL_EXCLUDES(m_mutex) {
        MutexLock lock(m_mutex);
        ++m_loads_beside;
    }
    /// @param number  of the last call by then
    void end_load_beside(uint64_t number) WL_EXCLUDES(m_mutex) {
        MutexLock lock(m_mutex);
        --m_loads_beside;
        m_last_beside = number;
    }
    /// Functions whose calls have numbers up to this may hold up such a load.
    uint64_t last_load_beside() WL_EXCLUDES(m_mutex) {
        MutexLock lock(m_mutex);
        return m_loads_beside != 0 ? std::numeric_limits<uint64_t>::max() : m_last_beside;
    }

    /// A function is about to be given to a stream of a context. @blocks while code is loaded
    class Function {
    public:
        Function(LoadTurns& turns, uint64_t context) : m_turns(turns) {
            MutexLock lock(m_turns.m_mutex);
            while (m_turns.m_loads != 0) m_turns.m_changed.wait(m_turns.m_mutex);
            ++m_turns.m_functions;
            auto& contexts = m_turns.m_contexts;
            if (std::find(contexts.begin(), contexts.end(), context) == contexts.end()) contexts.push_back(context);
        }
        ~Function() {
            MutexLock lock(m_turns.m_mutex);
            if (--m_turns.m_functions == 0) m_turns.m_changed.notify_all();
        }
        Function(const Function&) = delete;
        Function& operator=(const Function&) = delete;

    private:
        LoadTurns& m_turns;
    };

private:
    Mutex m_mutex;
    ConditionVariable m_changed;
    unsigned m_loads WL_GUARDED_BY(m_mutex) = 0;
    unsigned m_functions WL_GUARDED_BY(m_mutex) = 0;
    unsigned m_loads_beside WL_GUARDED_BY(m_mutex) = 0;
    uint64_t m_last_beside WL_GUARDED_BY(m_mutex) = 0;
    std::vector<uint64_t> m_contexts WL_GUARDED_BY(m_mutex);
};

}  // namespace warpline::client
