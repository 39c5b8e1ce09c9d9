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
    std::vector<pid_t> workers() const;
    /// Workers and the door.
    std::vector<pid_t> children() const;

private:
    std::string m_directory;
    net::TlsCredentials m_credentials;
    pid_t m_pid = -1;
    uint16_t m_port = 0;
};

}  // namespace warpline::server::test
