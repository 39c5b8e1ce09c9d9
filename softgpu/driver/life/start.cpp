// Furnishes the process's devices with what is above them.
#include "softgpu/driver/life/start.h"

#include <cstdlib>

#include "common/log/log.h"
#include "softgpu/driver/context/context.h"
#include "softgpu/driver/memory/checks.h"
#include "softgpu/driver/memory/memory_pool.h"
#include "softgpu/driver/process/process.h"

namespace warpline::softgpu::driver {

namespace {

void furnish(Process& self) {
    if (self.checker() != nullptr) std::atexit(&report_at_exit);
    for (int ordinal = 0; ordinal < self.device_count(); ++ordinal) {
        Device& device = *self.device(ordinal);
        device.primary = std::make_shared<Context>(device, true, CU_CTX_SCHED_AUTO);
        device.primary->set_handle(as_handle<CUcontext>(self.contexts.add(device.primary)));
        CUmemPoolProps properties{};
        properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
        properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, ordinal};
        device.default_pool = std::make_shared<MemoryPool>(device, properties, true);
        device.default_pool->set_handle(self.pools.add(device.default_pool));
        device.current_pool = device.default_pool->handle();
    }
}

}  // namespace

namespace {

// When the library is loaded: calls before cuInit have something to say too.
__attribute__((constructor)) void read_log_levels() {
    if (const char* specification = std::getenv("WARPLINE_LOG")) log::configure(specification);
}

}  // namespace

CUresult start(unsigned int flags) { return process().initialise(flags, &furnish); }

}  // namespace warpline::softgpu::driver
