// Choosing codecs by what they save.
#include "compress/policy.h"

#include <algorithm>

namespace warpline::compress {

namespace {

struct Candidate {
    Choice choice;
    double pack_ns;    // a byte, until measured: compress_bench on one core of a 2023 server
    double unpack_ns;  // the other side's, which is not measured
};

constexpr Candidate k_candidates[] = {
    {{Codec::group2, 0}, 0.7, 0.4}, {{Codec::group4, 0}, 0.8, 0.3}, {{Codec::group8, 0}, 1.0, 0.4},
    {{Codec::lz4, 0}, 2.0, 0.4},    {{Codec::zstd, 1}, 3.6, 0.8},   {{Codec::zstd, 6}, 11.0, 0.9},
};

// A constant, as zstd packs it: reading it twice, and writing it at the other end.
constexpr Choice k_for_constants{Codec::zstd, 1};
constexpr double k_constant_ns = 0.2;

// Encrypting and sending a byte, and as much again for who receives it, who may share the processors.
constexpr double k_plain_ns = 1.5;

// A few recent measurements count, so that a change is noticed and an outlier is not believed.
constexpr double k_weight_of_new = 0.25;
constexpr double k_clearly = 0.99;  // samples do not tell smaller differences
constexpr double k_forgetting = 0.02;
constexpr double k_assumed_sample_seconds = 60e-6;
constexpr double k_most_samples_ahead = 4;  // of budget that is saved

void smooth(double& average, double measured) { average += k_weight_of_new * (measured - average); }

size_t index_of(Choice choice) {
    size_t found = std::size(k_candidates);
    for (size_t i = 0; i < std::size(k_candidates); ++i)
        if (k_candidates[i].choice == choice) found = i;
    return found;
}

}  // namespace

Policy::Policy() : m_sample_seconds(k_assumed_sample_seconds), m_budget_seconds(k_assumed_sample_seconds) {
    static_assert(std::size(k_candidates) == k_candidate_count);
    for (size_t i = 0; i < k_candidate_count; ++i) m_pack_ns[i] = k_candidates[i].pack_ns;
}

Choice Policy::choose(BytesView chunk, double link_bytes_per_second, CodecSet allowed) {
    if (chunk.size() < k_least_bytes || allowed == 0) return {};
    const double link_ns = link_bytes_per_second > 0 ? 1e9 / link_bytes_per_second : 0;
    m_was_constant = false;
    const bool is_fast = link_ns > 0 && link_ns * (1 - k_least_gain) <= k_constant_ns;
    if (is_fast) return {};
    if ((allowed & bit(k_for_constants.codec)) && is_constant(chunk)) {
        m_was_constant = true;
        return k_for_constants;
    }
    // A link this fast is as fast as processors are, and may look slow only because others have those; or not even the fastest
    // codec would do.
    if (link_bytes_per_second > k_fastest_link) return m_last = {};
    if (link_ns * (1 - k_least_gain) <= *std::min_element(m_pack_ns.begin(), m_pack_ns.end())) return m_last = {};

    m_budget_seconds += k_sampling_share * link_ns * 1e-9 * static_cast<double>(chunk.size());
    m_budget_seconds = std::min(m_budget_seconds, k_most_samples_ahead * m_sample_seconds);
    if (m_budget_seconds < m_sample_seconds) return m_last;
    const auto begin = std::chrono::steady_clock::now();
    m_last = best_of(Sample(chunk), link_ns, allowed);
    // A codec that was slow while others had the processor is not slow for ever.
    for (size_t i = 0; i < k_candidate_count; ++i)
        if (k_candidates[i].choice != m_last) m_pack_ns[i] += k_forgetting * (k_candidates[i].pack_ns - m_pack_ns[i]);
    const double took = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    m_budget_seconds -= took;
    smooth(m_sample_seconds, took);
    return m_last;
}

Choice Policy::best_of(const Sample& sample, double link_ns, CodecSet allowed) const {
    const double repeated = sample.repeated_ratio();
    Choice best;
    double least_ns = link_ns * (1 - k_least_gain);
    for (size_t i = 0; i < k_candidate_count; ++i) {
        const Choice& choice = k_candidates[i].choice;
        if ((allowed & bit(choice.codec)) == 0 || m_pack_ns[i] >= least_ns) continue;
        const double ns = cost(i, estimated_ratio(sample, i, repeated), link_ns);
        if (ns >= least_ns) continue;
        best = choice;
        least_ns = ns * k_clearly;
    }
    return best;
}

double Policy::expected_share(const Sample& sample, double link_bytes_per_second, CodecSet allowed) {
    if (link_bytes_per_second <= 0 || link_bytes_per_second > k_fastest_link) return 1;
    const Choice choice = Policy().best_of(sample, 1e9 / link_bytes_per_second, allowed);
    const size_t index = index_of(choice);
    return index == k_candidate_count ? 1 : std::min(estimated_ratio(sample, index, sample.repeated_ratio()), 1.0);
}

double Policy::estimated_ratio(const Sample& sample, size_t candidate, double repeated) {
    // zstd sees further than a sample does, and codes what LZ4 leaves.
    constexpr double k_zstd_by_lz4 = 0.75, k_zstd6_by_lz4 = 0.70;
    const Choice& choice = k_candidates[candidate].choice;
    switch (choice.codec) {
        case Codec::lz4: return repeated;
        case Codec::zstd:
            if (repeated > 0.97) return sample.grouped_ratio(1);
            return std::min(sample.grouped_ratio(1), repeated * (choice.level > 1 ? k_zstd6_by_lz4 : k_zstd_by_lz4));
        case Codec::group2: return sample.grouped_ratio(2);
        case Codec::group4: return sample.grouped_ratio(4);
        case Codec::group8: return sample.grouped_ratio(8);
        case Codec::none: break;
    }
    return 1;
}

double Policy::cost(size_t candidate, double ratio, double link_ns) const {
    const double on_link = ratio * link_ns;
    const double in_processors = m_pack_ns[candidate] + k_candidates[candidate].unpack_ns + ratio * k_plain_ns / 2;
    const double busy_anyway = std::min(k_plain_ns / link_ns, 1.0);
    return std::max(on_link, in_processors) + busy_anyway * std::min(on_link, in_processors);
}

void Policy::record(Choice choice, size_t raw_bytes, size_t packed_bytes, std::chrono::nanoseconds took) {
    if (took.count() <= 0 || raw_bytes == 0 || m_was_constant) return;  // those say nothing about other data
    // What gets no smaller is not tried again before another sample says so.
    if (static_cast<double>(packed_bytes) > static_cast<double>(raw_bytes) * (1 - k_least_gain)) m_last = {};
    const size_t index = index_of(choice);
    if (index == k_candidate_count) return;
    smooth(m_pack_ns[index], static_cast<double>(took.count()) / static_cast<double>(raw_bytes));
}

double Policy::pack_bytes_per_second(Choice choice) const {
    const size_t index = index_of(choice);
    return index == k_candidate_count ? 0 : 1e9 / m_pack_ns[index];
}

}  // namespace warpline::compress
