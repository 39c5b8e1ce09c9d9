#pragma once

namespace warpline::client {

/// Names this library as the driver behind the export tables; the first call does it.
void serve_export_tables();

}  // namespace warpline::client
