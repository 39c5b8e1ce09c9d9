// A server within the test's process.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "client/call/call.h"
#include "client/session/connection_to_server.h"
#include "client/session/session.h"
#include "common/base/mutex.h"
#include "common/net/certificates.h"
#include "common/net/channel_pump.h"
#include "common/net/socket.h"
#include "protocol/codec/link.h"

namespace warpline::client::test {

/// A call as the fake server saw it.
struct SeenCall {
    uint64_t number = 0;
    protocol::CallHeader header;
    Bytes payload;
    uint64_t streamed_bytes = 0;
};

/// A server in the same process, with a real TLS connection, that answers calls as a test tells it to. One session.
class FakeServer final : private protocol::Link::Handler {
public:
    /// @param quiet  for hours nothing leaves on either side but what somebody sends
    explicit FakeServer(bool quiet = false);
    ~FakeServer() override;

    ConnectionSettings settings() const;

    /// What to do with each call; called by the receiving thread. Without it, calls that want a reply get CUDA_SUCCESS.
    std::function<void(const SeenCall&)> on_call;
    /// Instead of a welcome: refuses with this text and code.
    std::string refusal;
    Code refusal_code = Code::denied;
    /// The limit of device memory that it says to keep to; 0: it knows of none.
    uint64_t memory_limit = 0;
    /// No answer to Hello but the end of the connection.
    bool hang_up = false;
    /// The session is welcomed and ended at once with this reason.
    std::string farewell;

    void reply(uint64_t call, CUresult result, BytesView payload = {});
    /// A part of a payload, wherever it says that it belongs.
    void bulk(uint64_t call, uint64_t offset, uint64_t total, BytesView part);
    void copy_done(uint64_t call, BytesView payload, CUresult result = CUDA_SUCCESS);
    void async_error(uint64_t call, CUresult result);
    void output(std::string_view text);
    void host_call(uint64_t id, CUresult status = CUDA_SUCCESS);
    void close(Code code, std::string_view reason);
    /// The connection breaks.
    void drop();
    /// Bytes on the connection that are no TLS.
    void garble();

    void wait_for_calls(size_t count);
    std::vector<SeenCall> calls();
    void wait_for_host_call_done(uint64_t id);
    /// The client has said goodbye.
    void wait_for_close();

private:
    void accept();
    Result<void> on_frame(protocol::Frame frame) override;
    void on_ended(const Error& error, const std::string& explanation) override;
    Result<void> on_hello();
    Result<void> on_batch(const protocol::Frame& frame);
    template <typename Fill>
    void send_event(Fill fill, BytesView payload = {});

    const bool m_quiet;
    net::ThrowawayCa m_ca;
    net::TlsCredentials m_client;
    net::Listener m_listener;
    protocol::Link m_link;
    std::unique_ptr<net::ChannelPump> m_pump;
    net::Socket m_beneath;  // the connection's socket again, below TLS
    std::thread m_thread;
    Mutex m_mutex;
    ConditionVariable m_changed;
    std::vector<SeenCall> m_calls WL_GUARDED_BY(m_mutex);
    std::vector<uint64_t> m_host_calls_done WL_GUARDED_BY(m_mutex);
    bool m_ended WL_GUARDED_BY(m_mutex) = false;
    bool m_closed WL_GUARDED_BY(m_mutex) = false;
};

/// A session with a fake server, and what a call needs besides.
struct SessionFixture {
    explicit SessionFixture(FakeServer& server);
    ~SessionFixture();
    Call call(cuda::CallId id = cuda::CallId::cuCtxSynchronize);

    std::unique_ptr<Session> session;
    State state;
    ThreadState thread;
    std::atomic<int> ended{0};  ///< CUresult that the session ended with
};

}  // namespace warpline::client::test
