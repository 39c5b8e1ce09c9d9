// Makes managed variables, and takes them back.
#include "softgpu/driver/code/managed_variables.h"

#include <sys/mman.h>

#include "cuda/abi/cuda_types.h"
#include "softgpu/driver/device/device.h"
#include "softgpu/driver/process/process.h"
#include "softgpu/driver/space/memory_in_use.h"
#include "softgpu/exec/rounding.h"

namespace warpline::softgpu::driver {

ManagedVariables::~ManagedVariables() {
    for (const auto& [key, address] : m_addresses) {
        process().ranges.remove(address);
        process().addresses.remove(address);
    }
    for (const Block& block : m_blocks) {
        process().advice.forget(block.address, block.bytes);
        MemoryGoing going;
        munmap(reinterpret_cast<void*>(block.address), block.bytes);
    }
}

bool ManagedVariables::place(Device& device, std::span<exec::ManagedVariable> variables) {
    MutexLock lock(m_mutex);
    std::map<std::string_view, size_t> met;
    std::vector<Key> keys;
    std::vector<exec::ManagedVariable*> missing;
    for (exec::ManagedVariable& variable : variables) {
        keys.emplace_back(variable.name, met[variable.name]++);
        const auto known = m_addresses.find(keys.back());
        variable.fresh = known == m_addresses.end();
        if (variable.fresh)
            missing.push_back(&variable);
        else
            variable.address = known->second;
    }
    if (!make(device, missing)) return false;
    for (size_t i = 0; i < keys.size(); ++i) m_addresses.emplace(std::move(keys[i]), variables[i].address);
    return true;
}

bool ManagedVariables::make(Device& device, std::span<exec::ManagedVariable* const> variables) {
    uint64_t bytes = 0;
    for (exec::ManagedVariable* variable : variables) {
        variable->address = round_up(bytes, variable->alignment_bytes);
        bytes = variable->address + variable->size_bytes;
    }
    if (bytes == 0) return true;
    const uint64_t span = round_up(bytes, k_page_bytes);
    void* mapped = mmap(nullptr, span, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) return false;
    m_blocks.push_back({reinterpret_cast<uint64_t>(mapped), span});
    for (exec::ManagedVariable* variable : variables) {
        auto allocation = std::make_shared<Allocation>();
        allocation->address = variable->address += m_blocks.back().address;
        allocation->size_bytes = variable->size_bytes;
        allocation->kind = MemoryKind::managed;
        allocation->flags = CU_MEM_ATTACH_GLOBAL;
        allocation->device = device.ordinal();
        process().addresses.insert(allocation);
        process().ranges.add(VisibleRanges::k_all_devices, allocation->address, allocation->size_bytes);
    }
    return true;
}

}  // namespace warpline::softgpu::driver
