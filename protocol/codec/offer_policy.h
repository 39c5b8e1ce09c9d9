// Whether a payload's hashes go ahead of its bytes.
#pragma once

#include <cstdint>

namespace warpline::protocol {

/// What came of offers.
struct OfferCounters {
    uint64_t asked_chunks = 0, found_chunks = 0;
    uint64_t sampled_chunks = 0;  ///< of those that were asked for: they were sent all the same
    uint64_t found_bytes = 0;     ///< that were not sent
};

/// Decides for each long payload whether the server is asked first which chunks of it it has. That pays where the time which
/// the bytes would take on the link, times how likely the server has them, is clearly more than it takes to hash them and to
/// hear the answer. How likely, past answers say. Until they say that it is, one chunk in many is asked for while it is sent
/// all the same: so asking costs no time where nothing is found.
///
/// Pure. Times are in nanoseconds. @thread one at a time
class OfferPolicy {
public:
    static constexpr double k_assumed_link_ns = 8;  ///< a byte, of a link that is not known: 1 Gb/s
    /// Nothing is asked or kept for links that take less, 1.6 Gb/s: processors that have much to do look like a link that is a
    /// little slow, and keeping gives them more.
    static constexpr double k_slow_link_ns = 5;
    static constexpr double k_clearly = 2;         ///< what is saved, by what is spent
    static constexpr double k_first_chance = 0.5;  ///< once one was found
    static constexpr double k_weight_of_new = 0.125;
    static constexpr double k_least_chance = 0.25;  ///< with less, hashes do not go ahead
    static constexpr double k_sure_chance = 0.75;   ///< with more, the whole window may be asked for at a time
    static constexpr uint64_t k_bytes_between_samples = uint64_t{16} << 20;
    static constexpr uint64_t k_first_trial_after = uint64_t{256}
                                                    << 20;  ///< bytes that were found, on a link that is not known
    static constexpr uint64_t k_trial_bytes = uint64_t{2} << 20;

    struct Link {
        double ns_per_byte = 0;    ///< 0: not known
        double round_trip_ns = 0;  ///< likewise
    };
    struct Choice {
        bool hashes_first = false;
        bool is_first = false;     ///< of the samples: much may hang on it
        bool samples = false;      ///< one chunk is asked for, and sent all the same
        uint64_t plain_bytes = 0;  ///< are sent first, so that the link gets known
    };

    /// @param stored_bytes  what the server has of the tenant's
    explicit OfferPolicy(uint64_t stored_bytes) : m_unasked_bytes(stored_bytes > 0 ? k_bytes_between_samples : 0) {}

    /// Of a payload that comes.
    Choice choose(uint64_t payload_bytes, uint64_t chunk_bytes, const Link& link);
    /// True if hashes of so much should go ahead, by what is known now.
    bool pays(uint64_t payload_bytes, uint64_t chunk_bytes, const Link& link) const;
    /// True while hashes of a payload that was chosen for may still go ahead.
    bool goes_on() const { return m_chance >= k_least_chance; }
    bool is_sure() const { return m_chance >= k_sure_chance; }
    /// What is sent over such a link may be worth keeping.
    static bool keeps(const Link& link) { return link.ns_per_byte == 0 || link.ns_per_byte >= k_slow_link_ns; }

    void answered(uint64_t bytes, bool has, bool only_asked);
    void hashed(uint64_t bytes, double nanoseconds);

    double chance() const { return m_chance; }
    double hash_ns_per_byte() const { return m_hash_ns; }

private:
    double m_chance = 0;
    double m_hash_ns = 0.6;    // a byte, until measured
    uint64_t m_unasked_bytes;  // where there is something, the first payload tells
    bool m_sampled = false;
    uint64_t m_found_bytes = 0;  // since the link was known or tried
    uint64_t m_trial_after = k_first_trial_after;
};

}  // namespace warpline::protocol
