// The socket behind a session, with its threads.
#pragma once

#include <future>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "client/state/copy_target.h"
#include "client/state/devices.h"
#include "common/net/channel_pump.h"
#include "common/net/tls.h"
#include "protocol/codec/link.h"

namespace warpline::client {

class Session;

/// Where to connect to, and as whom.
struct ConnectionSettings {
    std::string server;  ///< host:port
    net::TlsCredentials credentials;
    std::chrono::milliseconds connect_timeout{10000};
    protocol::HeartbeatOptions heartbeat;
    protocol::CreditLimits credit{~uint64_t{0}, ~uint64_t{0}};  ///< at most; the server says how much it allows
    std::string program;
    std::string visible_devices;
    uint64_t window_base = 0;
    uint64_t window_bytes = 0;
};

/// One connection of a session: a socket with its two threads, and the protocol's half of it.
class ConnectionToServer final : private protocol::Link::Handler {
public:
    /// Connects, does the TLS handshake and starts the threads.
    static Result<std::unique_ptr<ConnectionToServer>> connect(Session& session, const ConnectionSettings& settings,
                                                               std::string& why);
    ~ConnectionToServer() override;

    /// Sends Hello and waits for the answer.
    ///
    /// @errors  version_mismatch, what the server refused with, deadline, connection_lost
    Result<ServerInfo> exchange_hello(const ConnectionSettings& settings, std::string& why);

    protocol::Outbox& outbox() { return m_link.outbox(); }
    protocol::Link& link() { return m_link; }
    const protocol::Link& link() const { return m_link; }
    /// Brings what is queued to the socket: for a caller who will wait for the answer.
    void flush() { m_pump->flush(); }

    /// Part of the memory that the function with this number sends. @blocks while much is queued
    void send_host_data(uint64_t id, uint64_t offset, BytesView bytes);
    /// Tells the server that the program's function has returned.
    void host_call_done(uint64_t id);
    /// Says goodbye after all that is queued, and ends both threads; waits a bounded time for the writer.
    void finish();
    /// Ends the connection, if it has not ended, and waits for its threads.
    void join();

    static constexpr size_t k_chunk_bytes = 1024 * 1024;  ///< larger payloads are streamed

private:
    ConnectionToServer(Session& session, const ConnectionSettings& settings);
    Result<void> on_frame(protocol::Frame frame) override;
    Result<MutableBytesView> place_payload(uint64_t call, uint64_t offset, uint64_t total, size_t bytes) override;
    void on_level(const protocol::LinkLevelChange& change) override;
    Result<void> on_hello_reply(const protocol::Frame& frame);
    Result<void> on_reply(protocol::Frame frame);
    Result<void> on_event(const protocol::Frame& frame);
    Result<void> on_bulk(const protocol::Frame& frame);
    void on_ended(const Error& error, const std::string& explanation);

    struct HelloAnswer;

    Session& m_session;
    protocol::Link m_link;
    std::unique_ptr<net::ChannelPump> m_pump;
    std::unique_ptr<HelloAnswer> m_hello;
    std::string m_address;
    std::optional<CopyTarget> m_part_target;  // the receiving thread's: of the Bulk frame at hand
    std::string m_goodbye;                    // the receiving thread's: what the server said when it closed
    std::promise<void> m_ended;
};

}  // namespace warpline::client
