#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "common/base/bytes.h"
#include "common/base/mutex.h"
#include "compress/codec.h"

namespace warpline::compress {

struct Choice {
    Codec codec = Codec::none;
    int level = 0;
    friend bool operator==(const Choice&, const Choice&) = default;
};

/// Chooses a codec per transfer, so that compressing is not slower than not compressing.
///
/// A transfer takes size / link without a codec. With one, packing and sending overlap chunk by chunk, so it takes the slower
/// of the two: max(size / pack speed, size × ratio / link). Link and pack speeds are measured and smoothed; the ratio is
/// measured by packing a sample of this transfer's own bytes. The best codec is taken if it is expected to save at least
/// k_min_gain.
///
/// What the sampling itself costs is bounded: codecs are tried, cheapest first, while their samples together take at most
/// k_sampling_share of the plain transfer; so small transfers on fast links are sent plain without a look at them.
class Policy {
public:
    static constexpr size_t k_min_transfer_bytes = 4 * 1024;
    static constexpr size_t k_max_sample_bytes = 16 * 1024;
    static constexpr size_t k_sample_pieces = 4;
    static constexpr double k_min_gain = 0.05;
    static constexpr double k_sampling_share = 0.05;
    /// Taken for the link until something was measured: 10 Gbit/s.
    static constexpr double k_assumed_link_bytes_per_second = 1.25e9;

    static constexpr uint32_t bit(Codec codec) { return 1u << static_cast<unsigned>(codec); }
    static constexpr uint32_t k_all_codecs = (1u << k_codec_count) - 1;

    /// @param allowed_codecs  those that the other side takes, a set of bit(); Codec::none is always among them
    explicit Policy(uint32_t allowed_codecs);

    /// @blocks  no; may pack a sample
    /// @thread  any
    Choice choose(BytesView transfer) WL_EXCLUDES(m_mutex);

    /// What was measured. Measurements without a duration are ignored.
    void record_link(size_t wire_bytes, std::chrono::nanoseconds took) WL_EXCLUDES(m_mutex);
    void record_pack(Choice choice, size_t raw_bytes, std::chrono::nanoseconds took) WL_EXCLUDES(m_mutex);

    double link_bytes_per_second() const WL_EXCLUDES(m_mutex);
    double pack_bytes_per_second(Choice choice) const WL_EXCLUDES(m_mutex);

private:
    static constexpr size_t k_candidate_count = 6;
    struct Speeds {
        double link = k_assumed_link_bytes_per_second;
        std::array<double, k_candidate_count> pack{};
    };

    const uint32_t m_allowed;
    mutable Mutex m_mutex;  ///< protects the measured speeds
    Speeds m_speeds WL_GUARDED_BY(m_mutex);
};

}  // namespace warpline::compress
