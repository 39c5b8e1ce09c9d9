// Servers that have failed rest, and are passed over while others answer.
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"

namespace warpline::client {

/// Which servers have failed how often, and until when each rests. Pure: no clock, no file.
class RestingServers {
public:
    /// The wall clock's: processes share it.
    using Clock = std::chrono::system_clock;

    /// @param longest  that a server rests; 0: none does
    explicit RestingServers(std::chrono::seconds longest) : m_longest(longest) {}

    /// Reads what text() has made. What is damaged, or was written by another clock, is left out.
    void read(std::string_view text, Clock::time_point now);
    /// A line for each server that is remembered.
    std::string text() const;

    bool rests(const std::string& server, Clock::time_point now) const;
    /// It rests twice as long as the time before. Who finds a failure that others have found already changes nothing.
    void failed(const std::string& server, Clock::time_point now);
    void well(const std::string& server) { m_servers.erase(server); }

private:
    struct Rest {
        unsigned failures = 0;  // one after the other
        Clock::time_point until;
    };
    std::chrono::milliseconds m_longest;
    std::map<std::string, Rest> m_servers;
};

/// The same for all programs of a user on this machine, by a file ($XDG_RUNTIME_DIR/warpline-resting-UID, else in /tmp). Where
/// there can be none, or another program does not give it, nobody rests. Copies are the same quarantine.
class Quarantine {
public:
    /// @param longest  that a server rests; 0: none does
    explicit Quarantine(std::chrono::seconds longest) : m_longest(longest) {}

    /// For each server whether it rests now. @blocks as UserFile::open() @thread any
    std::vector<bool> resting(const std::vector<std::string>& servers) const;
    /// A server that could not be reached, did not answer in time, or whose TLS failed; other errors are no failures of a
    /// server's. @blocks, @thread as resting()
    void failed(const std::string& server, const Error& error) const;
    /// It has taken a program, or answers who asks by hand. @blocks, @thread as resting()
    void well(const std::string& server) const;

private:
    std::chrono::seconds m_longest;
};

}  // namespace warpline::client
