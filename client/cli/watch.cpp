// Whose death is watched for, and what is known of their sessions. That a process is dead says its pidfd: a program may close
// descriptors that it does not know, and its forked children keep copies of them.
#include "client/cli/watch.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <future>
#include <list>
#include <optional>
#include <utility>
#include <vector>

#include "client/cli/tell_death.h"
#include "client/report/session_report.h"
#include "client/report/watch_socket.h"
#include "common/log/log.h"

namespace warpline::cli {

namespace {

// The watcher's descriptors, after those of the streams.
constexpr int k_listener_fd = 3, k_program_fd = 4, k_first_unused_fd = 5;

int open_pidfd(pid_t process) { return static_cast<int>(::syscall(SYS_pidfd_open, process, 0)); }

/// A connection from a process, which has one session.
struct Watched {
    net::Socket socket;
    net::Socket process;  // a pidfd; invalid if the process is dead
    std::optional<client::SessionReport> session;
    client::Identity identity;
};

class Watcher {
public:
    Watcher(int listener, int program) : m_listener(listener), m_program(program) {}

    void run() {
        while (m_program.valid() || !m_watched.empty()) wait();
        m_telling.clear();  // waits for them
    }

private:
    void wait();
    void accept_all();
    bool look_at(Watched& watched, bool heard, bool dead);
    bool hear(Watched& watched);

    net::Socket m_listener;
    net::Socket m_program;  // invalid when it has ended
    std::list<Watched> m_watched;
    std::list<std::future<void>> m_telling;
};

void Watcher::wait() {
    std::vector<pollfd> entries = {{m_listener.fd(), POLLIN, 0}, {m_program.fd(), POLLIN, 0}};
    for (const Watched& watched : m_watched) {
        entries.push_back({watched.socket.fd(), POLLIN, 0});  // one that is closed has no descriptor, and poll() passes it over
        entries.push_back({watched.process.fd(), POLLIN, 0});
    }
    if (::poll(entries.data(), entries.size(), -1) < 0) return;
    size_t at = 2;
    for (auto watched = m_watched.begin(); watched != m_watched.end(); at += 2) {
        const bool wanted = look_at(*watched, entries[at].revents != 0, entries[at + 1].revents != 0);
        watched = wanted ? std::next(watched) : m_watched.erase(watched);
    }
    if (entries[0].revents != 0) accept_all();
    // After who has connected before that: nobody is left to be heard then but those that we know.
    if (entries[1].revents != 0) {
        accept_all();
        m_program.close();
    }
}

void Watcher::accept_all() {
    for (;;) {
        Watched watched;
        watched.socket = net::Socket(::accept4(m_listener.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
        if (!watched.socket.valid()) return;
        const auto process = client::reporting_process(watched.socket.fd());
        if (!process) continue;
        watched.process = net::Socket(open_pidfd(*process));
        if (!watched.process.valid() && errno != ESRCH) continue;
        const bool dead = !watched.process.valid();
        if (look_at(watched, dead, dead)) m_watched.push_back(std::move(watched));
    }
}

/// False if there is nothing more to be known of a session.
bool Watcher::look_at(Watched& watched, bool heard, bool dead) {
    // What a process said before it died is there when it is dead.
    if ((heard || dead) && !hear(watched)) return false;
    if (!dead) return true;
    m_telling.remove_if([](const auto& told) { return told.wait_for(std::chrono::seconds(0)) == std::future_status::ready; });
    if (watched.session) {
        m_telling.push_back(std::async(std::launch::async, tell_death, *watched.session, watched.identity));
    }
    return false;
}

/// Takes what a process says of its session. False if that is over, or is none.
bool Watcher::hear(Watched& watched) {
    std::array<std::byte, client::k_max_report_bytes> bytes;
    while (watched.socket.valid()) {
        const ssize_t n = ::recv(watched.socket.fd(), bytes.data(), bytes.size(), 0);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && errno == EAGAIN) return true;
        if (n <= 0) {
            // No proof of anything, unless it has not said yet what session it is about.
            watched.socket.close();
            return watched.session.has_value();
        }
        auto report = client::decode_report(BytesView(bytes.data(), static_cast<size_t>(n)));
        if (!report.ok() || report->finished) return false;
        std::string why;
        if (!report->certificate.empty()) {
            const auto credentials = net::load_credentials(report->ca, report->certificate, report->key, why);
            if (!credentials.ok()) {
                WL_LOG(warn, "client", "{}", why);
                return false;
            }
            watched.identity = client::Identity(*credentials);
        }
        watched.session = std::move(*report);
    }
    return true;
}

/// In a child of a child: becomes the watcher.
[[noreturn]] void become_watcher(int listener, int program) {
    // Above those that they are to be, lest one overwrite the other.
    const int listener_above = ::fcntl(listener, F_DUPFD_CLOEXEC, k_first_unused_fd);
    const int program_above = ::fcntl(program, F_DUPFD_CLOEXEC, k_first_unused_fd);
    const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int stream : {0, 1, 2}) ::dup2(null, stream);
    if (::dup2(listener_above, k_listener_fd) < 0 || ::dup2(program_above, k_program_fd) < 0) ::_exit(1);
    // Whoever waits for the end of a pipe that we were given waits for the program, not for us.
    ::syscall(SYS_close_range, static_cast<unsigned>(k_first_unused_fd), ~0u, 0u);
    if (::chdir("/") != 0) ::_exit(1);
    // Under another command line than the program's: who ends processes by that does not mean us.
    ::execl("/proc/self/exe", "warpline", "watch", static_cast<char*>(nullptr));
    ::_exit(1);
}

}  // namespace

std::string start_watcher(pid_t process) {
    // Who has no parent becomes that of all orphans, and takes them along in its end: it would be watched by its own child.
    if (process == 1) return {};
    std::string name;
    const auto listener = client::listen_for_reports(name);
    const net::Socket program(open_pidfd(process));
    if (!listener.ok() || !program.valid()) return {};
    const pid_t between = ::fork();
    if (between < 0) return {};
    if (between == 0) {
        ::setsid();
        const pid_t watcher = ::fork();
        if (watcher == 0) become_watcher(listener->fd(), program.fd());
        ::_exit(watcher < 0 ? 1 : 0);
    }
    int status = 0;
    while (::waitpid(between, &status, 0) < 0) {
        if (errno != EINTR) break;
    }
    return status == 0 ? name : std::string();
}

int watch_process(pid_t process) {
    const std::string name = start_watcher(process);
    if (name.empty()) return 1;
    std::puts(name.c_str());
    return 0;
}

int watch() {
    // It ends by itself soon after the programs; who ends them all (a service manager) shall not end it before.
    for (int signal : {SIGTERM, SIGHUP, SIGINT, SIGPIPE}) std::signal(signal, SIG_IGN);
    // It knows the keys of sessions.
    ::prctl(PR_SET_DUMPABLE, 0);
    Watcher(k_listener_fd, k_program_fd).run();
    return 0;
}

}  // namespace warpline::cli
