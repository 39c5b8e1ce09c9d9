// Devices in messages, for clients and for the next worker.
#pragma once

#include <vector>

#include "common/base/result.h"
#include "protocol/codec/buffer.h"
#include "protocol/schema/envelope.capnp.h"
#include "server/driver/inventory.h"

namespace warpline::server {

/// Tells a device as HelloReply does.
void write_device(wire::Device::Builder out, const DeviceSnapshot& device);

/// The inventory of a machine in a file without a name, so that one worker takes it for all. @return the descriptor
/// @errors io, alloc_failed
Result<int> write_inventory(const std::vector<DeviceSnapshot>& devices);
/// What another worker wrote. Empty if nothing has been written. @errors io, malformed
Result<std::vector<DeviceSnapshot>> read_inventory(int fd);

}  // namespace warpline::server
