// Asking several servers for their status at the same time.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "client/identity/identity.h"
#include "common/base/result.h"
#include "protocol/session/status.h"

namespace warpline::client {

/// A connection over which a server is asked for its status.
class StatusConnection {
public:
    using Clock = std::chrono::steady_clock;

    /// @param reached  called when the socket has connected: the machine is there
    /// @errors as net::dial() and Identity::greet(), with `why` @blocks up to the deadline
    static Result<std::unique_ptr<StatusConnection>> open(const Identity& identity, const std::string& server,
                                                          Clock::time_point deadline, std::string& why,
                                                          const std::function<void()>& reached = {});

    /// @param request  `client_version` is filled in here
    /// @errors deadline, connection_lost, auth_failed, malformed, with `why` @blocks up to the deadline
    Result<protocol::ServerStatus> ask(protocol::StatusRequest request, Clock::time_point deadline, std::string& why);

    /// Of the last question, in milliseconds.
    double round_trip_ms() const { return m_round_trip_ms; }

private:
    StatusConnection(std::string server, std::unique_ptr<net::Channel> channel)
        : m_server(std::move(server)), m_channel(std::move(channel)) {}

    const std::string m_server;
    const std::unique_ptr<net::Channel> m_channel;
    double m_round_trip_ms = 0;
};

/// All servers, each asked by a thread of its own. A thread that waits for a server that is dead ends by itself, at the
/// deadline: nobody waits for it.
class Poll {
public:
    using Clock = std::chrono::steady_clock;

    struct Answer {
        size_t index = 0;                              ///< of the server
        std::unique_ptr<StatusConnection> connection;  ///< null: it has not answered
        protocol::ServerStatus status;
        Error error{Code::ok};  ///< if it has not answered
        std::string why;        ///< likewise: one sentence, with the address
    };

    /// @param wants_load  see protocol::StatusRequest
    /// @param failed  called with each server that has not answered, by the thread that has asked it, also when nobody waits
    /// for
    ///                the answers any more
    /// @blocks no
    Poll(const std::vector<std::string>& servers, Identity identity, Clock::time_point deadline, bool wants_load,
         std::function<void(const std::string& server, const Error& error)> failed = {});

    /// The next answer, in the order in which they come. Nothing: all have been given, or it is `until`. @blocks until then
    std::optional<Answer> next(Clock::time_point until);
    /// True if every server has answered, or failed to, and next() has given it.
    bool all_heard() const;
    /// True if a server that has not answered yet has been reached: its machine is there, and it may be slow. Likewise if it
    /// has not been dialled yet: our own machine is slow, and says nothing about the server's.
    bool some_are_slow() const;

private:
    struct State;
    std::shared_ptr<State> m_state;
};

}  // namespace warpline::client
