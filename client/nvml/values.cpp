// Exported functions: values that need more than a question's answer.
#include <cstring>
#include <iterator>

#include "client/nvml/answer.h"
#include "client/nvml/export.h"
#include "cuda/nvml/questions.h"

namespace abi = warpline::cuda::nvml;
using namespace warpline::client::nvml;

WL_NVML int nvmlDeviceGetTemperature(void* device, uint32_t sensor, uint32_t* degrees);
WL_NVML int nvmlDeviceGetTopologyCommonAncestor(void* device, void* other, uint32_t* level);
WL_NVML int nvmlDeviceGetNvLinkRemotePciInfo_v2(void* device, uint32_t link, void* info);
WL_NVML int nvmlDeviceGetMultiGpuBoard(void* device, uint32_t* is_multi);
WL_NVML int nvmlDeviceGetBoardId(void* device, uint32_t* id);

WL_NVML int nvmlDeviceGetTemperatureV(void* device, abi::Temperature* out) {
    Known known;
    if (const int result = find_device(device, Age::any, known); result != abi::k_success) return result;
    if (out == nullptr) return abi::k_invalid_argument;
    if (out->version != abi::version_tag<abi::Temperature>(1)) return abi::k_argument_version_mismatch;
    uint32_t degrees = 0;
    const int result = nvmlDeviceGetTemperature(device, out->sensor, &degrees);
    if (result == abi::k_success) out->degrees = static_cast<int32_t>(degrees);
    return result;
}

/// No display of this machine hangs on a server's GPU.
WL_NVML int nvmlDeviceGetDisplayActive(void* device, uint32_t* is_active) {
    Known known;
    if (const int result = find_device(device, Age::any, known); result != abi::k_success) return result;
    if (is_active == nullptr) return abi::k_invalid_argument;
    *is_active = 0;
    return abi::k_success;
}
WL_NVML int nvmlDeviceGetDisplayMode(void* device, uint32_t* display) { return nvmlDeviceGetDisplayActive(device, display); }
/// What the driver would note of processes is noted by nobody here.
WL_NVML int nvmlDeviceGetAccountingMode(void* device, uint32_t* mode) { return nvmlDeviceGetDisplayActive(device, mode); }

WL_NVML int nvmlDeviceGetFieldValues(void* device, int count, abi::FieldValue* values) {
    Known known;
    if (const int result = find_device(device, Age::now, known); result != abi::k_success) return result;
    if (count < 0 || (count > 0 && values == nullptr)) return abi::k_invalid_argument;
    for (int i = 0; i < count; ++i) {
        abi::FieldValue& value = values[i];
        value.timestamp_us = static_cast<int64_t>(known.snapshot->taken_at_us);
        value.latency_us = 0;
        const auto found = value.field < 1000 && value.scope == 0 ? answer_to(known, abi::field_id(value.field)) : std::nullopt;
        value.result = found ? found->result : static_cast<int>(abi::k_not_supported);
        if (value.result != abi::k_success) continue;
        if (!warpline::read_at(found->value, 0, value.type) || !warpline::read_at(found->value, sizeof value.type, value.value))
            value.result = abi::k_unknown;
    }
    return abi::k_success;
}

/// There is one sample: that of now, as of a buffer that is looked at as often as it is filled. Servers keep none.
WL_NVML int nvmlDeviceGetSamples(void* device, uint32_t type, uint64_t last_seen_us, uint32_t* value_type, uint32_t* count,
                                 abi::Sample* samples) {
    // Questions of cuda/nvml/calls.yaml, and which of their outputs it is.
    struct Row {
        uint16_t question;
        size_t offset;
    };
    constexpr Row k_rows[] = {{105, 0}, {100, 0}, {100, 4}, {123, 0}, {124, 0}, {111, 0}, {112, 0}, {0, 0}, {125, 0}, {126, 0}};
    Known known;
    if (const int result = find_device(device, Age::now, known); result != abi::k_success) return result;
    if (type >= std::size(k_rows) || value_type == nullptr || count == nullptr) return abi::k_invalid_argument;
    if (samples != nullptr && *count == 0) return abi::k_invalid_argument;
    const auto found = answer_to(known, k_rows[type].question);
    uint32_t value = 0;
    if (!found) return abi::k_not_supported;
    if (found->result != abi::k_success) return found->result;
    if (!warpline::read_at(found->value, k_rows[type].offset, value)) return abi::k_unknown;
    const uint64_t taken_us = known.snapshot->taken_at_us;
    *value_type = abi::k_unsigned_int;
    *count = 1;
    if (samples == nullptr) return abi::k_success;
    if (taken_us <= last_seen_us) return abi::k_not_found;
    samples[0] = {taken_us, value};
    return abi::k_success;
}

/// Metrics of GPM are read from buffers of the driver's, which are not here.
WL_NVML int nvmlGpmQueryDeviceSupport(void* device, abi::GpmSupport* out) {
    Known known;
    if (const int result = find_device(device, Age::any, known); result != abi::k_success) return result;
    if (out == nullptr) return abi::k_invalid_argument;
    if (out->version != 1) return abi::k_argument_version_mismatch;  // of this struct without its size
    out->is_supported = 0;
    return abi::k_success;
}

WL_NVML int nvmlDeviceOnSameBoard(void* device, void* other, int* same) {
    uint32_t boards[2] = {}, is_multi = 0;
    Known known;
    if (const int result = find_device(other, Age::any, known); result != abi::k_success) return result;
    if (const int result = nvmlDeviceGetMultiGpuBoard(device, &is_multi); result != abi::k_success) return result;
    if (const int result = nvmlDeviceGetBoardId(device, &boards[0]); result != abi::k_success) return result;
    if (const int result = nvmlDeviceGetBoardId(other, &boards[1]); result != abi::k_success) return result;
    if (same == nullptr) return abi::k_invalid_argument;
    *same = is_multi != 0 && boards[0] == boards[1] ? 1 : 0;
    return abi::k_success;
}

/// `count` is the room, and then how many are there; without room, how many there are.
WL_NVML int nvmlDeviceGetTopologyNearestGpus(void* device, uint32_t level, uint32_t* count, void** devices) {
    constexpr uint32_t k_farthest = 50, k_step = 10;  // NVML_TOPOLOGY_SYSTEM, and between the levels
    Known known;
    if (const int result = find_device(device, Age::any, known); result != abi::k_success) return result;
    if (count == nullptr || level > k_farthest || level % k_step != 0) return abi::k_invalid_argument;
    const uint32_t room = *count;
    if (room > 0 && devices == nullptr) return abi::k_invalid_argument;
    uint32_t found = 0;
    int problem = abi::k_success;
    for (size_t i = 0; i < known.snapshot->devices().size(); ++i) {
        uint32_t common = 0;
        if (i == known.index) continue;
        const int result = nvmlDeviceGetTopologyCommonAncestor(device, handle_of(i), &common);
        if (result != abi::k_success) problem = result;
        if (result != abi::k_success || common != level) continue;
        if (found < room) devices[found] = handle_of(i);
        ++found;
        if (found == room) break;
    }
    // That there are none is not known.
    if (found == 0 && problem != abi::k_success) return problem;
    *count = found;
    return abi::k_success;
}

/// The older form of the struct, which ends where the newer one has the longer name of the bus.
WL_NVML int nvmlDeviceGetNvLinkRemotePciInfo(void* device, uint32_t link, abi::PciInfoV2* out) {
    abi::PciInfo info{};
    if (const int result = nvmlDeviceGetNvLinkRemotePciInfo_v2(device, link, &info); result != abi::k_success) return result;
    if (out == nullptr) return abi::k_invalid_argument;
    *out = {};
    std::memcpy(out, &info, offsetof(abi::PciInfo, bus_id));
    return abi::k_success;
}
