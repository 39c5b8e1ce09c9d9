// Device nodes that a driver makes itself.
#pragma once

#include <string>

namespace warpline::server {

/// Initialises the driver once in a process of its own, which ends again. NVIDIA's driver loads its kernel modules and makes
/// missing device nodes by a setuid program, which does nothing for processes without privileges; what it has made stays.
///
/// To be called while this process has one thread. What fails there is told by whoever loads the driver next.
///
/// @param choice  of the driver, as for find_driver()
/// @blocks        as long as a driver takes to start
void let_driver_make_device_nodes(const std::string& choice);

}  // namespace warpline::server
