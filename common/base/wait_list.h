#pragma once

// Threads that wait under one mutex, each for something of its own.

#include <algorithm>
#include <chrono>
#include <vector>

#include "common/base/function_ref.h"
#include "common/base/mutex.h"

namespace warpline {

/// A condition variable that knows what each waiting thread waits for: a change wakes those whose wait is over, and nobody
/// else.
///
/// @thread  any; wait() and tell() with the same mutex held
class WaitList {
public:
    /// Waits until `over()` is true: at once if it is already.
    /// @param over  called with the mutex held, by this thread and by those that call tell()
    void wait(Mutex& mutex, FunctionRef<bool()> over) WL_REQUIRES(mutex) {
        while (!over()) {
            Waiter me(over);
            m_waiters.push_back(&me);
            while (!me.woken) me.wake.wait(mutex);
        }
    }

    /// The same, until a moment. @return false if it came first
    bool wait_until(Mutex& mutex, FunctionRef<bool()> over, std::chrono::steady_clock::time_point moment) WL_REQUIRES(mutex) {
        while (!over()) {
            Waiter me(over);
            m_waiters.push_back(&me);
            while (!me.woken) {
                if (me.wake.wait_until(mutex, moment)) continue;
                std::erase(m_waiters, &me);
                return over();
            }
        }
        return true;
    }

    /// Something has changed.
    void tell() {
        std::erase_if(m_waiters, [](Waiter* waiter) {
            if (!waiter->over()) return false;
            waiter->woken = true;
            waiter->wake.notify_one();
            return true;
        });
    }

    bool empty() const { return m_waiters.empty(); }

private:
    struct Waiter {
        explicit Waiter(FunctionRef<bool()> until) : over(until) {}

        const FunctionRef<bool()> over;
        bool woken = false;
        ConditionVariable wake;
    };
    std::vector<Waiter*> m_waiters;  // each lives on the stack of its thread
};

}  // namespace warpline
