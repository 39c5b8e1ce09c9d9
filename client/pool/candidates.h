// Which of several servers a program goes to.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/session/status.h"

namespace warpline::client {

/// How a server is chosen (WARPLINE_POLICY).
enum class Policy : uint8_t { least_connections, round_robin, weighted, gpu_utilisation, in_order };

/// "least_connections" and so on; nothing for other text.
std::optional<Policy> policy_of(std::string_view text);

/// The servers that have answered, and the order in which they are tried. Pure: no clock, no socket.
class Candidates {
public:
    /// @param turn    round_robin: the place in the list that is next, counted on and on
    /// @param random  a number below its argument, which is not 0
    Candidates(Policy policy, uint64_t turn, std::function<size_t(size_t)> random)
        : m_policy(policy), m_turn(turn), m_random(std::move(random)) {}

    /// @param index  place in the user's list
    /// @param rank   one with a higher rank is a candidate only where there is none with a lower one
    void add(size_t index, uint32_t weight, const protocol::ServerStatus& status, double round_trip_ms, uint32_t rank = 0);
    /// What a server says of itself now.
    void update(size_t index, const protocol::ServerStatus& status);
    /// It is not tried again.
    void drop(size_t index);

    /// The index of the one to try next; nothing if there is none.
    std::optional<size_t> best() const;
    /// As long as it has fewer sessions than this, no other server is a better choice, as far as is known.
    ///
    /// @param all_heard  false: others may answer yet, and who finds this one chosen by many looks at those
    uint32_t claim_below(size_t index, bool all_heard) const;

    /// Why a server is passed over, in plain words; "" if it is not.
    static std::string why_not(const protocol::ServerStatus& status);

private:
    struct Candidate {
        size_t index = 0;
        uint32_t weight = 1;
        protocol::ServerStatus status;
        double round_trip_ms = 0;
        uint32_t rank = 0;
    };
    std::span<const Candidate> first_rank() const;
    std::vector<const Candidate*> first_choice() const;
    double load(const Candidate& candidate) const;

    Policy m_policy;
    uint64_t m_turn;
    std::function<size_t(size_t)> m_random;
    std::vector<Candidate> m_candidates;  // by rank, then by index; those that can be tried
};

}  // namespace warpline::client
