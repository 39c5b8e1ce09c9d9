// Starting this program again.
#include "bench/report/child.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

namespace warpline::bench {

Result<Child> Child::start(const std::vector<std::string>& arguments) {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        return Error{Code::io, "no socket pair", static_cast<uint32_t>(errno)};
    net::Socket ours(ends[0]), theirs(ends[1]);
    const std::string self = own_path();
    std::vector<char*> words = {const_cast<char*>(self.c_str())};
    for (const std::string& argument : arguments) words.push_back(const_cast<char*>(argument.c_str()));
    words.push_back(nullptr);
    std::fflush(stdout);
    const pid_t process = ::fork();
    if (process < 0) return Error{Code::io, "no further process", static_cast<uint32_t>(errno)};
    if (process == 0) {
        ::dup2(theirs.fd(), STDIN_FILENO);
        ::dup2(theirs.fd(), STDOUT_FILENO);
        ::execv(self.c_str(), words.data());
        _exit(127);
    }
    return Child(process, std::move(ours));
}

Child::Child(Child&& other) noexcept
    : m_process(std::exchange(other.m_process, -1)), m_connection(std::move(other.m_connection)) {}

Child::~Child() { static_cast<void>(ended_well()); }

void Child::write_line(const std::string& line) {
    const std::string text = line + "\n";
    static_cast<void>(::send(m_connection.fd(), text.data(), text.size(), MSG_NOSIGNAL));
}

std::string Child::read_line() {
    std::string line;
    for (char c;;) {
        const ssize_t n = ::recv(m_connection.fd(), &c, 1, 0);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0 || c == '\n') return line;
        line += c;
    }
}

bool Child::ended_well() {
    if (m_process < 0) return false;
    m_connection.close();
    int status = 0;
    while (::waitpid(m_process, &status, 0) < 0)
        if (errno != EINTR) return false;
    m_process = -1;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

std::string own_path() {
    char path[4096];
    const ssize_t n = ::readlink("/proc/self/exe", path, sizeof path - 1);
    return n > 0 ? std::string(path, static_cast<size_t>(n)) : "warpline-bench";
}

}  // namespace warpline::bench
