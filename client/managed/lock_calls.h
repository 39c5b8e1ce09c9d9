// The program's locks in memory that it shares with the device.
#pragma once

#include <vector>

#include "client/managed/imports.h"

namespace warpline::client::lock_calls {

/// A thread that waits for a lock sleeps in the kernel at the lock's address, which says EFAULT where the device has that page,
/// and the C library ends the process. So for locks in such memory the functions that wait (pthread_mutex_lock,
/// pthread_cond_wait, sem_wait and their relatives) try, and sleep elsewhere (parking.h); those that let go of a lock wake who
/// sleeps there. The locks themselves stay the C library's. Not those that processes share, that outlive their owner or lend
/// it a priority: what is special about them is done in the kernel.
void add_to(std::vector<Import>& imports);

}  // namespace warpline::client::lock_calls
