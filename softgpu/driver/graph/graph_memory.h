// The memory of graphs.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "cuda/abi/cuda_types.h"

namespace warpline::softgpu::driver {

class Device;

/// Memory of an allocation node: one address for all launches, held as long as a graph or an executable graph has the node, and
/// as long as the program has not freed what a launch has allocated: the end of a graph frees nothing that is live.
class GraphMemory : public std::enable_shared_from_this<GraphMemory> {
public:
    /// Null if the device is full. @param access  of other devices, which has been checked
    static std::shared_ptr<GraphMemory> create(Device& device, uint64_t size_bytes, std::span<const CUmemAccessDesc> access);
    /// By the address that the node handed out; null if there is none.
    static std::shared_ptr<GraphMemory> find(uint64_t address);
    ~GraphMemory();

    Device& device() const { return m_device; }
    uint64_t address() const { return m_address; }
    uint64_t size_bytes() const { return m_size_bytes; }
    /// Between the launch of a graph with the allocation node and the call or launch that frees it, as the program made them.
    bool live() const { return m_live.load(); }
    void set_live(bool live);
    /// Gives back what graphs of a device have had and do not use now (DB-51).
    static void trim(Device& device);
    /// What the program has not freed of a device that is reset.
    static void give_up(const Device& device);

private:
    GraphMemory(Device& device, uint64_t address, uint64_t size_bytes)
        : m_device(device), m_address(address), m_size_bytes(size_bytes) {}

    void map(bool mapped);

    Device& m_device;
    const uint64_t m_address;
    const uint64_t m_size_bytes;
    std::atomic<bool> m_live{false};
    std::vector<int> m_accessors;  // other devices that reach it
    bool m_mapped = false;         // physical memory is counted for it: from its first launch on, until it is trimmed
};

}  // namespace warpline::softgpu::driver
