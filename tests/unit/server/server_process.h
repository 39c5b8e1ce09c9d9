// A gpu-server for a test.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "common/net/certificates.h"
#include "tests/unit/server/fake_client.h"

namespace warpline::server::test {

/// A gpu-server process on a free port of the loopback interface, with the fake driver and certificates of its own.
class ServerProcess {
public:
    explicit ServerProcess(const std::vector<std::string>& flags = {});
    ~ServerProcess();
    ServerProcess(const ServerProcess&) = delete;
    ServerProcess& operator=(const ServerProcess&) = delete;

    bool ready() const { return m_port != 0; }
    uint16_t port() const { return m_port; }
    pid_t pid() const { return m_pid; }
    /// Where its certificates and keys are (`server.key`).
    const std::string& directory() const { return m_directory; }
    const net::TlsCredentials& client_credentials() const { return m_credentials; }

    /// A client with a session; fails the test if there is none.
    std::unique_ptr<FakeClient> client();

    /// The same, and the server drains: it has been asked to end, and waits for that client.
    std::unique_ptr<FakeClient> client_of_drain();

    /// From now on the file with the server's certificate has none in it.
    void damage_certificate() const;
    void signal(int number) const;
    /// Waits for the server's end. -1 if it lives on; else its exit status, or 128 + the signal.
    int wait_exit();
    /// Waits until a line of the log contains the text. False if none does in time.
    bool wait_log(const std::string& text);
    std::string log() const;
    std::string standard_output() const;
    std::vector<pid_t> workers() const { return children_of_role("--worker-of="); }
    /// The newest. -1 if there is none.
    pid_t door() const;
    /// -1 if there is none.
    pid_t gauge() const;
    /// Workers, the door and the gauge.
    std::vector<pid_t> children() const;

private:
    std::vector<pid_t> children_of_role(const std::string& argument) const;

    std::string m_directory;
    net::TlsCredentials m_credentials;
    pid_t m_pid = -1;
    uint16_t m_port = 0;
};

/// The users of a process: real, effective, saved, and of its files. Empty if there is no such process.
std::vector<uid_t> users_of(pid_t pid);
/// Its groups beside the one that it has as a user.
std::vector<gid_t> groups_of(pid_t pid);
/// Waits for the end of a process, anybody's child. False if it lives on.
bool wait_end(pid_t pid);

}  // namespace warpline::server::test
