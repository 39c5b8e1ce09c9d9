// All conditional values of the process, by handle.
#include "softgpu/driver/graph/conditional.h"

#include <map>

#include "common/base/mutex.h"
#include "softgpu/exec/graph_hook.h"

namespace warpline::softgpu::driver {

namespace {

struct Registry {
    Mutex mutex;
    uint64_t next WL_GUARDED_BY(mutex) = 1;
    std::map<uint64_t, std::weak_ptr<Conditional>> by_handle WL_GUARDED_BY(mutex);
};

Registry& registry() {
    static auto* made = new Registry;  // leaked on purpose: calls come after static destructors
    return *made;
}

}  // namespace

std::shared_ptr<Conditional> Conditional::create(uint32_t default_value, bool assign_default) {
    exec::graph_conditional_hook.store(
        [](uint64_t handle, uint32_t value) {
            if (auto conditional = find(handle)) conditional->set(value);
        },
        std::memory_order_release);
    std::shared_ptr<Conditional> made(new Conditional(default_value, assign_default));
    Registry& all = registry();
    MutexLock lock(all.mutex);
    made->m_handle = all.next++;
    all.by_handle[made->m_handle] = made;
    return made;
}

std::shared_ptr<Conditional> Conditional::find(uint64_t handle) {
    Registry& all = registry();
    MutexLock lock(all.mutex);
    auto found = all.by_handle.find(handle);
    return found != all.by_handle.end() ? found->second.lock() : nullptr;
}

Conditional::~Conditional() {
    Registry& all = registry();
    MutexLock lock(all.mutex);
    all.by_handle.erase(m_handle);
}

}  // namespace warpline::softgpu::driver
