#include "softgpu/driver/process.h"

#include <pthread.h>

#include <cstdlib>
#include <new>

#include "common/log/log.h"
#include "softgpu/driver/array.h"
#include "softgpu/driver/checks.h"
#include "softgpu/driver/context.h"
#include "softgpu/driver/entry.h"
#include "softgpu/driver/event.h"
#include "softgpu/driver/graph_exec.h"
#include "softgpu/driver/link_state.h"
#include "softgpu/driver/memory_pool.h"
#include "softgpu/driver/module.h"
#include "softgpu/driver/physical_memory.h"
#include "softgpu/driver/stream.h"
#include "softgpu/driver/table_host.h"
#include "softgpu/driver/texture.h"
#include "softgpu/driver/visible_slots.h"

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

CUresult Process::initialise(unsigned int flags) {
    if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
    MutexLock lock(m_init_mutex);
    if (m_state.load() == State::ready) return CUDA_SUCCESS;
    if (m_state.load() == State::forked) return CUDA_ERROR_NOT_INITIALIZED;
    if (const char* specification = std::getenv("WARPLINE_LOG")) log::configure(specification);
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
        std::atexit(&report_at_exit);
    }
    const size_t visible = visible_slots(m_config).size();
    if (visible == 0) return CUDA_ERROR_NO_DEVICE;
    for (size_t ordinal = 0; ordinal < visible; ++ordinal) {
        auto device = std::make_unique<Device>(static_cast<int>(ordinal), m_config, ranges);
        if (!device->open_exclusive()) return CUDA_ERROR_OPERATING_SYSTEM;
        device->primary = std::make_shared<Context>(*device, true, CU_CTX_SCHED_AUTO);
        device->primary->set_handle(as_handle<CUcontext>(contexts.add(device->primary)));
        CUmemPoolProps properties{};
        properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
        properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, static_cast<int>(ordinal)};
        device->default_pool = std::make_shared<MemoryPool>(*device, properties, true);
        device->default_pool->set_handle(pools.add(device->default_pool));
        device->current_pool = device->default_pool->handle();
        m_devices.push_back(std::move(device));
    }
    pthread_atfork(nullptr, nullptr, &on_fork_child);
    m_state.store(State::ready, std::memory_order_release);
    return CUDA_SUCCESS;
}

Device* Process::device(int ordinal) const {
    if (ordinal < 0 || ordinal >= device_count()) return nullptr;
    return m_devices[static_cast<size_t>(ordinal)].get();
}

CUresult find_device(CUdevice ordinal, Device*& device) {
    device = process().device(ordinal);
    return device != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult check_initialised() noexcept { return process().initialised() ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED; }

CUresult result_of_exception(const char* call) noexcept {
    try {
        throw;
    } catch (const std::bad_alloc&) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    } catch (const std::exception& error) {
        WL_LOG(error, "softgpu", "{}: {}", call, error.what());
    } catch (...) {
        WL_LOG(error, "softgpu", "{}: unknown exception", call);
    }
    return CUDA_ERROR_UNKNOWN;
}

PerThreadDefaultStream::PerThreadDefaultStream() noexcept { ++thread_state().per_thread_default; }
PerThreadDefaultStream::~PerThreadDefaultStream() { --thread_state().per_thread_default; }

}  // namespace warpline::softgpu::driver
