// Ends what belongs to a context, in the order in which it can go.
#include "softgpu/driver/life/context_end.h"

#include "softgpu/driver/code/module.h"
#include "softgpu/driver/context/context.h"
#include "softgpu/driver/context/stream.h"
#include "softgpu/driver/graph/graph_memory.h"
#include "softgpu/driver/memory/array.h"
#include "softgpu/driver/memory/memory.h"
#include "softgpu/driver/process/process.h"

namespace warpline::softgpu::driver {

void end_context(Context& context) {
    auto belongings = context.end();
    if (!belongings) return;
    for (const auto& stream : belongings->streams) {
        process().streams.remove(stream->handle());
        stream->retire();
    }
    for (const auto& module : belongings->modules) module->forget();
    free_memory_of_context(reinterpret_cast<uint64_t>(context.handle()));
    free_arrays_of_context(context);
    if (context.primary()) GraphMemory::give_up(context.device());
    context.leave_device();
}

CUresult retain_primary(Device& device) {
    MutexLock lock(process().primary_mutex);
    if (!device.primary->active()) CU_TRY(device.primary->activate());
    ++device.primary->retain_count;
    return CUDA_SUCCESS;
}

CUresult release_primary(Device& device) {
    {
        MutexLock lock(process().primary_mutex);
        if (device.primary->retain_count == 0) return CUDA_ERROR_INVALID_CONTEXT;
        if (--device.primary->retain_count != 0) return CUDA_SUCCESS;
    }
    end_context(*device.primary);  // without the lock: what libraries attached to the context is destroyed by calling them
    return CUDA_SUCCESS;
}

}  // namespace warpline::softgpu::driver
