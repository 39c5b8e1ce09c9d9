// What is asked of NVML: made from calls.yaml, for the gauge that asks and for the library that answers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace warpline::cuda::nvml {

enum class QuestionKind : uint8_t {
    device,  ///< of each device
    pair,    ///< of each two devices; the number is that of `other` devices from `id` on
    system,  ///< of the machine
};

constexpr size_t k_most_inputs = 3, k_most_outputs = 4;

/// A call of NVML whose answer is one value.
struct Question {
    QuestionKind kind;
    uint16_t id;  ///< on the wire
    const char* function;
    uint8_t inputs;
    uint32_t input[k_most_inputs];
    uint32_t below[k_most_inputs];  ///< what programs may ask for is less; 0: anything
    uint8_t outputs;
    uint8_t output_bytes[k_most_outputs];
    uint8_t version;  ///< not 0: of the struct that is the output
    bool text;        ///< the output is a buffer, with its length
    bool once;        ///< the answer does not change
};

std::span<const Question> questions();

/// Those of nvmlDeviceGetFieldValues that are asked for.
std::span<const uint32_t> fields();

/// The number of a field's value on the wire.
constexpr uint16_t field_id(uint32_t field) { return static_cast<uint16_t>(2000 + field); }

}  // namespace warpline::cuda::nvml
