#pragma once

namespace warpline::client {

/// Names this library as the driver behind the export tables; the first call does it.
void serve_export_tables();

/// What cuDriverGetVersion answers: the server driver's version once connected, else that of the headers we are built with.
int driver_version();

}  // namespace warpline::client
