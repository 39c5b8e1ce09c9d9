// The policies.
#include "client/pool/candidates.h"

#include <algorithm>
#include <limits>
#include <tuple>

namespace warpline::client {

namespace {

/// Servers of whom none is more than twice as far as the nearest, and a millisecond, are equally near.
constexpr double k_equally_near_factor = 2;
constexpr double k_equally_near_ms = 1;

}  // namespace

std::optional<Policy> policy_of(std::string_view text) {
    if (text == "least_connections") return Policy::least_connections;
    if (text == "round_robin") return Policy::round_robin;
    if (text == "weighted") return Policy::weighted;
    if (text == "in_order") return Policy::in_order;
    return std::nullopt;
}

std::string Candidates::why_not(const protocol::ServerStatus& status) {
    if (status.draining) return "it is being drained";
    if (status.sessions >= status.max_sessions)
        return "it is full: " + std::to_string(status.sessions) + " of " + std::to_string(status.max_sessions) + " sessions";
    return "";
}

void Candidates::add(size_t index, uint32_t weight, const protocol::ServerStatus& status, double round_trip_ms, uint32_t rank) {
    const auto place = std::find_if(m_candidates.begin(), m_candidates.end(), [&](const Candidate& other) {
        return std::tie(other.rank, other.index) > std::tie(rank, index);
    });
    if (why_not(status).empty()) m_candidates.insert(place, {index, weight, status, round_trip_ms, rank});
}

void Candidates::update(size_t index, const protocol::ServerStatus& status) {
    if (!why_not(status).empty()) return drop(index);
    for (Candidate& candidate : m_candidates) {
        if (candidate.index == index) candidate.status = status;
    }
}

void Candidates::drop(size_t index) {
    std::erase_if(m_candidates, [index](const Candidate& candidate) { return candidate.index == index; });
}

/// What the policies that compare loads compare: sessions with this program, for each unit of weight.
double Candidates::load(const Candidate& candidate) const {
    const double sessions = candidate.status.sessions + 1.0;
    return m_policy == Policy::weighted ? sessions / candidate.weight : sessions;
}

/// Those among which the policy chooses.
std::span<const Candidates::Candidate> Candidates::first_rank() const {
    const auto end = std::find_if(m_candidates.begin(), m_candidates.end(),
                                  [this](const Candidate& candidate) { return candidate.rank != m_candidates.front().rank; });
    return {m_candidates.begin(), end};
}

std::optional<size_t> Candidates::best() const {
    const auto candidates = first_rank();
    if (candidates.empty()) return std::nullopt;
    if (m_policy == Policy::in_order) return candidates.front().index;
    if (m_policy == Policy::round_robin) return candidates[m_turn % candidates.size()].index;
    double least = std::numeric_limits<double>::infinity();
    for (const Candidate& candidate : candidates) least = std::min(least, load(candidate));
    double nearest_ms = std::numeric_limits<double>::infinity();
    for (const Candidate& candidate : candidates) {
        if (load(candidate) <= least) nearest_ms = std::min(nearest_ms, candidate.round_trip_ms);
    }
    std::vector<size_t> equal;
    for (const Candidate& candidate : candidates) {
        if (load(candidate) <= least && candidate.round_trip_ms <= nearest_ms * k_equally_near_factor + k_equally_near_ms)
            equal.push_back(candidate.index);
    }
    return equal[m_random(equal.size())];
}

uint32_t Candidates::claim_below(size_t index, bool all_heard) const {
    double most = 1e9;
    if (m_policy == Policy::in_order || m_policy == Policy::round_robin) return static_cast<uint32_t>(most);
    for (const Candidate& candidate : first_rank()) {
        if (candidate.index == index) {
            if (!all_heard) most = std::min(most, candidate.status.sessions + 1.0);
            continue;
        }
        const auto own =
            std::find_if(m_candidates.begin(), m_candidates.end(), [index](const Candidate& c) { return c.index == index; });
        const uint32_t weight = m_policy == Policy::weighted && own != m_candidates.end() ? own->weight : 1;
        most = std::min(most, load(candidate) * weight);
    }
    return static_cast<uint32_t>(most);
}

}  // namespace warpline::client
