// A client without a program.
#pragma once

#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/mutex.h"
#include "common/net/channel_pump.h"
#include "common/net/link_user.h"
#include "common/net/tls.h"
#include "cuda/gen/call_id.gen.h"
#include "protocol/codec/link.h"
#include "protocol/codec/preamble.h"
#include "protocol/schema/envelope.capnp.h"
#include "protocol/session/open.h"
#include "protocol/session/resume.h"

namespace warpline::server::test {

// The range of device addresses that clients propose: one that no sanitizer needs for itself.
#if defined(WARPLINE_THREAD_SANITIZER)
inline constexpr uint64_t k_window = 0x001000000000;
#else
inline constexpr uint64_t k_window = 0x200000000000;
#endif

/// What came back for a call.
struct FakeReply {
    int result = -1;
    std::string payload;
    Bytes body;  ///< of the Reply, to read values from
};

/// A client of a few lines: real sockets, real TLS, real frames, no library of ours above the protocol.
class FakeClient final : private protocol::Link::Handler {
public:
    /// Has the door open a session. Nothing, with the reason in `why`.
    static std::optional<protocol::OpenAnswer> open(uint16_t port, const net::TlsCredentials& credentials, std::string& why);
    /// A lane of a session, after TLS. Null, with the reason in `why`.
    static std::unique_ptr<net::TlsChannel> lane(uint16_t port, const net::TlsCredentials& credentials,
                                                 const protocol::Preamble& preamble, const protocol::SessionKey& key,
                                                 std::string& why);
    /// Has a session opened, and connects its first lane. Null, with the reason in `why`.
    static std::unique_ptr<FakeClient> connect(uint16_t port, const net::TlsCredentials& credentials, std::string& why);
    ~FakeClient() override;

    struct HelloAnswer {
        uint16_t version = 0;
        std::string error;
        std::string tenant;
        std::string device_name;
        uint64_t window_address = 0;
        uint64_t window_bytes = 0;
        uint64_t memory_credit = 0;
        uint64_t primary_context = 0;
        size_t devices = 0;
    };
    protocol::SessionId session{};
    protocol::SessionKey key{};
    /// Says Hello and waits for the answer; nothing if the connection ended instead.
    std::optional<HelloAnswer> hello(uint16_t version_min = protocol::k_protocol_version_min,
                                     uint16_t version_max = protocol::k_protocol_version_max);

    /// Sends a call. `fill(Wire::Builder)`.
    template <typename Wire, typename F>
    uint64_t send(cuda::CallId id, F&& fill, BytesView payload = {}, bool wants_reply = false, uint32_t thread = 1) {
        protocol::CallHeader header;
        header.id = static_cast<uint16_t>(id);
        header.wants_reply = wants_reply;
        header.thread = thread;
        header.context = context;
        const auto fill_args = [&](capnp::AnyPointer::Builder args) { fill(args.initAs<Wire>()); };
        return send(header, protocol::FillArgs(fill_args), payload);
    }
    uint64_t send(const protocol::CallHeader& header, protocol::FillArgs fill, BytesView payload);
    template <typename Wire, typename F>
    FakeReply call(cuda::CallId id, F&& fill, BytesView payload = {}, uint32_t thread = 1) {
        return wait_reply(send<Wire>(id, fill, payload, true, thread));
    }
    /// The reply of a call; its result is -1 if the connection ends (or nothing comes) first.
    FakeReply wait_reply(uint64_t call);
    bool has_reply(uint64_t call);

    /// Payload of the CopyDone event of a call; nothing if the connection ends first.
    std::optional<std::string> wait_copy(uint64_t call);
    /// True if the CopyDone event of a call had come before what this thread waited for last.
    bool has_copy(uint64_t call);
    /// Id of the next host call.
    std::optional<uint64_t> wait_host_call();
    void host_call_done(uint64_t id);
    bool has_host_call();
    /// Bytes that a host call brings.
    void host_data(uint64_t id, uint64_t offset, BytesView bytes);
    std::string output();
    std::vector<std::pair<uint64_t, int>> async_errors();

    /// Sends bytes that are no frame, or a frame of one's own making.
    void send_raw(BytesView bytes);
    void send_body(protocol::FrameKind kind, protocol::Buffer body);
    /// The number of the last frame that has come. While the server has nothing more to send.
    uint64_t received() const { return m_link.received_sequence(); }
    void say_goodbye() { m_link.say_goodbye(Code::ok, "bye"); }
    /// Cuts the connection without a word.
    void cut() { m_pump->stop(); }
    /// Waits for the end of the connection. False if it lives on.
    bool wait_end();
    std::string close_reason();
    std::string end_explanation();

    uint64_t context = 0;       ///< that calls name
    bool wants_uploads = true;  ///< in Hello
    uint64_t window = 0;        ///< of device addresses, as the server granted it

    static constexpr unsigned k_max_words = 4096;
    static constexpr size_t k_chunk_bytes = 1024 * 1024;
    static constexpr std::chrono::seconds k_patience{60};

private:
    FakeClient();
    class Outgoing;
    Result<void> on_frame(protocol::Frame frame) override;
    void on_ended(const Error& error, const std::string& explanation) override;
    template <typename Predicate>
    bool wait_for(Predicate predicate) WL_REQUIRES(m_mutex);

    protocol::Link m_link;
    Mutex m_mutex;
    ConditionVariable m_changed;
    std::optional<HelloAnswer> m_hello WL_GUARDED_BY(m_mutex);
    std::map<uint64_t, FakeReply> m_replies WL_GUARDED_BY(m_mutex);
    std::map<uint64_t, std::string> m_copies WL_GUARDED_BY(m_mutex);
    std::map<uint64_t, std::string> m_bulk WL_GUARDED_BY(m_mutex);
    std::deque<uint64_t> m_host_calls WL_GUARDED_BY(m_mutex);
    std::vector<std::pair<uint64_t, int>> m_async_errors WL_GUARDED_BY(m_mutex);
    std::string m_output WL_GUARDED_BY(m_mutex);
    std::string m_close_reason WL_GUARDED_BY(m_mutex);
    std::string m_explanation WL_GUARDED_BY(m_mutex);
    bool m_ended WL_GUARDED_BY(m_mutex) = false;
    Bytes m_raw WL_GUARDED_BY(m_mutex);
    Bytes m_raw_leaving WL_GUARDED_BY(m_mutex);
    std::unique_ptr<net::ChannelPump> m_pump;
};

/// Reads the values of a reply: `function(Wire::Reader)`.
template <typename Wire, typename F>
bool read_values(const FakeReply& reply, F&& function) {
    return protocol::read_message<wire::Reply>(
               reply.body, [&](wire::Reply::Reader message) { function(message.getValues().getAs<Wire>()); })
        .ok();
}

}  // namespace warpline::server::test
