// Ends what belongs to a context, in the order in which it can go.
#include "softgpu/driver/life/context_end.h"

#include "softgpu/driver/code/module.h"
#include "softgpu/driver/context/context.h"
#include "softgpu/driver/context/stream.h"
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
    context.leave_device();
}

}  // namespace warpline::softgpu::driver
