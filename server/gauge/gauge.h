// The process that looks how busy the devices are.
#pragma once

#include <sys/types.h>

#include "common/config/settings.h"

namespace warpline::server {

/// The life of the gauge: asks NVML when the supervisor wants to know. A process of its own, because the library is the
/// driver's, and may hang or crash where the supervisor must not. It makes no context, and sees nobody's bytes.
///
/// @param supervisor  the process that started us: we end with it
/// @return            the exit status
/// @blocks            the whole life of the gauge
int gauge_main(const config::Settings& settings, pid_t supervisor);

}  // namespace warpline::server
