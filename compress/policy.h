// Which codec, if any, makes a transfer faster.
#pragma once

#include <array>
#include <chrono>

#include "compress/sample.h"
#include "compress/wish.h"

namespace warpline::compress {

/// Chooses a codec for each chunk that leaves over one connection, so that compressing is not slower than not compressing.
///
/// A chunk without a codec takes size / link. With one, packing, sending and unpacking overlap from chunk to chunk, so it takes
/// the longer of two: of what the link does, size × ratio / link, and of what processors do, packing, unpacking and encrypting
/// what is left. The faster the link, the more processors have to do without a codec: then less of the two is taken to overlap,
/// and none when the link is as fast as they are. The best codec is taken if it saves at least k_least_gain.
///
/// The ratio comes from a sample of the chunk itself, the codec's speed from the chunks before. Samples are taken as long as
/// they take no more than k_sampling_share of the time that plain chunks take; else the choice is that of the chunk before.
/// Chunks that are all zeros, or any other constant, are found without: they cost next to nothing on any link.
///
/// @thread  one at a time
class Policy {
public:
    static constexpr size_t k_least_bytes = 1024;
    static constexpr double k_least_gain = 0.05;
    static constexpr double k_sampling_share = 0.01;
    static constexpr double k_fastest_link = 250e6;  ///< bytes a second, of one connection; beyond it only constants are packed

    Policy();

    /// @param link_bytes_per_second  0: not known; then only constants are packed
    /// @param allowed                those that may be chosen
    Choice choose(BytesView chunk, double link_bytes_per_second, CodecSet allowed);

    /// True if the last choice was for a chunk that repeats one 8-byte word.
    bool chose_for_constant() const { return m_was_constant; }

    /// What became of a chunk that was chosen for.
    void record(Choice choice, size_t raw_bytes, size_t packed_bytes, std::chrono::nanoseconds took);

    double pack_bytes_per_second(Choice choice) const;

    /// By what is assumed before anything is measured: the share of its bytes that such a chunk would travel as; 1: as it is.
    static double expected_share(const Sample& sample, double link_bytes_per_second, CodecSet allowed);

private:
    static constexpr size_t k_candidate_count = 6;

    static double estimated_ratio(const Sample& sample, size_t candidate, double repeated);
    /// Nanoseconds a byte.
    double cost(size_t candidate, double ratio, double link_ns) const;
    Choice best_of(const Sample& sample, double link_ns, CodecSet allowed) const;

    std::array<double, k_candidate_count> m_pack_ns;  // a byte, as measured
    double m_sample_seconds;                          // what one takes, as measured
    double m_budget_seconds;                          // for samples
    Choice m_last;
    bool m_was_constant = false;
};

}  // namespace warpline::compress
