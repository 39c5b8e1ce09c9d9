// When a load closes the gate, and when code is loaded at all.
#include "softgpu/driver/context/load_gate.h"

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

LoadGate::Closed::Closed(Context& context) {
    if (process().config().profile.loading == Profile::Loading::free) return;
    m_gate = &context.load_gate();
    ++m_gate->m_loads;
    context.wait_for_work();
}

LoadGate::Closed::~Closed() {
    if (m_gate == nullptr) return;
    --m_gate->m_loads;
    m_gate->m_loads.notify_all();
}

}  // namespace warpline::softgpu::driver
