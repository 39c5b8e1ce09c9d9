// Launches that are put together call by call, as before CUDA 4.0.
#include <algorithm>

#include "softgpu/driver/code/module.h"
#include "softgpu/driver/context/context.h"
#include "softgpu/driver/graph/enqueue.h"
#include "softgpu/driver/operations/launch.h"
#include "softgpu/driver/process/process.h"

namespace warpline::softgpu::driver {

namespace {

/// What has been set of a function. `act` is given it.
template <typename Act>
CUresult with(CUfunction handle, Act act) {
    Context* context = nullptr;
    std::shared_ptr<LoadedFunction> function;
    CU_TRY(find_function(handle, function, context));
    return act(function->legacy);
}

CUresult launch(CUfunction handle, int width, int height, CUstream stream) {
    return with(handle, [&](const cuda::abi::LegacyLaunch& legacy) {
        return legacy.launch(width, height, [&](const auto& block, unsigned shared_bytes, void** extra) {
            LaunchRequest request;
            request.function = handle;
            request.grid[0] = static_cast<uint32_t>(width);
            request.grid[1] = static_cast<uint32_t>(height);
            std::copy(block.begin(), block.end(), request.block);
            request.shared_bytes = shared_bytes;
            request.extra = extra;
            return enqueue_launch(request, stream);
        });
    });
}

}  // namespace

CUresult cuFuncSetBlockShape(CUfunction hfunc, int x, int y, int z) {
    return with(hfunc, [&](auto& legacy) { return legacy.set_block(x, y, z); });
}
CUresult cuFuncSetSharedSize(CUfunction hfunc, unsigned int bytes) {
    return with(hfunc, [&](auto& legacy) { return legacy.set_shared(bytes); });
}
CUresult cuParamSetSize(CUfunction hfunc, unsigned int numbytes) {
    return with(hfunc, [&](auto& legacy) { return legacy.set_size(numbytes); });
}
CUresult cuParamSeti(CUfunction hfunc, int offset, unsigned int value) {
    return with(hfunc, [&](auto& legacy) { return legacy.set_param(offset, &value, sizeof value); });
}
CUresult cuParamSetf(CUfunction hfunc, int offset, float value) {
    return with(hfunc, [&](auto& legacy) { return legacy.set_param(offset, &value, sizeof value); });
}
CUresult cuParamSetv(CUfunction hfunc, int offset, void* ptr, unsigned int numbytes) {
    return with(hfunc, [&](auto& legacy) { return legacy.set_param(offset, ptr, numbytes); });
}

CUresult cuLaunch(CUfunction f) { return launch(f, 1, 1, nullptr); }
CUresult cuLaunchGrid(CUfunction f, int grid_width, int grid_height) { return launch(f, grid_width, grid_height, nullptr); }
CUresult cuLaunchGridAsync(CUfunction f, int grid_width, int grid_height, CUstream hStream) {
    return launch(f, grid_width, grid_height, hStream);
}

}  // namespace warpline::softgpu::driver
