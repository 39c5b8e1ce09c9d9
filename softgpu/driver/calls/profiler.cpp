// The profiler's calls.
#include "softgpu/driver/context/context.h"

namespace warpline::softgpu::driver {

// Profilers do not attach to the software GPU; programs that mark the interesting part run all the same.
CUresult cuProfilerStart() {
    Context* context = nullptr;
    return current_context_even_failed(context);
}
CUresult cuProfilerStop() { return driver::cuProfilerStart(); }

}  // namespace warpline::softgpu::driver
