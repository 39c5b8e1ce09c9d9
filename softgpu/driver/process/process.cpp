// Makes the devices, once, and knows when the process is the child of a fork.
#include "softgpu/driver/process/process.h"

#include <pthread.h>

#include <cstring>

#include "common/log/log.h"
#include "softgpu/driver/device/visible_slots.h"

namespace warpline::softgpu::driver {

Process& Process::instance() {
    static auto* process = new Process;  // leaked on purpose, see the class
    return *process;
}

void Process::on_fork_child() {
    // The child has none of the threads that execute work; CUDA says that it cannot use the driver of its parent.
    Process& self = instance();
    if (self.m_state.load() == State::ready) self.m_state.store(State::forked);
}

CUresult Process::initialise(unsigned int flags, void (*furnish)(Process& self)) {
    if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
    MutexLock lock(m_init_mutex);
    if (m_state.load() == State::ready) return CUDA_SUCCESS;
    if (m_state.load() == State::forked) return CUDA_ERROR_NOT_INITIALIZED;
    m_config = read_config();
    if (!m_config.unknown_check.empty()) {
        WL_LOG(error, "softgpu", "SOFTGPU_CHECK: there is no check '{}'; there are memory, race, init and leak",
               m_config.unknown_check);
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (!m_config.profile_mistake.empty()) {
        WL_LOG(error, "softgpu", "SOFTGPU_PROFILE: {}", m_config.profile_mistake);
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (m_config.checks != 0) {
        m_checker = std::make_unique<check::Checker>(m_config.checks);
        ranges.set_checker(m_checker.get());
    }
    const size_t visible = visible_slots(m_config).size();
    if (visible == 0) return CUDA_ERROR_NO_DEVICE;
    for (size_t ordinal = 0; ordinal < visible; ++ordinal) {
        auto device = std::make_unique<Device>(static_cast<int>(ordinal), m_config, ranges, m_checker.get());
        if (!device->open_exclusive()) return CUDA_ERROR_OPERATING_SYSTEM;
        m_devices.push_back(std::move(device));
    }
    furnish(*this);
    pthread_atfork(nullptr, nullptr, &on_fork_child);
    m_state.store(State::ready, std::memory_order_release);
    return CUDA_SUCCESS;
}

Device* Process::device(int ordinal) const {
    if (ordinal < 0 || ordinal >= device_count()) return nullptr;
    return m_devices[static_cast<size_t>(ordinal)].get();
}

Device* Process::device(const CUuuid& uuid) const {
    for (const auto& device : m_devices) {
        if (std::memcmp(&device->uuid(), &uuid, sizeof(CUuuid)) == 0) return device.get();
    }
    return nullptr;
}

CUresult find_device(CUdevice ordinal, Device*& device) {
    device = process().device(ordinal);
    return device != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

}  // namespace warpline::softgpu::driver
