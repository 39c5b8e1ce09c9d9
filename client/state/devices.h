// The server's devices, as told at the start.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cuda/abi/cuda_types.h"
#include "protocol/codec/preamble.h"
#include "protocol/session/open.h"

namespace warpline::client {

/// What the server told about one of its devices when the session began. Never asked again, never changed.
struct Device {
    static constexpr size_t k_attribute_ids = 256;

    int ordinal = 0;
    std::string name;
    uint64_t total_bytes = 0;
    CUuuid uuid{};
    std::array<char, 8> luid{};
    int major = 0;
    int minor = 0;
    std::array<int32_t, k_attribute_ids> attributes{};
    std::array<bool, k_attribute_ids> has_attribute{};
    std::string pci_bus_id;
    std::vector<std::optional<size_t>> limits;  ///< by CUlimit; empty: the driver refused it
    int least_priority = 0;
    int greatest_priority = 0;
    struct Peer {
        bool can_access = false;
        std::array<int32_t, 16> attributes{};
    };
    std::vector<Peer> peers;       ///< by device
    uint64_t primary_context = 0;  ///< token

    int attribute(CUdevice_attribute id) const {
        auto index = static_cast<size_t>(id);
        return index < k_attribute_ids ? attributes[index] : 0;
    }
    uint32_t compute_capability() const { return static_cast<uint32_t>(major * 10 + minor); }
};

enum class DriverKind : uint8_t { unknown, nvidia, software };

/// How the server is told which bytes are meant without sending them (docs/upload-cache.md).
struct UploadInfo {
    std::array<uint8_t, 32> key{};  ///< the tenant's, for hashes
    uint64_t chunk_bytes = 0;       ///< 0: the server keeps nothing
    uint64_t stored_bytes = 0;      ///< what it has of the tenant's
};

/// What the handshake told: who serves us, with what.
struct ServerInfo {
    std::string name;
    std::string version;
    std::string address;  ///< host:port, as configured
    std::string dialled;  ///< likewise, with the one address of the host at which the session is
    std::string tenant;
    std::string connection;  ///< what it goes over: "tcp", "unix", "vsock"
    std::string cipher;      ///< of TLS; "": there is none
    int driver_version = 0;
    DriverKind driver_kind = DriverKind::unknown;
    bool takes_machine_code = false;  ///< what only the software GPU does not, unless it executes nothing
    std::vector<Device> devices;
    uint64_t window_base = 0;
    uint64_t window_bytes = 0;
    uint64_t memory_credit_bytes = 0;
    uint64_t memory_limit_bytes = 0;  ///< of each device, which the server holds the session to; 0: none
    unsigned bulk_lanes = 0;          ///< that the server allows
    bool lanes_may_end = false;       ///< it takes what was on their way over the others
    uint16_t remembered_calls = 0;    ///< not 0: calls may be compact, and like one of so many
    uint32_t codecs = 0;              ///< that the server takes (compress::CodecSet)
    UploadInfo uploads;
    protocol::SessionId session_id{};
    protocol::SessionKey key{};  ///< who has it may continue the session
};

}  // namespace warpline::client
