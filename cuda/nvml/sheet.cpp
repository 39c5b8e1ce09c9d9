// Answers one behind the other.
#include "cuda/nvml/sheet.h"

#include <cstring>

#include "cuda/nvml/types.h"

namespace warpline::cuda::nvml {

namespace {

constexpr size_t k_head_bytes = 4;
constexpr uint8_t k_unknown_byte = 255;

}  // namespace

bool SheetWriter::add(uint16_t question, int result, BytesView value) {
    if (result != k_success) value = {};
    if (value.size() > 255 || m_bytes.size() + k_head_bytes + value.size() > k_most_bytes) return false;
    const auto small = result >= 0 && result < k_unknown_byte ? static_cast<uint8_t>(result) : k_unknown_byte;
    const uint8_t head[k_head_bytes] = {static_cast<uint8_t>(question & 0xff), static_cast<uint8_t>(question >> 8), small,
                                        static_cast<uint8_t>(value.size())};
    const auto* bytes = reinterpret_cast<const std::byte*>(head);
    m_bytes.insert(m_bytes.end(), bytes, bytes + k_head_bytes);
    m_bytes.insert(m_bytes.end(), value.begin(), value.end());
    return true;
}

std::optional<Answer> find_answer(BytesView sheet, uint16_t question) {
    while (sheet.size() >= k_head_bytes) {
        const auto at = [&sheet](size_t i) { return static_cast<uint8_t>(sheet[i]); };
        const size_t length = at(3);
        if (length > sheet.size() - k_head_bytes) return std::nullopt;
        if ((at(0) | at(1) << 8) == question)
            return Answer{at(2) == k_unknown_byte ? int{k_unknown} : int{at(2)}, sheet.subspan(k_head_bytes, length)};
        sheet = sheet.subspan(k_head_bytes + length);
    }
    return std::nullopt;
}

}  // namespace warpline::cuda::nvml
