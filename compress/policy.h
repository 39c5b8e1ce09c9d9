#pragma once

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

/// Chooses a codec per transfer, so that compressing is never slower than not compressing.
///
/// The time of a transfer without compression is size / link. With a codec it is the slower of packing (the link works
/// meanwhile) and sending the packed size: max(size / pack speed, size × ratio / link). Link and pack speeds are measured and
/// smoothed, the ratio is measured on a sample of this transfer's own bytes. A codec is taken if it is expected to save at
/// least k_min_gain. What a sample costs is bounded: k_sample_bytes of at most k_sample_pieces places; transfers below
/// k_min_transfer_bytes are never packed.
class Policy {
public:
    static constexpr size_t k_min_transfer_bytes = 16 * 1024;
    static constexpr size_t k_sample_bytes = 16 * 1024;
    static constexpr size_t k_sample_pieces = 4;
    static constexpr double k_min_gain = 0.05;

    /// Codecs that the other side takes, as a set of bits 1 << Codec. Codec::none is always there.
    explicit Policy(uint32_t allowed_codecs = 1);

    /// @blocks  no network; packs a sample (tens of microseconds) when a codec could win
    /// @thread  any
    Choice choose(BytesView transfer);

    /// What was measured. Zero durations are ignored.
    void record_link(size_t wire_bytes, std::chrono::nanoseconds took);
    void record_pack(Choice choice, size_t raw_bytes, std::chrono::nanoseconds took);

    double link_bytes_per_second() const;
    double pack_bytes_per_second(Codec codec) const;

private:
    struct Estimate {
        double ratio = 1.0;
        double seconds = 0;
    };
    Estimate estimate(Choice choice, BytesView sample, size_t transfer_bytes) WL_REQUIRES(m_mutex);

    const uint32_t m_allowed;
    mutable Mutex m_mutex;  ///< protects the measured speeds
    double m_link WL_GUARDED_BY(m_mutex) = 0;
    double m_pack[k_codec_count] WL_GUARDED_BY(m_mutex) = {};
};

}  // namespace warpline::compress
