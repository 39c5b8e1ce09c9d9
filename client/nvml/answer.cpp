// From a handle to an answer.
#include "client/nvml/answer.h"

#include <algorithm>
#include <cstring>

#include "client/nvml/limit.h"
#include "common/log/log.h"
#include "cuda/nvml/questions.h"

namespace warpline::client::nvml {

namespace {

namespace abi = cuda::nvml;

constexpr size_t k_most_devices = 256;
char g_handles[k_most_devices];  // their addresses are what counts

bool has_inputs(const abi::Question& question, std::initializer_list<uint32_t> inputs) {
    return std::equal(inputs.begin(), inputs.end(), question.input, question.input + question.inputs);
}

/// Nothing: not of those that are asked.
const abi::Question* question_with(size_t first, size_t count, std::initializer_list<uint32_t> inputs) {
    for (const abi::Question& question : abi::questions().subspan(first, count)) {
        if (has_inputs(question, inputs)) return &question;
    }
    return nullptr;
}

bool can_be(const abi::Question& question, std::initializer_list<uint32_t> inputs) {
    const uint32_t* below = question.below;
    return std::all_of(inputs.begin(), inputs.end(), [&below](uint32_t input) {
        const uint32_t limit = *below++;
        return limit == 0 || input < limit;
    });
}

int give(const abi::Question& question, const abi::Answer& answer, std::initializer_list<void*> outputs, uint32_t text_bytes) {
    if (answer.result != abi::k_success) return answer.result;
    if (question.text) return give_text(as_text(answer.value), static_cast<char*>(*outputs.begin()), text_bytes);
    size_t offset = 0, place = 0;
    for (void* output : outputs) {
        const size_t bytes = question.output_bytes[place++];
        if (answer.value.size() < offset + bytes) return abi::k_unknown;
        std::memcpy(output, answer.value.data() + offset, bytes);
        offset += bytes;
    }
    return abi::k_success;
}

/// What a server without NVML answers.
int unknown_answer() { return abi::k_not_supported; }

}  // namespace

void* handle_of(size_t index) noexcept { return index < k_most_devices ? g_handles + index : nullptr; }

int find_device(void* device, Age age, Known& out) noexcept {
    if (const int result = Library::instance().snapshot(Age::any, out.snapshot); result != abi::k_success) return result;
    const auto* handle = static_cast<const char*>(device);
    if (handle < g_handles || handle >= g_handles + k_most_devices) return abi::k_invalid_argument;
    if (age != Age::any) {
        if (const int result = Library::instance().snapshot(age, out.snapshot); result != abi::k_success) return result;
    }
    out.index = static_cast<size_t>(handle - g_handles);
    return out.index < out.snapshot->devices().size() ? abi::k_success : abi::k_gpu_is_lost;
}

std::optional<abi::Answer> answer_to(const Known& device, uint16_t question) {
    return abi::find_answer(device.sheet().answers, question);
}

int give_text(std::string_view text, char* out, uint32_t length) noexcept {
    if (out == nullptr) return abi::k_invalid_argument;
    if (length <= text.size()) return abi::k_insufficient_size;
    std::memcpy(out, text.data(), text.size());
    out[text.size()] = 0;
    return abi::k_success;
}

int answer(void* device, size_t first, size_t count, std::initializer_list<uint32_t> inputs,
           std::initializer_list<void*> outputs, uint32_t text_bytes) noexcept {
    const abi::Question* question = question_with(first, count, inputs);
    Known known;
    const bool now = question != nullptr && !question->once;
    if (const int result = find_device(device, now ? Age::now : Age::answered, known); result != abi::k_success) return result;
    if (std::find(outputs.begin(), outputs.end(), nullptr) != outputs.end()) return abi::k_invalid_argument;
    if (question == nullptr) return can_be(abi::questions()[first], inputs) ? unknown_answer() : int{abi::k_invalid_argument};
    if (question->version != 0) {
        uint32_t tag = 0;
        std::memcpy(&tag, *outputs.begin(), sizeof tag);
        if (tag != abi::version_tag(question->version, question->output_bytes[0])) return abi::k_argument_version_mismatch;
    }
    const auto found = answer_to(known, question->id);
    if (!found) return unknown_answer();
    const int result = give(*question, *found, outputs, text_bytes);
    return result == abi::k_success ? show_limit(known, question->id, *outputs.begin()) : result;
}

int answer_pair(void* device, void* other, size_t first, size_t count, std::initializer_list<uint32_t> inputs,
                std::optional<uint32_t> otherwise, uint32_t* output) noexcept {
    Known known, known_other;
    if (const int result = find_device(device, Age::answered, known); result != abi::k_success) return result;
    if (const int result = find_device(other, Age::any, known_other); result != abi::k_success) return result;
    const abi::Question* question = question_with(first, count, inputs);
    if (output == nullptr || question == nullptr) return abi::k_invalid_argument;
    const auto found = answer_to(known, static_cast<uint16_t>(question->id + known_other.index));
    const int result = found ? give(*question, *found, {output}, 0) : unknown_answer();
    if (result == abi::k_success || !otherwise) return result;
    *output = *otherwise;
    return abi::k_success;
}

int refuse(const char* function, std::atomic<bool>& told) noexcept {
    SnapshotPtr snapshot;
    if (const int result = Library::instance().snapshot(Age::any, snapshot); result != abi::k_success) return result;
    if (!told.exchange(true)) {
        try {
            WL_LOG(info, "nvml", "{} is not supported: servers are not asked for it", function);
        } catch (...) {
            return abi::k_not_supported;
        }
    }
    return abi::k_not_supported;
}

}  // namespace warpline::client::nvml
