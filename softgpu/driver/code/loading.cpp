// When code is loaded, and the wait of a load.
#include "softgpu/driver/code/loading.h"

#include <cstdlib>
#include <string_view>

#include "softgpu/driver/context/context.h"
#include "softgpu/driver/process/process.h"

namespace warpline::softgpu::driver {

bool loads_eagerly() {
    const char* wanted = std::getenv("CUDA_MODULE_LOADING");
    if (wanted != nullptr && std::string_view(wanted) == "EAGER") return true;
    if (wanted != nullptr && std::string_view(wanted) == "LAZY") return false;
    if (process().initialised()) return process().config().profile.loading == Profile::Loading::eager;
    return read_config().profile.loading == Profile::Loading::eager;  // cuModuleGetLoadingMode may come first
}

Loading::Loading(Context& context) : m_held(context, CallGate::while_loading()) {
    if (process().config().profile.loading != Profile::Loading::free) context.wait_for_work();
}

}  // namespace warpline::softgpu::driver
