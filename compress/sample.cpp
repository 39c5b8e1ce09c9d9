// Samples of data, and what they tell.
#include "compress/sample.h"

#include <lz4.h>

#include <algorithm>
#include <bit>
#include <cstring>

namespace warpline::compress {

namespace {

constexpr size_t k_pieces = 4;
constexpr size_t k_word_bytes = 8;

/// Within 0.01 of log2, and ten times as fast.
double fast_log2(double value) {
    const auto bits = std::bit_cast<uint64_t>(value);
    const auto exponent = static_cast<double>(static_cast<int64_t>(bits >> 52) - 1023);
    const double x = std::bit_cast<double>((bits & 0x000fffffffffffff) | 0x3ff0000000000000) - 1;  // 0 to 1
    return exponent + x * (1.4198 - x * (0.5747 - x * 0.1549));
}

/// Bits for each of `total` bytes that occur as often as this, of an infinite source of which these are a sample: a small one
/// shows less variety than there is (Miller and Madow's correction).
double entropy_bits(const std::array<uint32_t, 256>& counts, double total) {
    double sum = 0;
    unsigned different = 0;
    for (const uint32_t count : counts) {
        if (count == 0) continue;
        ++different;
        sum += count * fast_log2(count);
    }
    constexpr double k_ln2 = 0.6931;
    return std::clamp(fast_log2(total) - sum / total + (different - 1) / (2 * k_ln2 * total), 0.0, 8.0);
}

}  // namespace

Sample::Sample(BytesView chunk) {
    // Pieces at multiples of 8 bytes, so that elements stay whole.
    const size_t wanted = std::clamp<size_t>(chunk.size() / 64, 2048, k_most_bytes);
    const size_t piece = std::min(wanted / k_pieces, chunk.size() / k_pieces) & ~(k_word_bytes - 1);
    const size_t stride = (chunk.size() - piece) / (k_pieces - 1) & ~(k_word_bytes - 1);
    for (size_t i = 0; i < k_pieces; ++i) std::memcpy(m_bytes.data() + i * piece, chunk.data() + i * stride, piece);
    m_size = piece * k_pieces;
    for (size_t i = 0; i < m_size; i += k_word_bytes)
        for (size_t place = 0; place < k_word_bytes; ++place) ++m_counts[place][static_cast<uint8_t>(m_bytes[i + place])];
}

double Sample::grouped_ratio(unsigned element_bytes) const {
    if (m_size == 0) return 1;
    double bits = 0;
    for (unsigned place = 0; place < element_bytes; ++place) {
        std::array<uint32_t, 256> counts{};
        for (unsigned same = place; same < k_word_bytes; same += element_bytes)
            for (size_t value = 0; value < counts.size(); ++value) counts[value] += m_counts[same][value];
        bits += entropy_bits(counts, static_cast<double>(m_size) / element_bytes);
    }
    return bits / (8 * element_bytes);
}

double Sample::repeated_ratio() const {
    if (m_size == 0) return 1;
    std::array<char, k_most_bytes> out;
    const int packed = LZ4_compress_fast(reinterpret_cast<const char*>(m_bytes.data()), out.data(), static_cast<int>(m_size),
                                         static_cast<int>(m_size), 1);
    return packed > 0 ? static_cast<double>(packed) / static_cast<double>(m_size) : 1;
}

bool is_constant(BytesView chunk) {
    if (chunk.size() < 2 * k_word_bytes) return false;
    // A few places first: data that only begins alike is not read to where it differs.
    constexpr size_t k_looks = 16;
    const size_t stride = (chunk.size() - k_word_bytes) / k_looks & ~(k_word_bytes - 1);
    for (size_t i = 1; i <= k_looks; ++i)
        if (std::memcmp(chunk.data(), chunk.data() + i * stride, k_word_bytes) != 0) return false;
    return std::memcmp(chunk.data(), chunk.data() + k_word_bytes, chunk.size() - k_word_bytes) == 0;
}

}  // namespace warpline::compress
