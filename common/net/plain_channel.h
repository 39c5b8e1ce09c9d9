// A connection over a Unix socket as it is, without TLS.
#pragma once

#include <functional>

#include "common/net/tls.h"

namespace warpline::net {

/// What travels stays in this machine's memory, and the kernel says whose process is at the other end. A lane of a session is
/// proved by the session's key, as with TLS.
class PlainChannel final : public Channel {
public:
    /// A client's end. @param key  of the session whose lane this is; none: at the door
    /// @param why  set when it fails: what the server says, as a rule
    /// @errors     auth_failed (refused), deadline, connection_lost, malformed; bad_argument: no Unix socket
    /// @blocks     up to the timeout
    static Result<std::unique_ptr<Channel>> connect(Socket socket, const std::optional<PresharedKey>& key,
                                                    std::chrono::milliseconds timeout, std::string& why);

    /// Whom a server takes a user for: the tenant, or a refusal, with `why` for the client.
    using WhoIs = std::function<Result<std::string>(const PeerUser& user, std::string& why)>;
    /// A server's end, of one that knows users: the door.
    /// @param gone  the connection is a lane's of a session that has gone: it brings a key, which nobody has
    static Result<std::unique_ptr<Channel>> accept_user(Socket socket, const WhoIs& who_is, bool gone,
                                                        std::chrono::milliseconds timeout, std::string& why);
    /// A server's end, of one that has the session's key: a worker.
    static Result<std::unique_ptr<Channel>> accept_key(Socket socket, const PresharedKey& key,
                                                       std::chrono::milliseconds timeout, std::string& why);
    ~PlainChannel() override;

    // Channel
    Result<size_t> read(MutableBytesView into) override;
    Result<size_t> read_some(MutableBytesView into) override;
    void expect_input() override;
    bool drained() const override;
    bool emptied() const override;
    void set_read_tick(std::chrono::milliseconds tick) override;
    uint64_t wire_bytes_received() const override;
    using Channel::write;
    Result<void> write(std::span<const BytesView> pieces, FunctionRef<void()> between) override;
    Result<bool> write_some(std::span<const BytesView> pieces) override;
    Result<void> finish_write() override;
    void shutdown() override;
    void send_end() override;
    bool proved_by_key() const override;
    const std::string& peer_name() const override;
    const std::string& peer_address() const override;
    std::string cipher() const override { return ""; }
    std::string explain() const override;
    bool ended_by_peer() const override;
    int fd() const override;
    void pass_descriptor(Socket descriptor) override;
    void accept_descriptor() override;
    Socket take_descriptor() override;

private:
    struct State;
    explicit PlainChannel(std::unique_ptr<State> state);
    std::unique_ptr<State> m_state;
};

}  // namespace warpline::net
