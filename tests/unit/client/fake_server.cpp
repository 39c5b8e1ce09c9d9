// A server that answers calls as a test tells it.
#include "tests/unit/client/fake_server.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "common/net/link_user.h"
#include "common/net/tls.h"
#include "protocol/codec/batch.h"
#include "protocol/codec/preamble.h"
#include "protocol/session/open.h"

namespace warpline::client::test {

namespace {
constexpr unsigned k_words = 64;
constexpr std::chrono::seconds k_timeout{10};

net::Listener listen() {
    std::string why;
    return net::Listener::open("127.0.0.1", 0, why).value();
}

constexpr std::chrono::hours k_quiet{1};

protocol::LinkOptions link_options(bool quiet) {
    protocol::LinkOptions options;
    if (quiet) options.heartbeat = protocol::HeartbeatOptions::of(k_quiet, {}, 8 * k_quiet);
    return options;
}

}  // namespace

FakeServer::FakeServer(bool quiet)
    : m_quiet(quiet),
      m_ca(net::ThrowawayCa::create("fake").value()),
      m_client(m_ca.issue({"tester", net::TlsRole::client, {}}).value()),
      m_listener(listen()),
      m_link(*this, link_options(quiet)),
      m_thread([this] { accept(); }) {}

FakeServer::~FakeServer() {
    m_listener.stop();
    m_thread.join();
    if (m_pump) {
        m_pump->stop();
        m_pump->join();
    }
}

ConnectionSettings FakeServer::settings() const {
    ConnectionSettings settings;
    settings.server = "127.0.0.1:" + std::to_string(m_listener.port());
    settings.identity = Identity(m_client);
    settings.window_base = 0x300000000000;
    settings.window_bytes = 1ull << 36;
    settings.program = "test";
    if (m_quiet) {
        settings.nap = settings.longest_nap = k_quiet;
        settings.idle_naps = 1'000'000;
        settings.heartbeat = link_options(true).heartbeat;
    }
    return settings;
}

namespace {

/// Somebody comes, and says what he wants. Nothing if he does not.
struct Comer {
    net::Socket socket;
    std::array<std::byte, protocol::k_preamble_bytes> preamble{};
};
std::optional<Comer> next(net::Listener& listener) {
    auto socket = listener.accept();
    if (!socket.ok()) return std::nullopt;
    Comer comer;
    comer.socket = std::move(*socket);
    if (!comer.socket.read_exact(comer.preamble, k_timeout).ok()) return std::nullopt;
    if (!protocol::decode_preamble(comer.preamble).ok()) return std::nullopt;
    return comer;
}

/// What a door does for who opens a session. False if he does not.
bool open_door(net::TlsChannel& channel, const protocol::OpenAnswer& answer) {
    const auto until = std::chrono::steady_clock::now() + k_timeout;
    const auto frame = protocol::read_single_frame(protocol::FrameKind::open,
                                                   [&](MutableBytesView into) { return channel.read_exact(into, until); });
    if (!frame.ok() || !protocol::decode_open(*frame).ok()) return false;
    const auto bytes = protocol::encode_open_answer(answer);
    const BytesView pieces[] = {*bytes};
    return channel.write(pieces).ok();
}

}  // namespace

void FakeServer::accept() {
    std::string why;
    protocol::OpenAnswer opened;
    opened.session.fill(std::byte{1});
    opened.key.fill(std::byte{2});
    auto credentials = m_ca.issue({"server", net::TlsRole::server, {"127.0.0.1"}}).value();
    auto context = net::TlsContext::create(net::TlsRole::server, credentials, why);
    auto at_door = next(m_listener);
    if (!at_door) return;
    const auto door = net::TlsChannel::handshake(*context, std::move(at_door->socket), "", {}, why);
    if (!door.ok() || !open_door(**door, opened)) return;

    auto lane = next(m_listener);
    if (!lane) return;
    const auto for_keys = net::TlsContext::create_for_keys(net::TlsRole::server);
    net::TlsChannel::Options options;
    options.key = net::PresharedKey{opened.key, Bytes(lane->preamble.begin(), lane->preamble.end())};
    m_beneath = net::Socket(::dup(lane->socket.fd()));
    auto channel = net::TlsChannel::handshake(*for_keys, std::move(lane->socket), "", options, why);
    if (!channel.ok()) return;
    m_pump = std::make_unique<net::ChannelPump>(std::move(*channel), net::user_of(m_link));
    (void)m_pump->start().ok();
}

void FakeServer::on_ended(const Error&, const std::string&) {
    MutexLock lock(m_mutex);
    m_ended = true;
    m_changed.notify_all();
}

Result<void> FakeServer::on_frame(protocol::Frame frame) {
    switch (frame.header.kind) {
        case protocol::FrameKind::hello: return on_hello();
        case protocol::FrameKind::batch: return on_batch(frame);
        case protocol::FrameKind::close: {
            MutexLock lock(m_mutex);
            m_closed = true;
            m_changed.notify_all();
            return Error{Code::connection_lost, "the client has closed"};
        }
        case protocol::FrameKind::event:
            return protocol::read_message<wire::Event>(frame.body.view(), [&](wire::Event::Reader event) {
                MutexLock lock(m_mutex);
                if (event.isHostCallDone()) m_host_calls_done.push_back(event.getHostCallDone().getId());
                m_changed.notify_all();
            });
        default: return {};
    }
}

Result<void> FakeServer::on_hello() {
    if (hang_up) return Error{Code::connection_lost, "hanging up"};
    auto body = protocol::build_message<wire::HelloReply>([&](wire::HelloReply::Builder reply) {
        if (!refusal.empty()) {
            reply.setError(refusal);
            reply.setErrorCode(static_cast<uint16_t>(refusal_code));
            return;
        }
        reply.setVersion(1);
        reply.setServerName("fake");
        reply.setDriverVersion(13000);
        reply.setDriverKind(wire::DriverKind::SOFTWARE);
        reply.setWindowAddress(0x300000000000);
        reply.setWindowBytes(1ull << 36);
        reply.setMemoryCreditBytes(64 << 20);
        reply.initLimits().setMemoryBytes(memory_limit);
        auto device = reply.initDevices(1)[0];
        device.setName("fake device");
        device.setTotalMemoryBytes(1 << 30);
        device.setComputeMajor(8);
        auto attributes = device.initAttributes(1);
        attributes[0].setId(CU_DEVICE_ATTRIBUTE_WARP_SIZE);
        attributes[0].setValue(32);
    });
    WL_TRY(m_link.outbox().add_body(protocol::FrameKind::hello_reply, std::move(*body)));
    if (!farewell.empty()) close(Code::shutting_down, farewell);
    return {};
}

Result<void> FakeServer::on_batch(const protocol::Frame& frame) {
    auto reader = protocol::BatchReader::open(frame.body.view(), frame.payload_view());
    if (!reader.ok()) return reader.error();
    for (;;) {
        auto more = reader->next();
        if (!more.ok()) return more.error();
        if (!*more) return {};
        const protocol::CallView& view = reader->call();
        SeenCall seen{view.number, view.header, Bytes(view.payload.begin(), view.payload.end()),
                      view.streamed ? view.payload_bytes : 0};
        {
            MutexLock lock(m_mutex);
            m_calls.push_back(seen);
            m_changed.notify_all();
        }
        if (on_call) {
            on_call(seen);
        } else if (seen.header.wants_reply) {
            reply(seen.number, CUDA_SUCCESS);
        }
    }
}

void FakeServer::reply(uint64_t call, CUresult result, BytesView payload) {
    (void)m_link.outbox()
        .add_message<wire::Reply>(
            protocol::FrameKind::reply, k_words,
            [&](wire::Reply::Builder reply) {
                reply.setCall(call);
                reply.setResult(result);
                reply.setPayloadBytes(payload.size());
            },
            payload)
        .ok();
}

template <typename Fill>
void FakeServer::send_event(Fill fill, BytesView payload) {
    (void)m_link.outbox().add_message<wire::Event>(protocol::FrameKind::event, k_words, fill, payload).ok();
}

void FakeServer::bulk(uint64_t call, uint64_t offset, uint64_t total, BytesView part) {
    // Fails once the client has ended the session because of an earlier one.
    static_cast<void>(m_link.outbox().add_message<wire::Bulk>(
        protocol::FrameKind::bulk, 16,
        [&](wire::Bulk::Builder header) {
            header.setCall(call);
            header.setOffset(offset);
            header.setTotal(total);
        },
        part));
}

void FakeServer::copy_done(uint64_t call, BytesView payload, CUresult result) {
    send_event(
        [&](wire::Event::Builder event) {
            auto done = event.initCopyDone();
            done.setCall(call);
            done.setResult(result);
            done.setBytes(payload.size());
        },
        payload);
}

void FakeServer::async_error(uint64_t call, CUresult result) {
    send_event([&](wire::Event::Builder event) {
        auto error = event.initAsyncError();
        error.setCall(call);
        error.setResult(result);
    });
}

void FakeServer::output(std::string_view text) {
    send_event([&](wire::Event::Builder event) { event.initOutput().setStream(1); }, as_bytes(text));
}

void FakeServer::host_call(uint64_t id, CUresult status) {
    send_event([&](wire::Event::Builder event) {
        auto wanted = event.initHostCall();
        wanted.setId(id);
        wanted.setResult(status);
    });
}

void FakeServer::close(Code code, std::string_view reason) { m_link.say_goodbye(code, reason); }

void FakeServer::drop() { m_pump->stop(); }

void FakeServer::garble() {
    constexpr std::array<std::byte, 64> k_no_record{};
    (void)m_beneath.write_all(k_no_record, k_timeout).ok();
}

void FakeServer::wait_for_calls(size_t count) {
    auto deadline = std::chrono::steady_clock::now() + k_timeout;
    MutexLock lock(m_mutex);
    while (m_calls.size() < count) ASSERT_TRUE(m_changed.wait_until(m_mutex, deadline)) << "calls are missing";
}

std::vector<SeenCall> FakeServer::calls() {
    MutexLock lock(m_mutex);
    return m_calls;
}

void FakeServer::wait_for_host_call_done(uint64_t id) {
    auto deadline = std::chrono::steady_clock::now() + k_timeout;
    MutexLock lock(m_mutex);
    while (std::find(m_host_calls_done.begin(), m_host_calls_done.end(), id) == m_host_calls_done.end()) {
        ASSERT_TRUE(m_changed.wait_until(m_mutex, deadline)) << "the function did not end";
    }
}

void FakeServer::wait_for_close() {
    auto deadline = std::chrono::steady_clock::now() + k_timeout;
    MutexLock lock(m_mutex);
    while (!m_closed) ASSERT_TRUE(m_changed.wait_until(m_mutex, deadline)) << "no goodbye";
}

SessionFixture::SessionFixture(FakeServer& server) {
    std::string why;
    auto made = Session::connect(
        server.settings(), [this](CUresult result) { ended.store(result); }, why);
    EXPECT_TRUE(made.ok()) << why;
    if (made.ok()) session = std::move(*made);
}

SessionFixture::~SessionFixture() {
    if (session) session->finish();
}

Call SessionFixture::call(cuda::CallId id) { return Call{id, thread, *session, state}; }

}  // namespace warpline::client::test
