// What the library is in its process, which every call asks first.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "client/state/devices.h"
#include "client/state/state.h"
#include "common/base/mutex.h"
#include "cuda/abi/cuda_types.h"

namespace warpline::client {

class Session;

/// What the library is in its process: not initialised, in a session, or at its end. There is one, and it is never destroyed:
/// libcudart and NVIDIA's libraries call after static destructors have run.
class Process {
public:
    static Process& instance() noexcept;

    /// CUDA_SUCCESS, or what every call but those that may come before cuInit is answered with: not initialised, deinitialised,
    /// or the reason why the session ended. One atomic read.
    CUresult status() const noexcept { return static_cast<CUresult>(m_status.load(std::memory_order_acquire)); }

    /// cuInit: connects to the first configured server that takes us. Later calls return what the first one did.
    ///
    /// @errors  no device (not configured, nobody there, refused; the reason is on stderr), system driver mismatch
    /// @blocks  connecting and one exchange, the first time
    /// @thread  any
    CUresult initialise(unsigned flags) noexcept;

    /// What cuDriverGetVersion answers: the version of the server's driver, one and the same for the whole life of the process,
    /// because libcudart asks early and later proves by it that the driver is sound. So the first question connects, as cuInit
    /// would; what it found out is not asked again. Where nobody takes us it is the version of the interface that we serve.
    ///
    /// @blocks  as initialise, the first time
    /// @thread  any
    int driver_version() noexcept;

    /// The session ended: every later call is answered with this. The first reason stays.
    void end_session(CUresult status) noexcept;

    /// At the end of the process: flushes, says goodbye, writes the statistics.
    void finish() noexcept;

    // Valid once status() has been CUDA_SUCCESS.
    Session& session() noexcept { return *m_session; }
    State& state() noexcept { return *m_state; }
    const ServerInfo& server() const noexcept;

private:
    Process() noexcept;
    CUresult connect_once() noexcept WL_EXCLUDES(m_init_mutex);
    CUresult connect();
    void watch_forks();
    static void after_fork_in_child() noexcept;
    void begin_anew() noexcept WL_NO_THREAD_SAFETY_ANALYSIS;  // in the child of a fork, which has one thread

    std::atomic<int> m_status{CUDA_ERROR_NOT_INITIALIZED};
    std::atomic<bool> m_forked{false};       // a child of a process that had a session
    std::atomic<int> m_ended{CUDA_SUCCESS};  // why the session ended, also if that was before cuInit
    std::atomic<int> m_driver_version{0};    // 0: nobody has asked; released with the first answer
    Mutex m_init_mutex;                      // protects the connecting; who wants the same meanwhile waits for it
    bool m_tried WL_GUARDED_BY(m_init_mutex) = false;
    CUresult m_connect_result WL_GUARDED_BY(m_init_mutex) = CUDA_ERROR_NOT_INITIALIZED;
    std::string m_statistics_path;  // set with the session
    Session* m_session = nullptr;   // set before m_status becomes CUDA_SUCCESS; never deleted
    State* m_state = new State;     // never deleted; another one only for the first session of a forked child
};

}  // namespace warpline::client
