// The file of a trace: opened so that no two processes share it, written line by line.
#include "client/trace/recorder.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <new>
#include <nlohmann/json.hpp>
#include <system_error>

#include "client/trace/trace.h"
#include "common/base/scope_guard.h"
#include "common/log/log.h"

namespace warpline::client::trace {

namespace {

constexpr std::chrono::milliseconds k_drain_every{250};
constexpr size_t k_write_bytes = 256 * 1024;
using Json = nlohmann::ordered_json;

std::string with_pid(std::string path) {
    for (size_t at = path.find("%p"); at != std::string::npos; at = path.find("%p", at))
        path.replace(at, 2, std::to_string(::getpid()));
    return path;
}

/// A file that no other process writes its trace to; what was in it is gone. -1: it cannot be written.
int open_alone(const std::string& path, bool& in_use) {
    const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    if (fd < 0) return -1;
    in_use = ::flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    if (!in_use && ::ftruncate(fd, 0) == 0) return fd;
    if (!in_use && errno == EINVAL) return fd;  // no plain file: a pipe, a device
    ::close(fd);
    return -1;
}

uint64_t inode_of(int fd) noexcept {
    struct stat status {};
    return ::fstat(fd, &status) == 0 ? status.st_ino : 0;
}

std::string thread_name() {
    char name[32] = {};
    if (::pthread_getname_np(::pthread_self(), name, sizeof name) != 0) return "thread";
    return name;
}

/// As `{"ph":"M",…}`: viewers leave names alone that they do not know.
std::string metadata(const char* name, uint32_t pid, const Json& args) {
    const Json line = {{"ph", "M"}, {"name", name}, {"pid", pid}, {"args", args}};
    return line.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

bool Ring::put(const Event& event) {
    const uint64_t next = m_put.load(std::memory_order_relaxed);
    if (next - m_taken.load(std::memory_order_acquire) == k_events) return false;
    m_events[next % k_events] = event;
    m_put.store(next + 1, std::memory_order_release);
    return true;
}

bool Ring::is_half_full() const {
    return m_put.load(std::memory_order_relaxed) - m_taken.load(std::memory_order_relaxed) == k_events / 2;
}

std::unique_ptr<Recorder> Recorder::open(const std::string& path, uint64_t limit_bytes, std::string& problem) {
    std::string file = with_pid(path);
    bool in_use = false;
    int fd = open_alone(file, in_use);
    if (fd < 0 && in_use) {
        file += "." + std::to_string(::getpid());
        fd = open_alone(file, in_use);
    }
    if (fd < 0) {
        problem = log::format("the trace cannot be written to {}: {}", file,
                              in_use ? "another process writes there" : std::strerror(errno));
        return nullptr;
    }
    std::unique_ptr<Recorder> recorder(new Recorder(fd, std::move(file), limit_bytes));
    // The program's signals are handled by the program's threads.
    sigset_t all, before;
    sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before);
    ScopeGuard restore([&] { ::pthread_sigmask(SIG_SETMASK, &before, nullptr); });
    try {
        recorder->m_writer = std::thread([self = recorder.get()] { self->write_loop(); });
    } catch (const std::system_error&) {
        problem = "the trace cannot be written: no thread for it";
        return nullptr;
    }
    return recorder;
}

Recorder::Recorder(int fd, std::string path, uint64_t limit_bytes)
    : m_fd(fd),
      m_inode(inode_of(fd)),
      m_path(std::move(path)),
      m_limit_bytes(limit_bytes),
      m_pid(static_cast<uint32_t>(::getpid())) {
    MutexLock lock(m_mutex);
    m_text = "[\n";
}

Recorder::~Recorder() {
    {
        MutexLock lock(m_mutex);
        m_ending = true;
    }
    m_wake.notify_all();
    if (m_writer.joinable()) m_writer.join();
    if (is_open()) ::close(m_fd);
}

bool Recorder::is_open() const noexcept { return inode_of(m_fd) == m_inode; }

void Recorder::close_in_child() noexcept {
    if (is_open()) ::close(m_fd);
}

void Recorder::describe(const std::string& server, const std::string& address) {
    char path[4096];
    const ssize_t length = ::readlink("/proc/self/exe", path, sizeof path);
    const std::string program(path, static_cast<size_t>(std::max<ssize_t>(length, 0)));
    MutexLock lock(m_mutex);
    m_text += metadata("warpline", m_pid,
                       {{"trace", 1},
                        {"version", WARPLINE_VERSION},
                        {"program", program},
                        {"server", server},
                        {"address", address},
                        {"clock", "CLOCK_MONOTONIC of the program's machine"}}) +
              ",\n";
    append_name(m_text, m_pid, 0, program.substr(program.rfind('/') + 1));
    append_name(m_text, server_pid(m_pid), 0, "gpu-server " + server);
}

Ring* Recorder::add_ring() {
    auto ring = std::unique_ptr<Ring>(new (std::nothrow) Ring(static_cast<uint32_t>(::gettid())));
    if (!ring) return nullptr;
    MutexLock lock(m_mutex);
    append_name(m_text, m_pid, ring->track(), thread_name());
    m_rings.push_back(std::move(ring));
    return m_rings.back().get();
}

void Recorder::note(Ring& ring, const Event& event) {
    if (!ring.put(event)) {
        MutexLock lock(m_mutex);
        drain(ring);
        static_cast<void>(ring.put(event));
    }
    if (ring.is_half_full() && !m_wanted.exchange(true, std::memory_order_relaxed)) m_wake.notify_one();
}

void Recorder::write_loop() {
    (void)::pthread_setname_np(::pthread_self(), "wl-client-trace");
    MutexLock lock(m_mutex);
    while (!m_ending) {
        m_wanted.store(false, std::memory_order_relaxed);
        drain();
        flush();
        if (!m_ending) m_wake.wait_until(m_mutex, std::chrono::steady_clock::now() + k_drain_every);
    }
}

void Recorder::drain() {
    for (auto& ring : m_rings) {
        const bool ended = ring->ended.load(std::memory_order_acquire);  // before its last events are taken
        drain(*ring);
        if (ended) ring.reset();
    }
    std::erase(m_rings, nullptr);
}

void Recorder::drain(Ring& ring) {
    ring.take_all([&](const Event& event)
                      WL_NO_THREAD_SAFETY_ANALYSIS {  // under the lock: the analysis does not follow the call
                          if (m_failed || m_written_bytes + m_text.size() > m_limit_bytes) {
                              ++m_left_out;
                              return;
                          }
                          if (event.kind == EventKind::clocks) m_worst_error_ns = std::max(m_worst_error_ns, event.first);
                          name_track(event);
                          append_line(m_text, event, m_pid);
                          if (m_text.size() >= k_write_bytes) flush();
                      });
    if (m_left_out != 0 && g_on.exchange(false)) give_up("its file is as long as it may be (WARPLINE_TRACE_LIMIT)");
}

/// The program's threads have their names from the start; those of lanes and of the server get them when they are first seen.
void Recorder::name_track(const Event& event) {
    if (event.kind == EventKind::executed) {
        if (m_named.insert(uint64_t{event.track} << 32).second)
            append_name(m_text, server_pid(m_pid), event.track, "executes " + std::to_string(event.track));
    } else if (event.kind == EventKind::sent || event.kind == EventKind::received) {
        const bool received = event.kind == EventKind::received;
        const uint32_t track = lane_track(event.lane, received);
        if (m_named.insert(track).second)
            append_name(m_text, m_pid, track, "lane " + std::to_string(event.lane) + (received ? ", received" : ", sent"));
    }
}

void Recorder::flush() {
    if (!m_failed && !is_open()) {
        m_failed = true;
        g_on.store(false);
        give_up("the program has closed it");
    }
    size_t at = 0;
    while (at < m_text.size() && !m_failed) {
        const ssize_t count = ::write(m_fd, m_text.data() + at, m_text.size() - at);
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) {
            m_failed = true;
            g_on.store(false);
            give_up(std::strerror(errno));
            break;
        }
        at += static_cast<size_t>(count);
    }
    m_written_bytes += at;
    m_text.clear();
}

void Recorder::give_up(const char* why) { WL_LOG(warn, "client", "the trace {} ends here: {}", m_path, why); }

void Recorder::finish() {
    {
        MutexLock lock(m_mutex);
        m_ending = true;
    }
    m_wake.notify_all();
    if (m_writer.joinable()) m_writer.join();
    MutexLock lock(m_mutex);
    drain();
    // The last line has no comma behind it.
    m_text += metadata("warpline_end", m_pid,
                       {{"server_clock_error_us", static_cast<double>(m_worst_error_ns) / 1e3},
                        {"server_calls_dropped", m_dropped.load(std::memory_order_relaxed)},
                        {"events_left_out", m_left_out}}) +
              "\n]\n";
    flush();
}

}  // namespace warpline::client::trace
