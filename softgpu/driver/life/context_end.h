// The end of a context.
#pragma once

namespace warpline::softgpu::driver {

class Context;

/// Waits for a context's work and destroys what belongs to it: streams, modules, memory, what libraries attached. Nothing if
/// the context is not active.
void end_context(Context& context);

}  // namespace warpline::softgpu::driver
