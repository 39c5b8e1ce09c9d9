// A software GPU.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "common/base/mutex.h"
#include "cuda/abi/cuda_types.h"
#include "softgpu/driver/config/config.h"
#include "softgpu/driver/device/exclusive.h"
#include "softgpu/driver/share/exported_chunks.h"
#include "softgpu/driver/share/usage_board.h"
#include "softgpu/driver/space/address_map.h"
#include "softgpu/driver/space/heap.h"
#include "softgpu/driver/space/quarantine.h"
#include "softgpu/driver/space/visible_ranges.h"

namespace warpline::softgpu::check {
struct Checker;
}
namespace warpline::softgpu::exec {
class Engine;
}

namespace warpline::softgpu::driver {

class Context;
class MemoryPool;
class PhysicalStore;

/// One software GPU: what it says of itself, its memory, its engine. Never destroyed.
class Device final : public ChunkSource {
public:
    /// Attribute numbers are below this.
    static constexpr int k_attribute_limit = 160;
    /// What it says that programs may set aside of its second cache.
    static constexpr int k_persisting_l2_bytes = 3 << 20;

    /// `checker`: what SOFTGPU_CHECK asks of kernels, or null.
    Device(int ordinal, const Config& config, VisibleRanges& ranges, check::Checker* checker);
    ~Device();

    int ordinal() const { return m_ordinal; }
    const Config& config() const { return m_config; }
    const CUuuid& uuid() const { return m_uuid; }
    /// As the owner of memory that other processes can map.
    SharedOwner as_owner() const { return {{CU_MEM_LOCATION_TYPE_DEVICE, m_ordinal}, m_uuid}; }
    std::string name() const;
    /// Success and the value, or invalid value for a number that is no attribute.
    CUresult attribute(int number, int* value) const;
    int attribute(CUdevice_attribute which) const { return m_attributes[which]; }
    std::string pci_bus_id() const;
    uint64_t total_bytes() const { return m_config.memory_bytes; }
    uint64_t free_bytes() const;
    /// What this process does on it, for others to see. Null: they cannot.
    DeviceUsage* usage() const { return m_usage; }

    /// Gets ready to be one process's only, if the profile says so. False: that cannot be done.
    bool open_exclusive();
    /// For each context that comes and goes, what the compute mode says. Errors: unknown (no contexts at all), device
    /// unavailable (another process has one), out of memory.
    CUresult admit_context();
    void dismiss_context();

    /// Made at the first call. Any thread.
    exec::Engine& engine();

    /// Counts memory against the device's size. False: it is full.
    bool charge(uint64_t size_bytes);
    void refund(uint64_t size_bytes);

    Heap& heap() { return m_heap; }
    ExportedChunks& exported() { return m_exported; }
    Quarantine& quarantine() { return m_quarantine; }
    /// Frees what the quarantine holds.
    void end_quarantine();
    PhysicalStore& physical() { return *m_physical; }
    VisibleRanges& ranges() { return m_ranges; }

    /// Zero-filled memory of the process, aligned as chunks are; 0 if there is none.
    static uint64_t reserve(uint64_t size_bytes);

    // ChunkSource: memory of the process, counted against the device, visible to its kernels.
    uint64_t take_chunk(uint64_t size_bytes) override;
    void give_chunk(uint64_t address, uint64_t size_bytes) override;

    std::shared_ptr<Context> primary;          ///< the same for ever; inactive until retained
    std::shared_ptr<MemoryPool> default_pool;  ///< set at start
    std::atomic<uint64_t> current_pool{0};     ///< handle of what cuMemAllocAsync uses

    // Device printf: text that kernels made and nobody has seen yet.
    void add_printf(std::string_view text);
    /// Writes it to the process's stdout. Called where CUDA flushes: synchronisation, module load and unload, end of context.
    void flush_printf();

    // Memory that graphs have, for cuDeviceGetGraphMemAttribute (DB-51).
    std::atomic<uint64_t> graph_memory{0}, graph_used_high{0}, graph_reserved_high{0};

private:
    void set_attributes();
    /// What lies before each chunk, for kernels to read (DB-18).
    uint64_t front_bytes() const { return m_config.reach_before() ? k_chunk_bytes : 0; }

    const int m_ordinal;
    const Config m_config;
    VisibleRanges& m_ranges;
    check::Checker* const m_checker;
    CUuuid m_uuid{};
    std::array<int, k_attribute_limit> m_attributes{};
    ExclusiveDevice m_exclusive;
    Heap m_heap;
    ExportedChunks m_exported;
    Quarantine m_quarantine;
    std::unique_ptr<PhysicalStore> m_physical;
    std::atomic<uint64_t> m_used_bytes{0};
    DeviceUsage* const m_usage;

    Mutex m_engine_mutex;  // making the engine
    std::unique_ptr<exec::Engine> m_engine WL_GUARDED_BY(m_engine_mutex);
    std::atomic<exec::Engine*> m_ready_engine{nullptr};  // released when made, acquired in engine()

    Mutex m_printf_mutex;
    std::string m_printf_text WL_GUARDED_BY(m_printf_mutex);
};

}  // namespace warpline::softgpu::driver
