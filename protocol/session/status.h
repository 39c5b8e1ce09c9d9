// What a server tells of itself to who has a certificate and no session: docs/session.md#status
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "protocol/session/single_frame.h"

namespace warpline::protocol {

struct StatusRequest {
    std::string client_version;
    uint32_t claim_below = 0;   ///< 0: only asks. Else: keeps a place, if the server has fewer sessions than this
    bool wants_load = false;    ///< asks how busy the devices are, too
    bool wants_sheets = false;  ///< asks what NVML says of the devices, too
};

/// What NVML says of a device.
struct DeviceLoad {
    std::optional<uint32_t> utilisation_percent;  ///< of NVML's last sampling period; nothing: not known
    uint64_t total_bytes = 0;                     ///< 0: not known
    uint64_t free_bytes = 0;                      ///< likewise, whoever uses the rest
};

/// A program of the tenant's that uses a device.
struct DeviceProcess {
    std::string host;
    uint32_t pid = 0;    ///< there
    uint64_t bytes = 0;  ///< of the device's memory
};

/// What NVML's functions answer of a device.
struct DeviceSheet {
    std::string name;
    std::array<uint8_t, 16> uuid{};
    std::string pci_bus_id;
    uint64_t total_bytes = 0;
    uint32_t compute_major = 0, compute_minor = 0;
    uint32_t multiprocessors = 0;
    Bytes answers;  ///< cuda/nvml/sheet.h; empty: the server has no NVML
    std::vector<DeviceProcess> processes;
};
/// An answer with the sheets of all devices is no longer than this.
inline constexpr uint32_t k_status_with_sheets_bytes = 2u << 20;

struct ServerStatus {
    std::string server_name;
    std::string server_version;
    uint32_t sessions = 0;  ///< running, beginning, or with a place that is kept
    uint32_t max_sessions = 0;
    uint32_t workers_ready = 0;
    bool draining = false;
    uint32_t device_count = 0;
    int32_t driver_version = 0;  ///< as cuDriverGetVersion
    bool software_driver = false;
    bool claimed = false;             ///< a place is kept for who asked; counted in `sessions`
    std::vector<DeviceLoad> devices;  ///< as the driver counts them; empty: not asked for, or not known
    std::vector<DeviceSheet> sheets;  ///< likewise
};

/// A whole frame. @errors alloc_failed
Result<Bytes> encode_status_request(const StatusRequest& request);
Result<Bytes> encode_status(const ServerStatus& status);

/// @errors malformed
Result<StatusRequest> decode_status_request(const Frame& frame);
Result<ServerStatus> decode_status(const Frame& frame);

}  // namespace warpline::protocol
