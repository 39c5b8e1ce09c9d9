// The policies.
#include "client/pool/candidates.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <tuple>

namespace warpline::client {

namespace {

/// Servers of whom none is more than twice as far as the nearest, and a millisecond, are equally near.
constexpr double k_equally_near_factor = 2;
constexpr double k_equally_near_ms = 1;
/// GPUs are equally busy if none is so many percent busier than the idlest: a reading is an average over less than a second.
constexpr uint32_t k_equally_busy_percent = 5;
/// … and have equally much memory free if none has less than this share of the most. Each session's context takes some, and
/// programs that begin at the same time are to spread.
constexpr double k_equally_free = 0.875;

/// A server's least utilised GPU, and of several the one with the most free memory. Null: nothing is known.
const protocol::DeviceLoad* idlest_device(const protocol::ServerStatus& status) {
    const protocol::DeviceLoad* idlest = nullptr;
    for (const protocol::DeviceLoad& device : status.devices) {
        if (!device.utilisation_percent) continue;
        if (idlest == nullptr || device.utilisation_percent < idlest->utilisation_percent ||
            (device.utilisation_percent == idlest->utilisation_percent && device.free_bytes > idlest->free_bytes)) {
            idlest = &device;
        }
    }
    return idlest;
}

}  // namespace

std::optional<Policy> policy_of(std::string_view text) {
    if (text == "least_connections") return Policy::least_connections;
    if (text == "round_robin") return Policy::round_robin;
    if (text == "weighted") return Policy::weighted;
    if (text == "gpu_utilisation") return Policy::gpu_utilisation;
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

/// Those of them whose GPUs leave the choice to the number of sessions: with gpu_utilisation the idlest ones, else all.
std::vector<const Candidates::Candidate*> Candidates::first_choice() const {
    std::vector<const Candidate*> choice;
    for (const Candidate& candidate : first_rank()) choice.push_back(&candidate);
    if (m_policy != Policy::gpu_utilisation) return choice;
    const auto keep_if_any = [&](const auto& good) {
        std::vector<const Candidate*> kept;
        std::copy_if(choice.begin(), choice.end(), std::back_inserter(kept), good);
        if (!kept.empty()) choice = std::move(kept);
    };
    uint32_t least_percent = std::numeric_limits<uint32_t>::max() - k_equally_busy_percent;
    for (const Candidate* candidate : choice) {
        const auto* device = idlest_device(candidate->status);
        if (device != nullptr) least_percent = std::min(least_percent, *device->utilisation_percent);
    }
    keep_if_any([&](const Candidate* candidate) {
        const auto* device = idlest_device(candidate->status);
        return device != nullptr && *device->utilisation_percent <= least_percent + k_equally_busy_percent;
    });
    uint64_t most_free = 0;
    const auto free_bytes = [](const Candidate* candidate) {
        const auto* device = idlest_device(candidate->status);
        return device != nullptr ? device->free_bytes : 0;
    };
    for (const Candidate* candidate : choice) most_free = std::max(most_free, free_bytes(candidate));
    keep_if_any([&](const Candidate* candidate) {
        return static_cast<double>(free_bytes(candidate)) >= static_cast<double>(most_free) * k_equally_free;
    });
    return choice;
}

std::optional<size_t> Candidates::best() const {
    const auto ranked = first_rank();
    if (ranked.empty()) return std::nullopt;
    if (m_policy == Policy::in_order) return ranked.front().index;
    if (m_policy == Policy::round_robin) return ranked[m_turn % ranked.size()].index;
    const auto candidates = first_choice();
    double least = std::numeric_limits<double>::infinity();
    for (const Candidate* candidate : candidates) least = std::min(least, load(*candidate));
    double nearest_ms = std::numeric_limits<double>::infinity();
    for (const Candidate* candidate : candidates) {
        if (load(*candidate) <= least) nearest_ms = std::min(nearest_ms, candidate->round_trip_ms);
    }
    std::vector<size_t> equal;
    for (const Candidate* candidate : candidates) {
        if (load(*candidate) <= least && candidate->round_trip_ms <= nearest_ms * k_equally_near_factor + k_equally_near_ms)
            equal.push_back(candidate->index);
    }
    return equal[m_random(equal.size())];
}

uint32_t Candidates::claim_below(size_t index, bool all_heard) const {
    double most = 1e9;
    if (m_policy == Policy::in_order || m_policy == Policy::round_robin) return static_cast<uint32_t>(most);
    for (const Candidate* candidate : first_choice()) {
        if (candidate->index == index) {
            if (!all_heard) most = std::min(most, candidate->status.sessions + 1.0);
            continue;
        }
        const auto own =
            std::find_if(m_candidates.begin(), m_candidates.end(), [index](const Candidate& c) { return c.index == index; });
        const uint32_t weight = m_policy == Policy::weighted && own != m_candidates.end() ? own->weight : 1;
        most = std::min(most, load(*candidate) * weight);
    }
    return static_cast<uint32_t>(most);
}

}  // namespace warpline::client
