// How the library comes into a process, survives its forks, and leaves it.
#include "client/abi/process.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <new>

#include "client/abi/start.h"
#include "client/abi/statistics.h"
#include "client/managed/faults.h"
#include "client/managed/inherited_pages.h"
#include "client/session/address_window.h"
#include "client/session/connection_to_server.h"
#include "client/session/session.h"
#include "client/state/thread_state.h"
#include "client/trace/trace.h"
#include "common/base/scope_guard.h"
#include "common/base/uncancelled.h"
#include "common/config/settings.h"
#include "common/log/log.h"
#include "cuda/abi/symbols/symbols.h"

namespace warpline::client {

namespace {

std::atomic<int> g_connecting{0};  // threads that connect, or want to

void start_trace(const config::Settings& settings) {
    const std::string path = settings.path("trace");
    std::string problem;
    if (!path.empty() && !trace::start(path, settings.bytes("trace_limit"), problem)) WL_LOG(warn, "client", "{}", problem);
}

}  // namespace

Process& Process::instance() noexcept {
    // Never destroyed: calls come after static destructors have run.
    static auto* process = new Process;
    return *process;
}

Process::Process() noexcept {
    if (const char* specification = std::getenv("WARPLINE_LOG")) log::configure(specification);
    log::set_process_name("client");
    watch_forks();
}

void Process::watch_forks() { ::pthread_atfork(&inherited_pages::bring, nullptr, &Process::after_fork_in_child); }

void Process::after_fork_in_child() noexcept {
    Process& process = instance();
    faults::forget();
    inherited_pages::open();
    forget_threads_after_fork();
    trace::forget_after_fork();
    if (g_connecting.load() != 0) {
        // Another thread was about to connect, holds its locks for ever here, and its connection is the parent's.
        process.m_forked.store(true);
        return;
    }
    if (!process.m_session) return;
    // The parent's connections are its own; nothing here touches them again.
    if (process.status() == CUDA_ERROR_NOT_INITIALIZED && !process.m_forked.load()) {
        process.begin_anew();
        return;
    }
    // CUDA's own rule: a child has no session.
    process.m_forked.store(true);
    process.m_status.store(CUDA_ERROR_NOT_INITIALIZED);
}

// The parent had asked for the version only, which leaves CUDA to its children.
void Process::begin_anew() noexcept {
    const ServerInfo& info = server();
    release_window({info.window_base, info.window_bytes});
    m_session = nullptr;
    m_state = new (std::nothrow) State;
    m_forked.store(m_state == nullptr);
    m_ended.store(CUDA_SUCCESS);
    m_driver_version.store(0);
    m_tried = false;
}

CUresult Process::connect_once() noexcept {
    // Around the lock: whoever sees zero finds it open.
    g_connecting.fetch_add(1);
    ScopeGuard ended([] { g_connecting.fetch_sub(1); });
    const Uncancelled uncancelled;
    MutexLock lock(m_init_mutex);
    if (m_tried) return m_connect_result;
    m_tried = true;
    try {
        m_connect_result = connect();
    } catch (const std::bad_alloc&) {
        m_connect_result = CUDA_ERROR_OUT_OF_MEMORY;
    }
    const int served = cuda::abi::k_newest_version;
    const int version = m_connect_result == CUDA_SUCCESS ? std::min(server().driver_version, served) : served;
    m_driver_version.store(version, std::memory_order_release);
    return m_connect_result;
}

int Process::driver_version() noexcept {
    const int known = m_driver_version.load(std::memory_order_acquire);
    if (known != 0) return known;
    if (m_forked.load()) return cuda::abi::k_newest_version;
    connect_once();
    return m_driver_version.load(std::memory_order_acquire);
}

CUresult Process::initialise(unsigned flags) noexcept {
    if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
    if (m_forked.load()) return CUDA_ERROR_NOT_INITIALIZED;
    CUresult now = status();
    if (now != CUDA_ERROR_NOT_INITIALIZED) return now;
    const CUresult connected = connect_once();
    if (connected != CUDA_SUCCESS) return connected;
    int before = CUDA_ERROR_NOT_INITIALIZED;
    m_status.compare_exchange_strong(before, CUDA_SUCCESS, std::memory_order_acq_rel);
    // The session may have ended since; whoever noticed it found no session that was in use.
    if (const int ended = m_ended.load(); ended != CUDA_SUCCESS) end_session(static_cast<CUresult>(ended));
    return status();
}

CUresult Process::connect() {
    std::string problem;
    const config::Settings settings = config::load_client(problem);
    log::configure(settings.text("log"));
    if (!problem.empty()) WL_LOG(warn, "client", "{}", problem);
    m_statistics_path = settings.path("stats");
    start_trace(settings);
    std::string why;
    auto session = start_session(
        *m_state, settings, [](CUresult status) { Process::instance().end_session(status); }, why);
    if (!session.ok()) {
        trace::finish();
        // The reason must reach the user whatever the log level is: CUDA's own error says only that there is no device.
        std::string line = "warpline: " + why + "\n";
        (void)!::write(STDERR_FILENO, line.data(), line.size());
        int code = to_cu_result(session.error().code);
        return code == CUDA_ERROR_SYSTEM_DRIVER_MISMATCH || code == CUDA_ERROR_SYSTEM_NOT_READY ? static_cast<CUresult>(code)
                                                                                                : CUDA_ERROR_NO_DEVICE;
    }
    m_session = session->release();
    trace::describe(m_session->info().name, m_session->info().address);
    return CUDA_SUCCESS;
}

void Process::end_session(CUresult status) noexcept {
    int running = CUDA_SUCCESS;
    m_ended.compare_exchange_strong(running, status);
    int ready = CUDA_SUCCESS;
    m_status.compare_exchange_strong(ready, status);
}

void Process::finish() noexcept {
    if (m_forked.load() || !m_session) return;
    int before = m_status.exchange(CUDA_ERROR_DEINITIALIZED);
    if (before == CUDA_ERROR_DEINITIALIZED) return;
    try {
        m_session->finish();
        if (!m_statistics_path.empty()) write_statistics(*m_session, m_state->foresight, m_statistics_path);
        trace::finish();
    } catch (...) {
        return;
    }
}

const ServerInfo& Process::server() const noexcept { return m_session->info(); }

}  // namespace warpline::client
