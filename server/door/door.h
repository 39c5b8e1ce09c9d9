// The process that speaks with clients who have no worker.
#pragma once

#include <sys/types.h>

#include "common/config/settings.h"

namespace warpline::server {

/// The life of the door: takes sockets from the supervisor, verifies certificates, answers Status, and tells who wants to
/// continue a session that nobody has that it is gone. Loads no driver.
///
/// @param supervisor  the process that started us: we end with it
/// @return            the exit status
/// @blocks            the whole life of the door
int door_main(const config::Settings& settings, pid_t supervisor);

}  // namespace warpline::server
