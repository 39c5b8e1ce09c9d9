// A server for one run of one program, on this machine.
#pragma once

#include <sys/types.h>

#include <map>
#include <memory>
#include <string>

#include "common/base/result.h"

namespace warpline::cli {

/// A gpu-server of one's own at a Unix socket in a folder that only this user may enter, for as long as the object lives. It
/// executes on this machine's GPU if there is one, else on the software GPU.
class LocalServer {
public:
    /// @param driver  as gpu-server's --driver
    /// @param tcp     on a free loopback port instead, with certificates made for it
    /// @param why     set when it fails: what to do, and what the server said
    /// @errors        io
    /// @blocks        until the server is ready
    static Result<std::unique_ptr<LocalServer>> start(const std::string& driver, bool tcp, std::string& why);
    /// Ends the server, its workers included, and removes its files.
    ~LocalServer();
    LocalServer(const LocalServer&) = delete;
    LocalServer& operator=(const LocalServer&) = delete;

    /// What a program needs in its environment to use it.
    std::map<std::string, std::string> environment() const;

private:
    LocalServer(std::string folder, bool tcp) : m_folder(std::move(folder)), m_tcp(tcp) {}
    Result<void> launch(const std::string& driver, std::string& why);
    std::string log_text() const;

    const std::string m_folder;
    const bool m_tcp;
    std::string m_address;
    pid_t m_process = -1;
};

}  // namespace warpline::cli
