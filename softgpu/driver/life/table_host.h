// What the export tables ask of this driver.
#pragma once

namespace warpline::softgpu::driver {

/// Names this driver to the export tables, once; at the first call that may serve one.
void provide_export_tables();

}  // namespace warpline::softgpu::driver
