// The managed variables of code that is loaded into contexts.
#pragma once

#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/base/mutex.h"
#include "softgpu/exec/api.h"

namespace warpline::softgpu::driver {

class Device;

/// The __managed__ variables of a module, or of a library in all of its contexts: the host and all devices share one of each,
/// as they share what cuMemAllocManaged gives. They end with it. Thread-safe.
class ManagedVariables {
public:
    ManagedVariables() = default;
    ~ManagedVariables();
    ManagedVariables(const ManagedVariables&) = delete;
    ManagedVariables& operator=(const ManagedVariables&) = delete;

    /// Fills in where they are; what is not there yet is made, as the device's. False: there is no memory.
    bool place(Device& device, std::span<exec::ManagedVariable> variables) WL_EXCLUDES(m_mutex);

private:
    struct Block {
        uint64_t address = 0;
        uint64_t bytes = 0;
    };
    /// A name, and which of the variables of that name: those of linked units may have the same.
    using Key = std::pair<std::string, size_t>;
    bool make(Device& device, std::span<exec::ManagedVariable* const> variables) WL_REQUIRES(m_mutex);

    Mutex m_mutex;
    std::map<Key, uint64_t> m_addresses WL_GUARDED_BY(m_mutex);
    std::vector<Block> m_blocks WL_GUARDED_BY(m_mutex);
};

}  // namespace warpline::softgpu::driver
