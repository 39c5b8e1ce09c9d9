// The process that serves one session.
#pragma once

#include <sys/types.h>

#include "common/config/settings.h"

namespace warpline::server {

/// The life of a worker process: initialise the driver, tell the supervisor, take a socket, serve its session, exit.
///
/// @param supervisor  the process that started us: we end with it
/// @return            the exit status
/// @blocks            the whole life of the worker
int worker_main(const config::Settings& settings, pid_t supervisor);

}  // namespace warpline::server
