// Hello and its answers, read and written.
#include "server/worker/handshake.h"

#include "protocol/codec/message.h"
#include "protocol/schema/envelope.capnp.h"
#include "server/control/chunk_file.h"
#include "server/worker/inventory_record.h"

namespace warpline::server {

namespace {

constexpr size_t k_max_text_bytes = 1024;

std::string text_of(capnp::Text::Reader text) { return {text.cStr(), std::min<size_t>(text.size(), k_max_text_bytes)}; }

}  // namespace

Result<HelloData> read_hello(BytesView body) {
    return protocol::read_message<wire::Hello>(body, [](wire::Hello::Reader hello) -> Result<HelloData> {
        HelloData data;
        data.version_min = hello.getVersionMin();
        data.version_max = hello.getVersionMax();
        data.client_version = text_of(hello.getClientVersion());
        data.program = text_of(hello.getProgram());
        data.pid = hello.getPid();
        data.host = text_of(hello.getHost());
        data.window = {hello.getWindowAddress(), hello.getWindowBytes(), 0};
        data.driver_version = hello.getDriverVersion();
        data.visible_devices = text_of(hello.getVisibleDevices());
        data.reported = hello.getReported();
        data.wants_executed = hello.getWantsExecuted();
        data.shares_memory = hello.getSharesMemory();
        data.wants_uploads = hello.getWantsUploads();
        data.memory_bytes = hello.getMemoryBytes();
        data.compression = {hello.getCodecs() & compress::k_all_codecs, std::nullopt};
        // A codec that is newer than this server is not forced on it.
        if (const auto forced = compress::codec_from_wire(hello.getForcedCodec());
            forced.ok() && *forced != compress::Codec::none)
            data.compression.forced =
                compress::Choice{*forced, std::min<int>(hello.getForcedLevel(), compress::k_highest_level)};
        return data;
    });
}

Result<protocol::Buffer> make_hello_reply(const Welcome& welcome, const Driver& driver,
                                          const std::vector<DeviceSnapshot>& devices) {
    return protocol::build_message<wire::HelloReply>([&](wire::HelloReply::Builder reply) {
        reply.setVersion(welcome.version);
        reply.setServerName(welcome.server_name);
        reply.setServerVersion(WARPLINE_VERSION);
        reply.setDriverVersion(driver.version());
        reply.setDriverKind(driver.kind() == DriverKind::software ? wire::DriverKind::SOFTWARE : wire::DriverKind::NVIDIA);
        reply.setTakesMachineCode(driver.takes_machine_code());
        auto limits = reply.initLimits();
        limits.setCreditBytes(welcome.credit.bytes);
        limits.setCreditCalls(welcome.credit.calls);
        limits.setChunkBytes(welcome.chunk_bytes);
        limits.setBulkLanes(welcome.bulk_lanes);
        limits.setLanesMayEnd(true);
        limits.setRememberedCalls(welcome.remembered_calls);
        limits.setMemoryBytes(welcome.memory_limit_bytes);
        limits.setMaxBodyBytes(protocol::FrameLimits{}.max_body_bytes);
        reply.setWindowAddress(welcome.window.address);
        reply.setWindowBytes(welcome.window.bytes);
        reply.setMemoryCreditBytes(welcome.memory_credit_bytes);
        auto list = reply.initDevices(static_cast<unsigned>(devices.size()));
        for (unsigned i = 0; i < list.size(); ++i) write_device(list[i], devices[i]);
        reply.setTenant(welcome.tenant);
        reply.setHeartbeatMs(welcome.heartbeat_ms);
        reply.setCodecs(welcome.codecs);
        reply.setSharedToServer(welcome.shared.to_server_bytes);
        reply.setSharedToClient(welcome.shared.to_client_bytes);
        reply.setShares(welcome.shares);
        if (welcome.uploads == nullptr) return;
        auto uploads = reply.initUploads();
        const net::HashKey& key = welcome.uploads->key();
        uploads.setKey(kj::arrayPtr(reinterpret_cast<const kj::byte*>(key.data()), key.size()));
        uploads.setChunkBytes(static_cast<uint32_t>(k_chunk_file_bytes));
        uploads.setStoredBytes(welcome.uploads->stored_bytes());
    });
}

Result<protocol::Buffer> make_refusal(Code code, const std::string& reason) {
    return protocol::build_message<wire::HelloReply>([&](wire::HelloReply::Builder reply) {
        reply.setVersion(0);
        reply.setError(reason);
        reply.setErrorCode(static_cast<uint16_t>(code));
        reply.setServerVersion(WARPLINE_VERSION);
    });
}

}  // namespace warpline::server
