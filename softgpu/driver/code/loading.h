// When code is loaded, and what waits for that.
#pragma once

#include "softgpu/driver/context/call_gate.h"

namespace warpline::softgpu::driver {

/// True if code is loaded with its module, not at its first use: CUDA_MODULE_LOADING, else the profile.
bool loads_eagerly();

/// A load of code into a context. Where loads synchronise (DB-15), it has waited for all work that the context had, and other
/// threads' calls wait until it ends (DB-50).
class Loading {
public:
    explicit Loading(Context& context);

private:
    CallGate::Held m_held;
};

}  // namespace warpline::softgpu::driver
