// Which pools of managed memory are the default and the current ones of which places.
#pragma once

#include <map>
#include <memory>
#include <utility>

#include "common/base/mutex.h"
#include "softgpu/driver/memory/memory_pool.h"

namespace warpline::softgpu::driver {

/// Pools of managed memory by where their memory would rather be: a device, the host, one of its nodes, or nowhere. Devices'
/// pools of their own memory are the devices'. Any thread may call.
class ManagedPools {
public:
    static ManagedPools& instance();

    /// A pool for a place. @errors  invalid value (properties), invalid device
    static CUresult create(const CUmemPoolProps& properties, bool is_default, std::shared_ptr<MemoryPool>& pool);

    /// Made when it is first asked for. @errors  invalid value, invalid device
    CUresult default_of(const CUmemLocation& place, std::shared_ptr<MemoryPool>& pool) WL_EXCLUDES(m_mutex);
    /// The default one, unless another was set that is still there.
    CUresult current_of(const CUmemLocation& place, std::shared_ptr<MemoryPool>& pool) WL_EXCLUDES(m_mutex);
    /// @errors  invalid value: a pool of another place
    CUresult set_current(const CUmemLocation& place, const std::shared_ptr<MemoryPool>& pool) WL_EXCLUDES(m_mutex);

private:
    struct Pools {
        std::shared_ptr<MemoryPool> usual;
        std::weak_ptr<MemoryPool> current;
    };
    /// The host is one place, whatever number it is given.
    static std::pair<int, int> key(const CUmemLocation& place);

    Mutex m_mutex;
    std::map<std::pair<int, int>, Pools> m_pools WL_GUARDED_BY(m_mutex);
};

}  // namespace warpline::softgpu::driver
