// What asking saves, and what it costs.
#include "protocol/codec/offer_policy.h"

#include <algorithm>
#include <utility>

namespace warpline::protocol {

bool OfferPolicy::pays(uint64_t payload_bytes, uint64_t chunk_bytes, const Link& link) const {
    if (!goes_on() || !keeps(link)) return false;
    const double link_ns = link.ns_per_byte > 0 ? link.ns_per_byte : k_assumed_link_ns;
    const double bytes = static_cast<double>(payload_bytes);
    const double found = m_chance * bytes;
    // The first answer is waited for; while later ones are on their way, others are hashed or sent.
    const double first = static_cast<double>(std::min(chunk_bytes, payload_bytes)) * m_hash_ns + link.round_trip_ns;
    const double spent = found * m_hash_ns + first;
    return found * link_ns > k_clearly * spent;
}

OfferPolicy::Choice OfferPolicy::choose(uint64_t payload_bytes, uint64_t chunk_bytes, const Link& link) {
    if (!keeps(link)) return {};
    if (pays(payload_bytes, chunk_bytes, link)) {
        Choice choice{.hashes_first = true};
        if (link.ns_per_byte > 0) {
            m_found_bytes = 0;
        } else if (m_found_bytes >= m_trial_after) {
            choice.plain_bytes = std::min(k_trial_bytes, payload_bytes);
            m_found_bytes = 0;
            m_trial_after *= 4;
        }
        return choice;
    }
    m_unasked_bytes += payload_bytes;
    if (m_unasked_bytes < k_bytes_between_samples) return {};
    m_unasked_bytes = 0;
    return {.is_first = !std::exchange(m_sampled, true), .samples = true};
}

void OfferPolicy::answered(uint64_t bytes, bool has, bool only_asked) {
    if (has && !only_asked) m_found_bytes += bytes;
    m_chance += k_weight_of_new * ((has ? 1 : 0) - m_chance);
    // One of many that is found is more than an accident: it may be worth asking again.
    if (has && only_asked) m_chance = std::max(m_chance, k_first_chance);
}

void OfferPolicy::hashed(uint64_t bytes, double nanoseconds) {
    if (bytes == 0) return;
    m_hash_ns += k_weight_of_new * (nanoseconds / static_cast<double>(bytes) - m_hash_ns);
}

}  // namespace warpline::protocol
