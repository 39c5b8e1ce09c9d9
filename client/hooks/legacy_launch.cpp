// Launches that are put together call by call, as before CUDA 4.0.
#include "client/code/functions.h"
#include "client/gen/legacy_launch_calls.gen.h"

namespace warpline::client {

namespace {

/// What has been set of a function. `act` is given it.
template <typename Act>
CUresult with(Call& call, CUfunction handle, Act act) {
    Function* function = call.state.functions.find(to_token(handle));
    return function ? act(function->legacy_launch()) : CUDA_ERROR_INVALID_HANDLE;
}

CUresult launch(Call& call, CUfunction handle, int width, int height, CUstream stream) {
    return with(call, handle, [&](const cuda::abi::LegacyLaunch& legacy) {
        return legacy.launch(width, height, [&](const auto& block, unsigned shared_bytes, void** extra) {
            return hook_client_cuLaunchKernel(call, handle, static_cast<unsigned>(width), static_cast<unsigned>(height), 1,
                                              block[0], block[1], block[2], shared_bytes, stream, nullptr, extra);
        });
    });
}

}  // namespace

CUresult hook_client_cuFuncSetBlockShape(Call& call, CUfunction hfunc, int x, int y, int z) {
    return with(call, hfunc, [&](auto& legacy) { return legacy.set_block(x, y, z); });
}

CUresult hook_client_cuFuncSetSharedSize(Call& call, CUfunction hfunc, unsigned int bytes) {
    return with(call, hfunc, [&](auto& legacy) { return legacy.set_shared(bytes); });
}

CUresult hook_client_cuParamSetSize(Call& call, CUfunction hfunc, unsigned int numbytes) {
    return with(call, hfunc, [&](auto& legacy) { return legacy.set_size(numbytes); });
}

CUresult hook_client_cuParamSeti(Call& call, CUfunction hfunc, int offset, unsigned int value) {
    return with(call, hfunc, [&](auto& legacy) { return legacy.set_param(offset, &value, sizeof value); });
}

CUresult hook_client_cuParamSetf(Call& call, CUfunction hfunc, int offset, float value) {
    return with(call, hfunc, [&](auto& legacy) { return legacy.set_param(offset, &value, sizeof value); });
}

CUresult hook_client_cuParamSetv(Call& call, CUfunction hfunc, int offset, void* ptr, unsigned int numbytes) {
    return with(call, hfunc, [&](auto& legacy) { return legacy.set_param(offset, ptr, numbytes); });
}

CUresult hook_client_cuLaunch(Call& call, CUfunction f) { return launch(call, f, 1, 1, nullptr); }

CUresult hook_client_cuLaunchGrid(Call& call, CUfunction f, int grid_width, int grid_height) {
    return launch(call, f, grid_width, grid_height, nullptr);
}

CUresult hook_client_cuLaunchGridAsync(Call& call, CUfunction f, int grid_width, int grid_height, CUstream hStream) {
    return launch(call, f, grid_width, grid_height, hStream);
}

}  // namespace warpline::client
