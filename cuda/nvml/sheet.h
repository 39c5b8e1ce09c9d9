// The answers to questions, as they travel.
#pragma once

#include <cstdint>
#include <optional>

#include "common/base/bytes.h"

namespace warpline::cuda::nvml {

/// An answer: what NVML returned, and, if that is success, the outputs, one behind the other.
struct Answer {
    int result;
    BytesView value;
};

/// Writes answers: for each the question's number (u16), the return value (u8; 255: unknown), the length (u8), the bytes.
class SheetWriter {
public:
    /// False: a value is too long, or the sheet is full; it is left out then.
    bool add(uint16_t question, int result, BytesView value = {});
    const Bytes& bytes() const { return m_bytes; }

    /// What fits into a message between the processes of a server.
    static constexpr size_t k_most_bytes = 8192;

private:
    Bytes m_bytes;
};

/// Looks for an answer. Bytes that are no sheet have none.
std::optional<Answer> find_answer(BytesView sheet, uint16_t question);

}  // namespace warpline::cuda::nvml
