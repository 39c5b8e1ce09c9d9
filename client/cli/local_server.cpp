// Certificates, start and end of the server that `warpline run --local` uses.
#include "client/cli/local_server.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

#include "client/cli/child.h"
#include "client/cli/paths.h"
#include "common/net/certificates.h"

namespace warpline::cli {

namespace {

constexpr const char* k_folder_pattern = "/warpline-local-XXXXXX";
constexpr const char* k_socket = "/server";

/// A new folder that only this user may enter.
Result<std::string> make_folder() {
    const char* parent = std::getenv("TMPDIR");
    std::string name = std::string(parent && *parent ? parent : "/tmp") + k_folder_pattern;
    // The name of a Unix socket has little room.
    if (name.size() + std::strlen(k_socket) >= sizeof sockaddr_un::sun_path) name = std::string("/tmp") + k_folder_pattern;
    if (::mkdtemp(name.data()) == nullptr)
        return Error{Code::io, "no folder for temporary files", static_cast<uint32_t>(errno)};
    return name;
}

/// Reads one line; empty if the other end closed without one.
std::string read_line(int fd) {
    std::string line;
    char c;
    for (;;) {
        ssize_t n = ::read(fd, &c, 1);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0 || c == '\n') return line;
        line += c;
    }
}

}  // namespace

Result<std::unique_ptr<LocalServer>> LocalServer::start(const std::string& driver, bool tcp, std::string& why) {
    auto folder = make_folder();
    if (!folder.ok()) {
        why = std::string("no temporary folder can be made in $TMPDIR or /tmp: ") +
              std::strerror(static_cast<int>(folder.error().detail));
        return folder.error();
    }
    std::unique_ptr<LocalServer> server(new LocalServer(*folder, tcp));
    if (auto written = net::write_local_certificates(*folder); !written.ok()) {
        why = "the throw-away certificates cannot be written to " + *folder + ": " + written.error().what;
        return written.error();
    }
    WL_TRY(server->launch(driver, why));
    return server;
}

Result<void> LocalServer::launch(const std::string& driver, std::string& why) {
    std::string executable = program_folder() + "/gpu-server";
    int ready[2];
    if (::pipe(ready) != 0) return Error{Code::io, "no pipe", static_cast<uint32_t>(errno)};
    ::fcntl(ready[0], F_SETFD, FD_CLOEXEC);
    std::string log_path = m_folder + "/log", ready_fd = std::to_string(ready[1]);
    pid_t parent = ::getpid();
    std::vector<std::string> command = {executable,
                                        "--listen",
                                        m_tcp ? "127.0.0.1:0" : "unix:" + m_folder + k_socket,
                                        "--unix-tenants",
                                        "self=local",
                                        "--driver",
                                        driver,
                                        "--cert",
                                        m_folder + "/server.pem",
                                        "--key",
                                        m_folder + "/server.key",
                                        "--ca",
                                        m_folder + "/ca.pem",
                                        "--workers-ready",
                                        "1",
                                        "--drain-seconds",
                                        "0",
                                        "--ready-fd",
                                        ready_fd};
    auto child = spawn(command, [&] {
        // In a group of its own an interrupt from the terminal ends the program first; the server ends with this process at
        // the latest. Not in a session of its own: see SpawnPlan::leads_group.
        ::setpgid(0, 0);
        ::prctl(PR_SET_PDEATHSIG, SIGTERM);
        if (::getppid() != parent) ::_exit(0);
        // What the program may see is its own affair, and counted among all devices.
        ::unsetenv("CUDA_VISIBLE_DEVICES");
        int log = ::open(log_path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), null = ::open("/dev/null", O_RDONLY);
        ::dup2(null, 0);
        ::dup2(log, 1);
        ::dup2(log, 2);
    });
    ::close(ready[1]);
    if (!child.ok()) {
        ::close(ready[0]);
        why = executable + " cannot be started: " + std::strerror(static_cast<int>(child.error().detail));
        return child.error();
    }
    m_process = *child;
    std::string line = read_line(ready[0]);
    ::close(ready[0]);
    if (line.rfind("ready ", 0) != 0) {
        why = "the private gpu-server did not start; it said:\n" + log_text();
        return Error{Code::io, "gpu-server did not start"};
    }
    m_address = line.substr(6);
    return {};
}

LocalServer::~LocalServer() {
    if (m_process > 0) end_child(m_process);
    std::error_code ignored;
    std::filesystem::remove_all(m_folder, ignored);
}

std::map<std::string, std::string> LocalServer::environment() const {
    return {{"WARPLINE_SERVERS", m_address},
            {"WARPLINE_UNIX_IDENTITY", "user"},
            // For programs that put something between themselves and the server.
            {"WARPLINE_CERT", m_folder + "/client.pem"},
            {"WARPLINE_KEY", m_folder + "/client.key"},
            {"WARPLINE_CA", m_folder + "/ca.pem"}};
}

std::string LocalServer::log_text() const {
    std::ifstream file(m_folder + "/log");
    return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace warpline::cli
