// Counting device memory, and refusing what is beyond the limit.
#include "server/objects/memory_ledger.h"

#include <algorithm>

#include "common/log/log.h"

namespace warpline::server {

namespace {

/// A program that asks again and again fills no log.
constexpr std::chrono::seconds k_tell_every{1};

}  // namespace

MemoryLimit MemoryLimit::smaller_of(uint64_t of_client, uint64_t of_server) {
    const bool server_decides = of_server != 0 && (of_client == 0 || of_server < of_client);
    return {server_decides ? of_server : of_client, server_decides};
}

MemoryLedger::MemoryLedger(const Driver& driver, const std::vector<DeviceSnapshot>& devices, SessionCounters& counters,
                           MemoryLimit limit)
    : m_driver(driver), m_devices(devices), m_counters(counters), m_limit(limit), m_accounts(devices.size()) {}

bool MemoryLedger::fits(CUdevice device, uint64_t bytes, uint64_t graphs) const {
    if (m_limit.bytes == 0) return true;
    const uint64_t used = m_accounts[static_cast<size_t>(device)].used + graphs;
    return used <= m_limit.bytes && bytes <= m_limit.bytes - used;
}

bool MemoryLedger::try_twice(CUdevice device, FunctionRef<bool(uint64_t)> attempt) const {
    const uint64_t graphs = reserved(device);
    return attempt(graphs) || (trim(device, graphs) && attempt(reserved(device)));
}

CUresult MemoryLedger::take(CUdevice device, uint64_t bytes, MemoryChargePtr& charge, Refusal refusal) {
    if (!knows(device)) return CUDA_ERROR_INVALID_DEVICE;
    const bool taken = try_twice(device, [&](uint64_t graphs) {
        MutexLock lock(m_mutex);
        if (!fits(device, bytes, graphs)) return false;
        change(device, &Account::used, bytes);
        return true;
    });
    if (!taken) {
        if (refusal == Refusal::told) tell(device, bytes);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    charge = std::make_shared<const MemoryCharge>(*this, device, bytes, false);
    return CUDA_SUCCESS;
}

CUresult MemoryLedger::check_graphs_take(CUdevice device, uint64_t bytes, Refusal refusal) {
    if (!knows(device)) return CUDA_ERROR_INVALID_DEVICE;
    const bool can = try_twice(device, [&](uint64_t graphs) {
        MutexLock lock(m_mutex);
        return fits(device, bytes, graphs);
    });
    if (can) return CUDA_SUCCESS;
    if (refusal == Refusal::told) tell(device, bytes);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult MemoryLedger::check_graphs_have(CUdevice device, FunctionRef<uint64_t()> bytes) {
    if (!knows(device)) return CUDA_ERROR_INVALID_DEVICE;
    uint64_t wanted = 0;
    const bool can = try_twice(device, [&](uint64_t graphs) {
        wanted = bytes();
        if (wanted <= graphs) return true;
        MutexLock lock(m_mutex);
        return fits(device, wanted - graphs, graphs);
    });
    if (can) return CUDA_SUCCESS;
    tell(device, wanted);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

MemoryChargePtr MemoryLedger::borrow(CUdevice device, uint64_t bytes) {
    if (!knows(device)) return nullptr;
    {
        MutexLock lock(m_mutex);
        change(device, &Account::borrowed, bytes);
    }
    return std::make_shared<const MemoryCharge>(*this, device, bytes, true);
}

void MemoryLedger::give_back(CUdevice device, uint64_t bytes, bool borrowed) {
    MutexLock lock(m_mutex);
    change(device, borrowed ? &Account::borrowed : &Account::used, 0 - bytes);
}

void MemoryLedger::change(CUdevice device, uint64_t Account::*field, uint64_t bytes) {
    m_accounts[static_cast<size_t>(device)].*field += bytes;
    m_counters.device_bytes.fetch_add(bytes, std::memory_order_relaxed);
}

uint64_t MemoryLedger::used(CUdevice device) const {
    if (!knows(device)) return 0;
    const uint64_t graphs = reserved(device);
    MutexLock lock(m_mutex);
    return m_accounts[static_cast<size_t>(device)].used + graphs;
}

uint64_t MemoryLedger::left(CUdevice device) const {
    return m_limit.bytes == 0 ? UINT64_MAX : m_limit.bytes - std::min(used(device), m_limit.bytes);
}

void MemoryLedger::narrow(CUdevice device, uint64_t& free_bytes, uint64_t& total_bytes) const {
    if (m_limit.bytes == 0) return;
    total_bytes = std::min(total_bytes, m_limit.bytes);
    free_bytes = std::min(free_bytes, left(device));
}

uint64_t MemoryLedger::reserved(CUdevice device) const {
    if (m_limit.bytes == 0 || !do_graphs_allocate() || m_driver->cuDeviceGetGraphMemAttribute == nullptr) return 0;
    cuuint64_t bytes = 0;
    const CUresult result = m_driver->cuDeviceGetGraphMemAttribute(m_devices[static_cast<size_t>(device)].driver_device,
                                                                   CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT, &bytes);
    return result == CUDA_SUCCESS ? bytes : 0;
}

bool MemoryLedger::trim(CUdevice device, uint64_t reserved_bytes) const {
    if (reserved_bytes == 0 || m_driver->cuDeviceGraphMemTrim == nullptr) return false;
    m_driver->cuDeviceGraphMemTrim(m_devices[static_cast<size_t>(device)].driver_device);
    return reserved(device) < reserved_bytes;
}

void MemoryLedger::tell(CUdevice device, uint64_t bytes) {
    const uint64_t has = used(device);
    uint64_t untold = 0;
    {
        MutexLock lock(m_mutex);
        const auto now = std::chrono::steady_clock::now();
        if (m_told != std::chrono::steady_clock::time_point{} && now - m_told < k_tell_every) {
            ++m_untold;
            return;
        }
        m_told = now;
        untold = std::exchange(m_untold, 0);
    }
    const std::string others = untold == 0 ? "" : log::format(" ({} refusals before this one were not told)", untold);
    WL_LOG(warn, "memory",
           "the program asks for {} bytes of device {}, and has {} of the {} that {}: CUDA_ERROR_OUT_OF_MEMORY{}", bytes,
           device, has, m_limit.bytes, m_limit.of_server ? "sessions may have here (session_memory)" : "it may have (memory)",
           others);
}

}  // namespace warpline::server
