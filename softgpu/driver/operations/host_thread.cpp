// The one thread that calls host functions, where the profile wants one.
#include "softgpu/driver/operations/host_thread.h"

#include <pthread.h>
#include <signal.h>

#include <deque>
#include <thread>

#include "common/base/mutex.h"
#include "common/base/scope_guard.h"
#include "softgpu/driver/process/process.h"

namespace warpline::softgpu::driver {

namespace {

/// The one thread, and what it has to call, in the order in which streams reached it.
class HostThread {
public:
    static HostThread& instance() {
        static auto* thread = new HostThread;  // leaked on purpose: work may outlive static destructors
        return *thread;
    }

    void call(const std::function<void()>& function) {
        Call call{&function, false};
        MutexLock lock(m_mutex);
        if (!m_started) start();
        m_calls.push_back(&call);
        m_changed.notify_all();
        while (!call.done) m_changed.wait(m_mutex);
    }

private:
    struct Call {
        const std::function<void()>* function;
        bool done;
    };

    void start() WL_REQUIRES(m_mutex) {
        // It must not be chosen to run the program's signal handlers.
        sigset_t all, before;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        ScopeGuard restore([&before] { pthread_sigmask(SIG_SETMASK, &before, nullptr); });
        std::thread([this] { loop(); }).detach();
        m_started = true;
    }

    void loop() {
        pthread_setname_np(pthread_self(), "softgpu-host");
        MutexLock lock(m_mutex);
        for (;;) {
            while (m_calls.empty()) m_changed.wait(m_mutex);
            Call* next = m_calls.front();
            m_calls.pop_front();
            lock.unlock();
            (*next->function)();
            lock.lock();
            next->done = true;
            m_changed.notify_all();
        }
    }

    Mutex m_mutex;
    ConditionVariable m_changed;
    std::deque<Call*> m_calls WL_GUARDED_BY(m_mutex);
    bool m_started WL_GUARDED_BY(m_mutex) = false;
};

}  // namespace

void call_host_function(const std::function<void()>& function) {
    if (process().config().profile.serial_host_functions) {
        HostThread::instance().call(function);
    } else {
        function();
    }
}

}  // namespace warpline::softgpu::driver
