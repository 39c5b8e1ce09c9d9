// What the machine has, as clients are told it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "server/control/control.h"
#include "server/driver/driver.h"

namespace warpline::server {

/// Everything that a program asks about a device at its start; told once, in HelloReply.
struct DeviceSnapshot {
    struct Attribute {
        uint16_t id;
        int32_t value;
    };
    struct Limit {
        uint16_t id;
        int32_t result;  ///< CUresult
        uint64_t value;
    };
    struct Peer {
        uint32_t device;
        bool can_access;
        std::vector<Attribute> attributes;  ///< CUdevice_P2PAttribute
    };

    CUdevice device = 0;         ///< as the client counts
    CUdevice driver_device = 0;  ///< as the driver counts
    std::string name;
    uint64_t total_bytes = 0;
    uint64_t free_bytes = 0;
    CUuuid uuid{};
    int compute_major = 0;
    int compute_minor = 0;
    std::string pci_bus_id;
    std::vector<Attribute> attributes;
    std::vector<Limit> limits;
    int least_priority = 0;
    int greatest_priority = 0;
    std::vector<Peer> peers;

    int attribute(CUdevice_attribute id) const;
};

/// Asks the driver about all its devices. With `contexts`, each device's primary context is made for a moment, to ask what only
/// a context can tell (limits, stream priorities, free memory).
///
///
/// @errors  internal (the driver refuses what every driver answers; detail: the CUresult)
/// @blocks  while contexts are made: up to a second per GPU
/// @thread  one; leaves no context current
Result<std::vector<DeviceSnapshot>> take_inventory(const Driver& driver, bool contexts);

/// The devices that a program wants to see, in its order, as the driver reads CUDA_VISIBLE_DEVICES: ordinals or beginnings of
/// UUIDs, up to the first that names none. Empty text: all.
std::vector<DeviceSnapshot> select_devices(const std::vector<DeviceSnapshot>& devices, const std::string& visible);

/// What the supervisor prints of it.
ReadyMessage summarise(const Driver& driver, const std::vector<DeviceSnapshot>& devices);

}  // namespace warpline::server
