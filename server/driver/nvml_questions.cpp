// Asking NVML what the description of it lists.
#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "cuda/nvml/questions.h"
#include "cuda/nvml/types.h"
#include "server/driver/nvml.h"

namespace warpline::server {

namespace {

namespace nvml = cuda::nvml;

/// Every function that is asked has integers and pointers only, fewer than these; who has fewer does not look at the others.
using AnyFunction = int (*)(uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t);
constexpr size_t k_most_arguments = 8;

/// Of a text, with its end.
constexpr size_t k_text_bytes = 96;

uintptr_t address_of(void* pointer) { return reinterpret_cast<uintptr_t>(pointer); }

Bytes text_value(const char* text) {
    const auto* bytes = reinterpret_cast<const std::byte*>(text);
    return {bytes, bytes + strnlen(text, k_text_bytes)};
}

using ListProcesses = int (*)(void*, unsigned*, nvml::ProcessInfo*);

/// All of them, workers and strangers; none: NVML does not say, or there are more than anybody has.
std::vector<nvml::ProcessInfo> list_processes(ListProcesses function, void* device) {
    constexpr size_t k_most = 4096;
    for (size_t room = k_max_device_processes;;) {
        std::vector<nvml::ProcessInfo> processes(room);
        auto count = static_cast<unsigned>(room);
        const int result = function(device, &count, processes.data());
        processes.resize(std::min<size_t>(count, room));
        if (result == nvml::k_success) return processes;
        if (result != nvml::k_insufficient_size || room == k_most) return {};
        room = std::min(std::max<size_t>(count, room) * 2, k_most);  // they may have become more by then
    }
}

/// 0: not known.
pid_t parent_of(uint32_t pid) {
    std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
    std::string line;
    std::getline(file, line);
    const size_t name_end = line.rfind(')');  // the name may have spaces and parentheses
    int parent = 0;
    if (name_end == std::string::npos || std::sscanf(line.c_str() + name_end, ") %*c %d", &parent) != 1) return 0;
    return parent;
}

}  // namespace

std::pair<int, Bytes> Nvml::ask(size_t place, void* device, void* other) const {
    const nvml::Question& question = nvml::questions()[place];
    if (m_questions[place] == nullptr) return {nvml::k_not_supported, {}};
    std::array<uintptr_t, k_most_arguments> arguments{};
    size_t count = 0;
    if (question.kind != nvml::QuestionKind::system) arguments[count++] = address_of(device);
    if (question.kind == nvml::QuestionKind::pair) arguments[count++] = address_of(other);
    for (size_t i = 0; i < question.inputs; ++i) arguments[count++] = question.input[i];
    alignas(8) std::byte outputs[nvml::k_most_outputs][256] = {};
    char text[k_text_bytes] = {};
    if (question.text) {
        arguments[count++] = address_of(text);
        arguments[count++] = sizeof text;
    }
    for (size_t i = 0; i < question.outputs && !question.text; ++i) arguments[count++] = address_of(outputs[i]);
    const uint32_t tag = nvml::version_tag(question.version, question.output_bytes[0]);
    if (question.version != 0) std::memcpy(outputs[0], &tag, sizeof tag);
    const auto function = reinterpret_cast<AnyFunction>(m_questions[place]);
    const int result = function(arguments[0], arguments[1], arguments[2], arguments[3], arguments[4], arguments[5],
                                arguments[6], arguments[7]);
    if (result != nvml::k_success) return {result, {}};
    if (question.text) return {result, text_value(text)};
    Bytes value;
    for (size_t i = 0; i < question.outputs; ++i) value.insert(value.end(), outputs[i], outputs[i] + question.output_bytes[i]);
    return {result, value};
}

std::pair<int, Bytes> Nvml::ask_once(size_t place, void* device, Kept& kept) const {
    if (!nvml::questions()[place].once) return ask(place, device, nullptr);
    const auto found = kept.find(place);
    if (found != kept.end()) return found->second;
    auto answer = ask(place, device, nullptr);
    // Other errors pass: a device that is reset, a driver that is being loaded.
    if (answer.first == nvml::k_success || answer.first == nvml::k_not_supported) kept.emplace(place, answer);
    return answer;
}

void Nvml::add_pairs(const ReadyMessage& offer, void* device, nvml::SheetWriter& sheet) const {
    const auto questions = nvml::questions();
    for (uint32_t i = 0; i < std::min<uint32_t>(offer.device_count, k_max_devices); ++i) {
        void* other = find(offer.devices[i]).device;
        if (other == nullptr) continue;
        for (size_t place = 0; place < questions.size(); ++place) {
            if (questions[place].kind != nvml::QuestionKind::pair) continue;
            const auto [result, value] = ask(place, device, other);
            sheet.add(static_cast<uint16_t>(questions[place].id + i), result, value);
        }
    }
}

/// All fields and pairs of a device that cannot be asked.
void Nvml::add_refusals(const ReadyMessage& offer, int result, nvml::SheetWriter& sheet) {
    for (const uint32_t field : nvml::fields()) sheet.add(nvml::field_id(field), result);
    for (const nvml::Question& question : nvml::questions()) {
        if (question.kind != nvml::QuestionKind::pair) continue;
        for (uint32_t i = 0; i < std::min<uint32_t>(offer.device_count, k_max_devices); ++i)
            sheet.add(static_cast<uint16_t>(question.id + i), result);
    }
}

void Nvml::add_fields(void* device, nvml::SheetWriter& sheet) const {
    const auto function =
        reinterpret_cast<int (*)(void*, int, nvml::FieldValue*)>(dlsym(m_library, "nvmlDeviceGetFieldValues"));
    if (function == nullptr) return;
    std::vector<nvml::FieldValue> values;
    for (const uint32_t field : nvml::fields()) {
        nvml::FieldValue value{};
        value.field = field;
        value.result = nvml::k_not_supported;
        values.push_back(value);
    }
    if (function(device, static_cast<int>(values.size()), values.data()) != nvml::k_success) return;
    for (const nvml::FieldValue& value : values) {
        std::byte bytes[sizeof value.type + sizeof value.value];
        std::memcpy(bytes, &value.type, sizeof value.type);
        std::memcpy(bytes + sizeof value.type, &value.value, sizeof value.value);
        sheet.add(nvml::field_id(value.field), value.result, bytes);
    }
}

void Nvml::add_processes(void* device, SheetMessage& message) const {
    auto function = reinterpret_cast<ListProcesses>(dlsym(m_library, "nvmlDeviceGetComputeRunningProcesses_v3"));
    if (function == nullptr)
        function = reinterpret_cast<ListProcesses>(dlsym(m_library, "nvmlDeviceGetComputeRunningProcesses_v2"));
    if (function == nullptr) return;
    auto processes = list_processes(function, device);
    // Only workers are told of in the end, who are the supervisor's children, as we are.
    const auto is_worker = [supervisor = getppid()](const nvml::ProcessInfo& process) {
        return parent_of(process.pid) == supervisor;
    };
    if (processes.size() > std::size(message.processes)) std::stable_partition(processes.begin(), processes.end(), is_worker);
    message.process_count = static_cast<uint32_t>(std::min(processes.size(), std::size(message.processes)));
    for (uint32_t i = 0; i < message.process_count; ++i) message.processes[i] = {processes[i].pid, 0, processes[i].used_bytes};
}

}  // namespace warpline::server
