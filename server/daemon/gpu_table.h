// What gpu-server prints about its GPUs.
#pragma once

#include <string>

#include "server/control/control.h"

namespace warpline::server {

/// The table of GPUs that gpu-server prints at its start: one line per device, and one about the driver. Ends with a newline.
std::string gpu_table(const ReadyMessage& ready);

}  // namespace warpline::server
