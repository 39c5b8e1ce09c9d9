// The end of a context, and of primary ones the beginning.
#pragma once

#include "cuda/abi/cuda_types.h"

namespace warpline::softgpu::driver {

class Context;
class Device;

/// Waits for a context's work and destroys what belongs to it: streams, modules, memory, what libraries attached. Nothing if
/// the context is not active.
void end_context(Context& context);

/// A device's primary context is held once more; the first time it is made. @errors those of Context::activate()
CUresult retain_primary(Device& device);
/// Held once less; with the last one it ends. @errors invalid context: nobody holds it
CUresult release_primary(Device& device);

}  // namespace warpline::softgpu::driver
