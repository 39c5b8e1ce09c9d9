// Calling the program's host functions.
#pragma once

#include <functional>

namespace warpline::softgpu::driver {

/// Calls a function of the program's (cuLaunchHostFunc, cuStreamAddCallback, a host node) and returns when it has ended: on the
/// calling thread of the pool, or, if the profile serialises host functions (DB-02), on the one thread that calls all of them.
void call_host_function(const std::function<void()>& function);

}  // namespace warpline::softgpu::driver
