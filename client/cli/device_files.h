// The files by which programs look whether there is an NVIDIA GPU.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace warpline::cli {

/// What NVML tells of the devices.
struct ShownDevices {
    struct Device {
        std::string name, uuid, bus_id;
    };
    std::string driver_version;
    std::vector<Device> devices;
};

/// Asks our libnvidia-ml.so.1, which finds the server in the environment, with these variables set. False: it does not answer,
/// and has said why.
/// @blocks as nvmlInit
bool ask_devices(const std::map<std::string, std::string>& environment, ShownDevices& shown);

/// From now on this process and its children see /dev/nvidiactl, /dev/nvidia-uvm and a /dev/nvidiaN for each device, empty
/// files, and /proc/driver/nvidia, in a mount namespace of their own, and, if they are not root's, a user namespace. What else
/// is in /dev stays; what else is in /proc/driver is hidden.
/// @param why  set when it fails: one sentence for the user
bool show_device_files(const ShownDevices& shown, std::string& why);

}  // namespace warpline::cli
