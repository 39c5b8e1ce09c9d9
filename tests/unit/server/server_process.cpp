// Starts gpu-server with the fake driver, and reads its log.
#include "tests/unit/server/server_process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

extern char** environ;

namespace warpline::server::test {

namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::seconds k_patience{60};

std::string read_file(const std::string& path) {
    std::ifstream file(path);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
}

/// The numbers behind a word in a process's status.
std::vector<unsigned> numbers_of(pid_t pid, const std::string& word) {
    std::ifstream file("/proc/" + std::to_string(pid) + "/status");
    std::string line;
    while (std::getline(file, line) && !line.starts_with(word)) {
    }
    std::istringstream text(line.substr(std::min(word.size(), line.size())));
    std::vector<unsigned> numbers;
    for (unsigned number = 0; text >> number;) numbers.push_back(number);
    return numbers;
}

/// One line from a pipe, within the patience.
std::string read_line(int fd) {
    std::string line;
    const auto deadline = Clock::now() + k_patience;
    while (Clock::now() < deadline) {
        pollfd watched{fd, POLLIN, 0};
        if (poll(&watched, 1, 200) <= 0) continue;
        char c = 0;
        if (read(fd, &c, 1) != 1 || c == '\n') break;
        line.push_back(c);
    }
    return line;
}

}  // namespace

ServerProcess::ServerProcess(const std::vector<std::string>& flags) {
    char directory[] = "/tmp/wl-server-test-XXXXXX";
    m_directory = mkdtemp(directory);
    EXPECT_TRUE(net::write_local_certificates(m_directory).ok());
    std::string why;
    auto credentials =
        net::load_credentials(m_directory + "/ca.pem", m_directory + "/client.pem", m_directory + "/client.key", why);
    EXPECT_TRUE(credentials.ok()) << why;
    m_credentials = *credentials;

    // A file of its own, so that one of this machine's does not apply.
    std::ofstream(m_directory + "/server.toml") << "max_sessions = 4\n";
    int ready[2];
    EXPECT_EQ(pipe2(ready, O_CLOEXEC), 0);
    std::vector<std::string> arguments{GPU_SERVER,
                                       "--config=" + m_directory + "/server.toml",
                                       "--listen=127.0.0.1:0",
                                       "--driver=" FAKE_DRIVER,
                                       "--ca=" + m_directory + "/ca.pem",
                                       "--cert=" + m_directory + "/server.pem",
                                       "--key=" + m_directory + "/server.key",
                                       "--workers-ready=1",
                                       "--log=info",
                                       "--ready-fd=9"};
    for (const std::string& flag : flags) {
        const std::string name = flag.substr(0, flag.find('=') + 1);
        std::erase_if(arguments, [&name](const std::string& argument) { return argument.starts_with(name); });
        arguments.push_back(flag);
    }
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 1, (m_directory + "/stdout").c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    posix_spawn_file_actions_addopen(&actions, 2, (m_directory + "/stderr").c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    posix_spawn_file_actions_adddup2(&actions, ready[1], 9);
    EXPECT_EQ(posix_spawn(&m_pid, GPU_SERVER, &actions, nullptr, argv.data(), environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    close(ready[1]);
    const std::string line = read_line(ready[0]);
    close(ready[0]);
    if (line.starts_with("ready ")) m_port = static_cast<uint16_t>(std::atoi(line.c_str() + line.rfind(':') + 1));
}

ServerProcess::~ServerProcess() {
    if (m_pid > 0) {
        kill(m_pid, SIGKILL);
        waitpid(m_pid, nullptr, 0);
    }
    if (testing::Test::HasFailure()) std::fprintf(stderr, "--- gpu-server:\n%s---\n", log().c_str());
    std::filesystem::remove_all(m_directory);
}

std::unique_ptr<FakeClient> ServerProcess::client() {
    std::string why;
    auto client = FakeClient::connect(m_port, m_credentials, why);
    EXPECT_NE(client, nullptr) << why;
    if (client == nullptr) return nullptr;
    const auto hello = client->hello();
    EXPECT_TRUE(hello.has_value()) << client->end_explanation();
    if (!hello) return nullptr;
    EXPECT_EQ(hello->version, protocol::k_protocol_version_max) << hello->error;
    return client;
}

std::unique_ptr<FakeClient> ServerProcess::client_of_drain() {
    auto one = client();
    signal(SIGTERM);
    EXPECT_TRUE(wait_log("draining: 1 sessions"));
    return one;
}

void ServerProcess::damage_certificate() const { std::ofstream(m_directory + "/server.pem") << "nothing of the kind"; }

void ServerProcess::signal(int number) const { kill(m_pid, number); }

int ServerProcess::wait_exit() {
    const auto deadline = Clock::now() + k_patience;
    while (Clock::now() < deadline) {
        int status = 0;
        if (waitpid(m_pid, &status, WNOHANG) == m_pid) {
            m_pid = -1;
            return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return -1;
}

bool ServerProcess::wait_log(const std::string& text) {
    const auto deadline = Clock::now() + k_patience;
    while (Clock::now() < deadline) {
        if (log().find(text) != std::string::npos) return true;
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return false;
}

std::string ServerProcess::log() const { return read_file(m_directory + "/stderr"); }
std::string ServerProcess::standard_output() const { return read_file(m_directory + "/stdout"); }

std::vector<pid_t> ServerProcess::children() const {
    std::istringstream list(read_file("/proc/" + std::to_string(m_pid) + "/task/" + std::to_string(m_pid) + "/children"));
    std::vector<pid_t> pids;
    for (pid_t pid; list >> pid;) pids.push_back(pid);
    return pids;
}

std::vector<pid_t> ServerProcess::children_of_role(const std::string& argument) const {
    std::vector<pid_t> pids = children();
    std::erase_if(pids, [&argument](pid_t pid) {
        return read_file("/proc/" + std::to_string(pid) + "/cmdline").find(argument) == std::string::npos;
    });
    return pids;
}

pid_t ServerProcess::door() const {
    const auto doors = children_of_role("--door-of=");
    return doors.empty() ? -1 : doors.back();
}

pid_t ServerProcess::gauge() const {
    const auto gauges = children_of_role("--gauge-of=");
    return gauges.empty() ? -1 : gauges.back();
}

std::vector<uid_t> users_of(pid_t pid) { return numbers_of(pid, "Uid:"); }
std::vector<gid_t> groups_of(pid_t pid) { return numbers_of(pid, "Groups:"); }

bool wait_end(pid_t pid) {
    const int fd = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
    if (fd < 0) return errno == ESRCH;
    pollfd watched{fd, POLLIN, 0};
    const int ended = poll(&watched, 1, static_cast<int>(std::chrono::milliseconds(k_patience).count()));
    close(fd);
    return ended == 1;
}

}  // namespace warpline::server::test
