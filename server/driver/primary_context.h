// Primary contexts, as a server wants them.
#pragma once

#include "server/driver/driver.h"
#include "server/driver/inventory.h"

namespace warpline::server {

/// Retains a device's primary context. Threads that wait in it sleep instead of spinning, unless the program has asked for
/// something else (cuDevicePrimaryCtxSetFlags).
/// @errors the driver's @blocks while the context is made @thread any
CUresult retain_primary(const Driver& driver, CUdevice device, CUcontext& context);

/// True if several processes may have contexts on the device at a time (compute mode "default").
bool is_shared(const DeviceSnapshot& device);

}  // namespace warpline::server
