// A device's engine, its memory in chunks, and what kernels printed.
#include "softgpu/driver/device/device.h"

#include <sys/mman.h>

#include <cstdio>
#include <cstring>

#include "common/log/log.h"
#include "softgpu/check/checker.h"
#include "softgpu/driver/device/physical_store.h"
#include "softgpu/driver/device/visible_slots.h"
#include "softgpu/driver/space/memory_in_use.h"
#include "softgpu/exec/api.h"

namespace warpline::softgpu::driver {

namespace {

uint32_t slot_of(int ordinal, const Config& config) { return visible_slots(config).at(static_cast<size_t>(ordinal)); }

}  // namespace

Device::Device(int ordinal, const Config& config, VisibleRanges& ranges, check::Checker* checker)
    : m_ordinal(ordinal),
      m_config(config),
      m_ranges(ranges),
      m_checker(checker),
      m_uuid(uuid_of_slot(slot_of(ordinal, config), config.profile.mig)),
      m_heap(*this),
      m_quarantine(config.memory_bytes / 8),
      m_physical(std::make_unique<PhysicalStore>()),
      m_usage(UsageBoard::instance().mine(slot_of(ordinal, config))) {
    set_attributes();
}

Device::~Device() = default;

std::string Device::name() const {
    std::string name = "Warpline software GPU";
    // DB-23: an instance is named after its share of the GPU: compute slices and memory.
    if (m_config.profile.mig) name += " MIG 1g." + std::to_string((total_bytes() + (1U << 30) - 1) >> 30) + "gb";
    return name;
}

bool Device::open_exclusive() {
    if (m_config.profile.compute_mode != Profile::ComputeMode::exclusive) return true;
    return m_exclusive.open("exclusive-" + std::to_string(slot_of(m_ordinal, m_config)));
}

CUresult Device::admit_context() {
    switch (m_config.profile.compute_mode) {
        case Profile::ComputeMode::shared: return CUDA_SUCCESS;
        case Profile::ComputeMode::exclusive: return m_exclusive.take() ? CUDA_SUCCESS : CUDA_ERROR_DEVICE_UNAVAILABLE;
        default: return CUDA_ERROR_UNKNOWN;
    }
}

void Device::dismiss_context() {
    if (m_config.profile.compute_mode == Profile::ComputeMode::exclusive) m_exclusive.give();
}

std::string Device::pci_bus_id() const { return pci_bus_id_of_slot(slot_of(m_ordinal, m_config)); }

exec::Engine& Device::engine() {
    if (exec::Engine* engine = m_ready_engine.load(std::memory_order_acquire)) return *engine;
    MutexLock lock(m_engine_mutex);
    if (m_engine == nullptr) {
        exec::EngineOptions options;
        options.device_ordinal = static_cast<uint32_t>(m_ordinal);
        options.workers = m_config.workers;
        options.watchdog_ms = m_config.watchdog_ms;
        options.compute_capability = m_config.compute_capability;
        options.execute = m_config.execute;
        options.schedule_seed = m_config.schedule_seed;
        if ((m_config.checks & check::k_kernel_checks) != 0) options.checker = m_checker;
        m_engine = exec::create_engine(options);
        m_engine->set_printf_sink([this](std::string_view text) { add_printf(text); });
        m_ranges.attach(m_ordinal, &m_engine->memory());
        m_ready_engine.store(m_engine.get(), std::memory_order_release);
    }
    return *m_engine;
}

uint64_t Device::free_bytes() const {
    uint64_t used = m_used_bytes.load();
    return used < total_bytes() ? total_bytes() - used : 0;
}

bool Device::charge(uint64_t size_bytes) {
    uint64_t used = m_used_bytes.load();
    do {
        if (size_bytes > total_bytes() || used > total_bytes() - size_bytes) return false;
    } while (!m_used_bytes.compare_exchange_weak(used, used + size_bytes));
    if (m_usage != nullptr) m_usage->used_bytes += size_bytes;
    return true;
}

void Device::refund(uint64_t size_bytes) {
    m_used_bytes -= size_bytes;
    if (m_usage != nullptr) m_usage->used_bytes -= size_bytes;
}

void Device::end_quarantine() {
    for (uint64_t address : m_quarantine.take_all()) m_heap.free(address, k_chunk_bytes);
}

uint64_t Device::reserve(uint64_t size_bytes) {
    // Too much by one granule, to cut an aligned piece out of it.
    uint64_t span = size_bytes + k_chunk_bytes;
    void* mapped = mmap(nullptr, span, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped == MAP_FAILED) return 0;
    auto start = reinterpret_cast<uint64_t>(mapped);
    uint64_t address = round_up(start, k_chunk_bytes);
    if (address != start) munmap(mapped, address - start);
    uint64_t end = start + span;
    if (end != address + size_bytes) munmap(reinterpret_cast<void*>(address + size_bytes), end - address - size_bytes);
    return address;
}

uint64_t Device::take_chunk(uint64_t size_bytes) {
    if (!charge(size_bytes)) return 0;
    const uint64_t before = reserve(front_bytes() + size_bytes);
    if (before == 0) {
        refund(size_bytes);
        return 0;
    }
    const uint64_t address = before + front_bytes();
    madvise(reinterpret_cast<void*>(address), size_bytes, MADV_HUGEPAGE);
    if (!m_config.exact_bounds) m_ranges.add(m_ordinal, before, front_bytes() + size_bytes);
    return address;
}

void Device::give_chunk(uint64_t address, uint64_t size_bytes) {
    const uint64_t before = address - front_bytes();
    if (!m_config.exact_bounds) m_ranges.remove(before);
    {
        MemoryGoing going;
        munmap(reinterpret_cast<void*>(before), front_bytes() + size_bytes);
    }
    m_exported.forget(address);
    refund(size_bytes);
}

void Device::add_printf(std::string_view text) {
    {
        MutexLock lock(m_printf_mutex);
        m_printf_text.append(text);
        // Nothing is lost, but what is kept back is bounded as on a device.
        if (m_printf_text.size() < (uint64_t{1} << 20)) return;
    }
    flush_printf();
}

void Device::flush_printf() {
    MutexLock lock(m_printf_mutex);
    if (m_printf_text.empty()) return;
    std::fwrite(m_printf_text.data(), 1, m_printf_text.size(), stdout);
    std::fflush(stdout);
    m_printf_text.clear();
}

}  // namespace warpline::softgpu::driver
