// Exported functions: the programs of this machine that use a device. Those of other machines, and of other tenants, are not
// told.
#include <unistd.h>

#include <vector>

#include "client/nvml/answer.h"
#include "client/nvml/export.h"

namespace abi = warpline::cuda::nvml;
using namespace warpline::client::nvml;

namespace {

std::vector<warpline::protocol::DeviceProcess> processes_here(const Known& device) {
    char name[256] = {};
    if (::gethostname(name, sizeof name - 1) != 0) return {};
    std::vector<warpline::protocol::DeviceProcess> processes;
    for (const auto& process : device.sheet().processes) {
        if (process.host == name) processes.push_back(process);
    }
    return processes;
}

void write_process(const warpline::protocol::DeviceProcess& process, abi::ProcessInfoV1& out) {
    out = {process.pid, process.bytes};
}
void write_process(const warpline::protocol::DeviceProcess& process, abi::ProcessInfo& out) {
    out = {process.pid, process.bytes, abi::k_no_instance, abi::k_no_instance};
}

void write_process(const warpline::protocol::DeviceProcess& process, abi::ProcessDetail& out) {
    out = {process.pid, process.bytes, abi::k_no_instance, abi::k_no_instance, 0};
}

/// As all of them: `count` is the room, and then how many there are.
template <typename Info>
int list(void* device, uint32_t* count, Info* infos) noexcept {
    try {
        Known known;
        if (const int result = find_device(device, Age::now, known); result != abi::k_success) return result;
        if (count == nullptr) return abi::k_invalid_argument;
        const auto processes = processes_here(known);
        const uint32_t room = *count;
        *count = static_cast<uint32_t>(processes.size());
        if (processes.size() > room) return abi::k_insufficient_size;
        if (!processes.empty() && infos == nullptr) return abi::k_invalid_argument;
        for (size_t i = 0; i < processes.size(); ++i) write_process(processes[i], infos[i]);
        return abi::k_success;
    } catch (...) {
        return abi::k_memory;
    }
}

/// Nobody draws on a server's GPU, and MPS' clients are told as those who compute.
int none(void* device, uint32_t* count) noexcept {
    Known known;
    if (const int result = find_device(device, Age::any, known); result != abi::k_success) return result;
    if (count == nullptr) return abi::k_invalid_argument;
    *count = 0;
    return abi::k_success;
}

}  // namespace

WL_NVML int nvmlDeviceGetComputeRunningProcesses(void* device, uint32_t* count, abi::ProcessInfoV1* infos) {
    return list(device, count, infos);
}
WL_NVML int nvmlDeviceGetComputeRunningProcesses_v2(void* device, uint32_t* count, abi::ProcessInfo* infos) {
    return list(device, count, infos);
}
WL_NVML int nvmlDeviceGetComputeRunningProcesses_v3(void* device, uint32_t* count, abi::ProcessInfo* infos) {
    return list(device, count, infos);
}
WL_NVML int nvmlDeviceGetGraphicsRunningProcesses(void* device, uint32_t* count, void*) { return none(device, count); }
WL_NVML int nvmlDeviceGetGraphicsRunningProcesses_v2(void* device, uint32_t* count, void*) { return none(device, count); }
WL_NVML int nvmlDeviceGetGraphicsRunningProcesses_v3(void* device, uint32_t* count, void*) { return none(device, count); }
WL_NVML int nvmlDeviceGetMPSComputeRunningProcesses(void* device, uint32_t* count, void*) { return none(device, count); }
WL_NVML int nvmlDeviceGetMPSComputeRunningProcesses_v2(void* device, uint32_t* count, void*) { return none(device, count); }
WL_NVML int nvmlDeviceGetMPSComputeRunningProcesses_v3(void* device, uint32_t* count, void*) { return none(device, count); }

WL_NVML int nvmlDeviceGetRunningProcessDetailList(void* device, abi::ProcessDetailList* out) {
    constexpr uint32_t k_compute = 0, k_mps = 2;
    Known known;
    if (const int result = find_device(device, Age::now, known); result != abi::k_success) return result;
    if (out == nullptr) return abi::k_invalid_argument;
    if (out->version != abi::version_tag<abi::ProcessDetailList>(1)) return abi::k_argument_version_mismatch;
    if (out->mode > k_mps) return abi::k_invalid_argument;
    if (out->mode != k_compute) return none(device, &out->count);
    return list(device, &out->count, out->processes);
}
