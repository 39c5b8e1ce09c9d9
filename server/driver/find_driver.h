// The choice of a driver.
#pragma once

#include <memory>
#include <string>

#include "server/driver/driver.h"

namespace warpline::server {

/// Loads the driver that the option names: a path, `nvidia`, `software`, or `auto` for the former if it finds a device, else
/// the latter.
///
/// @param problem  receives one line for the user if there is none
/// @blocks         as Driver::load
std::unique_ptr<Driver> find_driver(const std::string& choice, std::string& problem);

/// Where the software GPU is: beside this program's folder, as built and as installed.
std::string software_driver_path();

}  // namespace warpline::server
