// How busy the devices are, as NVIDIA's management library (NVML) says.
#pragma once

#include <memory>
#include <string>

#include "server/control/control.h"

namespace warpline::server {

/// NVML, loaded and initialised. It makes no context, and takes no device memory.
///
/// @thread  one
/// @source  NVML API reference (vR550): nvmlDeviceGetUtilizationRates, nvmlDeviceGetMemoryInfo
class Nvml {
public:
    /// @param choice   the option `nvml`: a library, or `auto` for the one that came with the driver
    /// @param driver_path  of the CUDA driver; NVML is looked for beside it first
    /// @param problem  receives one line for the server's owner if there is none
    /// @blocks         while the kernel's driver is initialised: up to seconds for each GPU that nobody uses
    static std::unique_ptr<Nvml> load(const std::string& choice, const std::string& driver_path, std::string& problem);
    ~Nvml();
    Nvml(const Nvml&) = delete;
    Nvml& operator=(const Nvml&) = delete;

    /// What it does not tell, a MIG device's utilisation for one, is told as not known. @blocks milliseconds
    DeviceFigures read(const DeviceRow& device) const;

private:
    struct Functions;
    explicit Nvml(std::unique_ptr<Functions> functions);
    const std::unique_ptr<Functions> m_functions;
};

}  // namespace warpline::server
