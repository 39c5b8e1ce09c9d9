// Memory that allocation nodes stand for, by address.
#include "softgpu/driver/graph/graph_memory.h"

#include <map>
#include <vector>

#include "softgpu/driver/device/device.h"
#include "softgpu/driver/memory/checks.h"
#include "softgpu/driver/process/process.h"
#include "softgpu/driver/space/high_water.h"

namespace warpline::softgpu::driver {

namespace {

struct GraphMemories {
    Mutex mutex;
    std::map<uint64_t, std::weak_ptr<GraphMemory>> by_address WL_GUARDED_BY(mutex);
    std::map<uint64_t, std::shared_ptr<GraphMemory>> live WL_GUARDED_BY(mutex);
    std::map<const Device*, uint64_t> mapped_bytes WL_GUARDED_BY(mutex);
};

GraphMemories& graph_memories() {
    static auto* made = new GraphMemories;  // leaked on purpose: calls come after static destructors
    return *made;
}

}  // namespace

std::shared_ptr<GraphMemory> GraphMemory::create(Device& device, uint64_t size_bytes, std::span<const CUmemAccessDesc> access) {
    uint64_t address = device.heap().allocate(with_red_zone(device, size_bytes));
    if (address == 0) return nullptr;
    std::shared_ptr<GraphMemory> memory(new GraphMemory(device, address, size_bytes));
    auto allocation = std::make_shared<Allocation>();
    allocation->address = address;
    allocation->size_bytes = size_bytes;
    allocation->kind = MemoryKind::graph;
    allocation->device = device.ordinal();
    process().addresses.insert(allocation);
    if (device.config().exact_bounds) process().ranges.add(device.ordinal(), address, size_bytes);
    for (const CUmemAccessDesc& one : access) {
        if (one.location.id == device.ordinal() || one.flags == CU_MEM_ACCESS_FLAGS_PROT_NONE) continue;
        memory->m_accessors.push_back(one.location.id);
        process().ranges.allow_peer(one.location.id, device.ordinal());
    }
    GraphMemories& all = graph_memories();
    MutexLock lock(all.mutex);
    all.by_address[address] = memory;
    return memory;
}

std::shared_ptr<GraphMemory> GraphMemory::find(uint64_t address) {
    GraphMemories& all = graph_memories();
    MutexLock lock(all.mutex);
    auto found = all.by_address.find(address);
    return found != all.by_address.end() ? found->second.lock() : nullptr;
}

GraphMemory::~GraphMemory() {
    {
        GraphMemories& all = graph_memories();
        MutexLock lock(all.mutex);
        all.by_address.erase(m_address);
        map(false);
    }
    for (const int accessor : m_accessors) process().ranges.deny_peer(accessor, m_device.ordinal());
    process().addresses.remove(m_address);
    if (m_device.config().exact_bounds) process().ranges.remove(m_address);
    m_device.heap().free(m_address, k_chunk_bytes);
}

/// With the lock, which the analysis does not see through the function that leads to it.
void GraphMemory::map(bool mapped) WL_NO_THREAD_SAFETY_ANALYSIS {
    if (m_mapped == mapped) return;
    m_mapped = mapped;
    uint64_t& bytes = graph_memories().mapped_bytes[&m_device];
    bytes = mapped ? bytes + m_size_bytes : bytes - m_size_bytes;
    raise(m_device.graph_memory, bytes);
    raise(m_device.graph_used_high, m_device.graph_memory);
    raise(m_device.graph_reserved_high, m_device.graph_memory);
}

void GraphMemory::trim(Device& device) {
    std::vector<std::shared_ptr<GraphMemory>> held;  // a last reference goes without the lock
    GraphMemories& all = graph_memories();
    MutexLock lock(all.mutex);
    for (const auto& [address, known] : all.by_address) {
        const auto memory = held.emplace_back(known.lock());
        if (memory != nullptr && &memory->device() == &device && !memory->live()) memory->map(false);
    }
    device.graph_memory = all.mapped_bytes[&device];
}

void GraphMemory::set_live(bool live) {
    std::shared_ptr<GraphMemory> held;  // the last reference may be this one: it goes without the lock
    GraphMemories& all = graph_memories();
    MutexLock lock(all.mutex);
    if (m_live.exchange(live) == live) return;
    if (live) {
        map(true);
        all.live.emplace(m_address, shared_from_this());
        return;
    }
    const auto found = all.live.find(m_address);
    held = std::move(found->second);
    all.live.erase(found);
}

void GraphMemory::give_up(const Device& device) {
    std::vector<std::shared_ptr<GraphMemory>> left;
    {
        GraphMemories& all = graph_memories();
        MutexLock lock(all.mutex);
        for (const auto& [address, memory] : all.live) {
            if (&memory->device() == &device) left.push_back(memory);
        }
    }
    for (const auto& memory : left) memory->set_live(false);
}

}  // namespace warpline::softgpu::driver
