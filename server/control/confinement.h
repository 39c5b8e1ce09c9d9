// What a process gives up before it serves anybody.
#pragma once

#include "common/base/result.h"

namespace warpline::server {

/// Takes from this process what a session has no use for: starting programs, looking into other processes, signals to them and
/// limits of theirs, namespaces, opening network sockets, changing the machine. Such system calls fail with EPERM from then on
/// (clone3 with ENOSYS, so that libraries use clone), in all threads, for good. Files and device
/// nodes stay open to it, because drivers open them at any time.
///
/// To be called once the driver is initialised: its initialisation may start helper programs. Needs PR_SET_NO_NEW_PRIVS.
///
/// @errors  io (the kernel has no such filter; detail errno)
Result<void> confine_process();

}  // namespace warpline::server
