// Going through the servers of a pool, the best one first.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "client/pool/candidates.h"
#include "client/pool/names.h"
#include "client/pool/poll.h"
#include "client/pool/quarantine.h"

namespace warpline::client {

/// One choice among several servers: asks all of them but those that rest, gives the best, and, if that one refuses, the next
/// best; and then the same with those that rest.
class ServerChoice {
public:
    /// Asks all servers at the same time. @param patience for those that do not answer, if nobody else takes us @blocks no
    ServerChoice(std::vector<PoolServer> servers, Policy policy, Identity identity, std::chrono::milliseconds patience,
                 Quarantine quarantine);

    /// The address of the next server to try; a place is kept for us there. Nothing if none is left.
    ///
    /// @blocks  until a server that can take us has answered, and then a few of its round trips for others that may be better:
    ///          one that is dead is not waited for
    std::optional<std::string> next();
    /// The one that next() gave has refused.
    void refused(const Error& error, const std::string& why);

    /// Why each server does not take us, in one line, and the last of the reasons: quota, if any of them is full.
    const std::string& reasons() const { return m_reasons; }
    const Error& last_error() const { return m_last_error; }

private:
    using Clock = std::chrono::steady_clock;

    void begin(std::vector<size_t> servers);
    std::optional<std::string> next_of_asked();
    void hear();
    Clock::time_point heard_by() const;
    bool better_may_come() const;
    void add(Poll::Answer answer);
    bool claim(size_t index);
    void pass_over(size_t index, const protocol::ServerStatus& status);

    const std::vector<PoolServer> m_servers;
    const Identity m_identity;
    const std::chrono::milliseconds m_patience;
    const Quarantine m_quarantine;
    const bool m_wants_load;
    std::vector<size_t> m_resting;  // not yet asked
    std::vector<size_t> m_asked;
    Clock::time_point m_began;
    Clock::time_point m_deadline;
    std::optional<Poll> m_poll;  // of those asked
    Candidates m_candidates;
    std::map<size_t, std::unique_ptr<StatusConnection>> m_connections;  // to the candidates
    bool m_settled = false;                                             // false: others that are on their way are waited for
    bool m_was_patient = false;
    std::optional<Clock::time_point> m_first_at;  // when the first candidate had answered
    std::vector<bool> m_is_awaited;               // by index
    unsigned m_lost_claims = 0;
    std::string m_reasons;
    Error m_last_error{Code::connect_refused, "no server"};
};

}  // namespace warpline::client
