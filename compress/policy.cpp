#include "compress/policy.h"

#include <algorithm>
#include <cstring>

namespace warpline::compress {

namespace {

struct Candidate {
    Choice choice;
    double assumed_bytes_per_second;  // until measured; one core of a 2023 server (compress_bench)
};

// Cheapest to try first.
constexpr Candidate k_candidates[] = {
    {{Codec::lz4, 1}, 700e6},        {{Codec::group4_lz4, 1}, 500e6}, {{Codec::group2_lz4, 1}, 500e6},
    {{Codec::group8_lz4, 1}, 500e6}, {{Codec::zstd, 1}, 350e6},       {{Codec::zstd, 3}, 200e6},
};

// Which row a measurement belongs to: for zstd the one whose level is nearest from below.
size_t index_of(Choice choice) {
    size_t found = std::size(k_candidates);
    for (size_t i = 0; i < std::size(k_candidates); i++) {
        const Choice& row = k_candidates[i].choice;
        if (row.codec != choice.codec) continue;
        if (found == std::size(k_candidates) || row.level <= choice.level) found = i;
    }
    return found;
}

// A few recent measurements count, so that a change of the link is noticed and an outlier is not believed.
constexpr double k_weight_of_new = 0.25;

void smooth(double& average, double measured) { average += k_weight_of_new * (measured - average); }

double bytes_per_second(size_t bytes, std::chrono::nanoseconds took) {
    return static_cast<double>(bytes) / std::chrono::duration<double>(took).count();
}

// Pieces from all over the transfer, at multiples of 64 bytes so that elements stay whole.
size_t take_sample(BytesView transfer, size_t sample_bytes, std::byte* out) {
    size_t piece = sample_bytes / Policy::k_sample_pieces;
    size_t stride = (transfer.size() - piece) / (Policy::k_sample_pieces - 1) & ~size_t{63};
    for (size_t i = 0; i < Policy::k_sample_pieces; i++) std::memcpy(out + i * piece, transfer.data() + i * stride, piece);
    return piece * Policy::k_sample_pieces;
}

}  // namespace

Policy::Policy(uint32_t allowed_codecs) : m_allowed(allowed_codecs | bit(Codec::none)) {
    static_assert(std::size(k_candidates) == k_candidate_count);
    for (size_t i = 0; i < k_candidate_count; i++) m_speeds.pack[i] = k_candidates[i].assumed_bytes_per_second;
}

Choice Policy::choose(BytesView transfer) {
    const Choice plain{};
    if (transfer.size() < k_min_transfer_bytes || m_allowed == bit(Codec::none)) return plain;
    Speeds speeds;
    {
        MutexLock lock(m_mutex);
        speeds = m_speeds;
    }
    const auto size = static_cast<double>(transfer.size());
    const double plain_seconds = size / speeds.link;
    double sampling_seconds_left = plain_seconds * k_sampling_share;

    size_t sample_bytes = std::clamp<size_t>(transfer.size() / 16, 1024, k_max_sample_bytes) & ~size_t{255};
    std::array<std::byte, k_max_sample_bytes> sample;
    std::array<std::byte, k_max_sample_bytes + k_max_sample_bytes / 128 + 1024> packed;  // more than any codec's bound
    bool sampled = false;

    Choice best = plain;
    double best_seconds = plain_seconds * (1 - k_min_gain);
    for (size_t i = 0; i < k_candidate_count; i++) {
        const Choice& choice = k_candidates[i].choice;
        const double pack_seconds = size / speeds.pack[i];
        if ((m_allowed & bit(choice.codec)) == 0 || pack_seconds >= best_seconds) continue;
        sampling_seconds_left -= static_cast<double>(sample_bytes) / speeds.pack[i];
        if (sampling_seconds_left < 0) break;
        if (!sampled) sample_bytes = take_sample(transfer, sample_bytes, sample.data());
        sampled = true;
        Result<size_t> got = compress(choice.codec, choice.level, {sample.data(), sample_bytes}, packed);
        if (!got.ok()) continue;
        const double ratio = static_cast<double>(*got) / static_cast<double>(sample_bytes);
        const double seconds = std::max(pack_seconds, plain_seconds * ratio);
        if (seconds < best_seconds) {
            best = choice;
            best_seconds = seconds;
        }
    }
    return best;
}

void Policy::record_link(size_t wire_bytes, std::chrono::nanoseconds took) {
    if (took.count() <= 0 || wire_bytes == 0) return;
    MutexLock lock(m_mutex);
    smooth(m_speeds.link, bytes_per_second(wire_bytes, took));
}

void Policy::record_pack(Choice choice, size_t raw_bytes, std::chrono::nanoseconds took) {
    size_t index = index_of(choice);
    if (took.count() <= 0 || raw_bytes == 0 || index == k_candidate_count) return;
    MutexLock lock(m_mutex);
    smooth(m_speeds.pack[index], bytes_per_second(raw_bytes, took));
}

double Policy::link_bytes_per_second() const {
    MutexLock lock(m_mutex);
    return m_speeds.link;
}

double Policy::pack_bytes_per_second(Choice choice) const {
    size_t index = index_of(choice);
    if (index == k_candidate_count) return 0;
    MutexLock lock(m_mutex);
    return m_speeds.pack[index];
}

}  // namespace warpline::compress
