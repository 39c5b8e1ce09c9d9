// Mutexes whose use clang checks.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

#include "common/base/uncancelled.h"

// Clang proves at compile time that a guarded field is touched only with its mutex held (-Wthread-safety); gcc ignores these.
#if defined(__clang__)
#define WL_ATTRIBUTE(x) __attribute__((x))
#else
#define WL_ATTRIBUTE(x)
#endif
#define WL_CAPABILITY(x) WL_ATTRIBUTE(capability(x))
#define WL_SCOPED_CAPABILITY WL_ATTRIBUTE(scoped_lockable)
#define WL_GUARDED_BY(x) WL_ATTRIBUTE(guarded_by(x))
#define WL_PT_GUARDED_BY(x) WL_ATTRIBUTE(pt_guarded_by(x))
#define WL_REQUIRES(...) WL_ATTRIBUTE(requires_capability(__VA_ARGS__))
#define WL_EXCLUDES(...) WL_ATTRIBUTE(locks_excluded(__VA_ARGS__))
#define WL_ACQUIRE(...) WL_ATTRIBUTE(acquire_capability(__VA_ARGS__))
#define WL_RELEASE(...) WL_ATTRIBUTE(release_capability(__VA_ARGS__))
#define WL_TRY_ACQUIRE(...) WL_ATTRIBUTE(try_acquire_capability(__VA_ARGS__))
#define WL_NO_THREAD_SAFETY_ANALYSIS WL_ATTRIBUTE(no_thread_safety_analysis)

namespace warpline {

/// std::mutex with the annotations that clang checks.
class WL_CAPABILITY("mutex") Mutex {
public:
    void lock() WL_ACQUIRE() { m_mutex.lock(); }
    void unlock() WL_RELEASE() { m_mutex.unlock(); }
    bool try_lock() WL_TRY_ACQUIRE(true) { return m_mutex.try_lock(); }

private:
    friend class ConditionVariable;
    std::mutex m_mutex;
};

/// Holds a Mutex for a scope. unlock() and lock() allow a gap in it.
class WL_SCOPED_CAPABILITY MutexLock {
public:
    explicit MutexLock(Mutex& mutex) WL_ACQUIRE(mutex) : m_mutex(mutex) { m_mutex.lock(); }
    ~MutexLock() WL_RELEASE() {
        if (m_held) m_mutex.unlock();
    }
    MutexLock(const MutexLock&) = delete;
    MutexLock& operator=(const MutexLock&) = delete;

    void unlock() WL_RELEASE() {
        m_held = false;
        m_mutex.unlock();
    }
    void lock() WL_ACQUIRE() {
        m_mutex.lock();
        m_held = true;
    }

private:
    Mutex& m_mutex;
    bool m_held = true;
};

/// std::condition_variable over Mutex. Waits may wake without cause: loop on the condition.
class ConditionVariable {
public:
    void wait(Mutex& mutex) WL_REQUIRES(mutex) {
        const Uncancelled uncancelled;
        std::unique_lock<std::mutex> lock(mutex.m_mutex, std::adopt_lock);
        m_condition.wait(lock);
        lock.release();
    }
    /// False if the deadline passed.
    bool wait_until(Mutex& mutex, std::chrono::steady_clock::time_point deadline) WL_REQUIRES(mutex) {
        const Uncancelled uncancelled;
        std::unique_lock<std::mutex> lock(mutex.m_mutex, std::adopt_lock);
        bool in_time = m_condition.wait_until(lock, deadline) == std::cv_status::no_timeout;
        lock.release();
        return in_time;
    }
    void notify_one() { m_condition.notify_one(); }
    void notify_all() { m_condition.notify_all(); }

private:
    std::condition_variable m_condition;
};

}  // namespace warpline
