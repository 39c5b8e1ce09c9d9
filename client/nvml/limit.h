// How much of a device's memory this program may have, in what NVML says of it.
#pragma once

#include "client/nvml/answer.h"

namespace warpline::client::nvml {

/// Makes of the answer to a question about a device's memory what the program may have of it: the limit as the total, what
/// this process has of that as used. Other questions, and programs without a limit, are left as they are.
/// @return success, or memory
int show_limit(const Known& device, uint16_t question, void* output) noexcept;

}  // namespace warpline::client::nvml
