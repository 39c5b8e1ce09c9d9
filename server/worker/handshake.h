// What client and server tell each other first.
#pragma once

#include <string>
#include <vector>

#include "compress/wish.h"
#include "protocol/codec/buffer.h"
#include "protocol/codec/session_state.h"
#include "protocol/codec/shared_bulk.h"
#include "server/driver/inventory.h"
#include "server/objects/device_memory.h"
#include "server/objects/upload_cache.h"

namespace warpline::server {

/// What a client says of itself.
struct HelloData {
    uint16_t version_min = 0;
    uint16_t version_max = 0;
    std::string client_version;
    std::string program;
    uint32_t pid = 0;
    std::string host;
    DeviceMemory::Window window;
    int32_t driver_version = 0;
    std::string visible_devices;
    bool reported = false;  ///< somebody tells us when the program is dead
    bool shares_memory = false;
    bool wants_uploads = false;
    compress::Wish compression;
    bool wants_executed = false;  ///< to be told when its calls were executed
    uint64_t memory_bytes = 0;    ///< the limit that it asks for; 0: none
};

/// @errors malformed
Result<HelloData> read_hello(BytesView body);

/// What a session is told at its start.
struct Welcome {
    uint16_t version = 0;
    std::string server_name;
    std::string tenant;
    protocol::CreditLimits credit;
    uint32_t chunk_bytes = 0;
    uint16_t bulk_lanes = 0;
    uint16_t remembered_calls = 0;
    compress::CodecSet codecs = 0;
    uint32_t heartbeat_ms = 0;
    DeviceMemory::Window window;
    uint64_t memory_credit_bytes = 0;
    uint64_t memory_limit_bytes = 0;
    protocol::SharedLayout shared;         ///< of the memory whose descriptor goes with the answer
    const UploadCache* uploads = nullptr;  ///< null: nothing is kept, or the client does not ask
    bool shares = false;                   ///< with other sessions of the tenant
};

/// The answer to Hello, with the snapshot of all devices. @errors alloc_failed
Result<protocol::Buffer> make_hello_reply(const Welcome& welcome, const Driver& driver,
                                          const std::vector<DeviceSnapshot>& devices);
/// The answer to a client that gets no session: the reason in plain words.
Result<protocol::Buffer> make_refusal(Code code, const std::string& reason);

}  // namespace warpline::server
