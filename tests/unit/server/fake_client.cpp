// A client that says what a test tells it.
#include "tests/unit/server/fake_client.h"

#include <algorithm>

namespace warpline::server::test {

FakeClient::FakeClient() : m_link(*this) {}

FakeClient::~FakeClient() {
    if (m_pump == nullptr) return;
    m_pump->stop();
    m_pump->join();
}

namespace {

using namespace std::chrono_literals;

/// TCP, the preamble, TLS.
std::unique_ptr<net::TlsChannel> shake(uint16_t port, const net::TlsCredentials& credentials,
                                       const protocol::Preamble& preamble, const std::optional<protocol::SessionKey>& key,
                                       std::string& why) {
    auto socket = net::dial({"127.0.0.1", port}, 5s, why);
    if (!socket.ok()) return nullptr;
    const auto bytes = protocol::encode_preamble(preamble);
    if (!socket->write_all(bytes, 5s).ok()) return nullptr;
    auto context = net::TlsContext::create(net::TlsRole::client, credentials, why);
    if (!context.ok()) return nullptr;
    net::TlsChannel::Options options;
    options.handshake_timeout = FakeClient::k_patience;
    if (key) options.key = net::PresharedKey{*key, Bytes(bytes.begin(), bytes.end())};
    auto channel = net::TlsChannel::handshake(*context, std::move(*socket), "127.0.0.1", options, why);
    return channel.ok() ? std::move(*channel) : nullptr;
}

}  // namespace

std::optional<protocol::OpenAnswer> FakeClient::open(uint16_t port, const net::TlsCredentials& credentials, std::string& why) {
    const auto door = shake(port, credentials, {}, std::nullopt, why);
    if (door == nullptr) return std::nullopt;
    const auto request = protocol::encode_open({"test", 0});
    const BytesView pieces[] = {*request};
    const auto until = std::chrono::steady_clock::now() + k_patience;
    static_cast<void>(door->write(pieces).ok());
    const auto frame = protocol::read_single_frame(protocol::FrameKind::open,
                                                   [&](MutableBytesView into) { return door->read_exact(into, until); });
    if (!frame.ok()) {
        why = door->explain().empty() ? frame.error().what : door->explain();
        return std::nullopt;
    }
    auto answer = protocol::decode_open_answer(*frame);
    if (answer.ok() && answer->refused == Code::ok) return *answer;
    why = answer.ok() ? answer->reason : answer.error().what;
    return std::nullopt;
}

std::unique_ptr<net::TlsChannel> FakeClient::lane(uint16_t port, const net::TlsCredentials& credentials,
                                                  const protocol::Preamble& preamble, const protocol::SessionKey& key,
                                                  std::string& why) {
    return shake(port, credentials, preamble, key, why);
}

/// The link's frames, with what tests want to have sent between them.
class FakeClient::Outgoing final : public net::LinkUser<protocol::Link> {
public:
    explicit Outgoing(FakeClient& client) : LinkUser(client.m_link), m_client(client) {}
    bool take_output(std::vector<BytesView>& views) override {
        const bool frames = LinkUser::take_output(views);
        MutexLock lock(m_client.m_mutex);
        if (m_client.m_raw.empty()) return frames;
        m_client.m_raw_leaving.swap(m_client.m_raw);
        m_client.m_raw.clear();
        views.push_back(m_client.m_raw_leaving);
        return true;
    }

private:
    FakeClient& m_client;
};

void FakeClient::on_ended(const Error&, const std::string& explanation) {
    MutexLock lock(m_mutex);
    m_explanation = explanation;
    m_ended = true;
    m_changed.notify_all();
}

std::unique_ptr<FakeClient> FakeClient::connect(uint16_t port, const net::TlsCredentials& credentials, std::string& why) {
    const auto opened = open(port, credentials, why);
    if (!opened) return nullptr;
    auto channel = lane(port, credentials, {protocol::Preamble::Kind::lane, opened->session, 0, 0}, opened->key, why);
    if (channel == nullptr || !channel->proved_by_key()) return nullptr;
    std::unique_ptr<FakeClient> client(new FakeClient);
    client->session = opened->session;
    client->key = opened->key;
    client->m_pump = std::make_unique<net::ChannelPump>(std::move(channel), std::make_unique<Outgoing>(*client));
    if (!client->m_pump->start().ok()) return nullptr;
    return client;
}

std::optional<FakeClient::HelloAnswer> FakeClient::hello(uint16_t version_min, uint16_t version_max) {
    auto body = protocol::build_message<wire::Hello>([&](wire::Hello::Builder hello) {
        hello.setVersionMin(version_min);
        hello.setVersionMax(version_max);
        hello.setClientVersion("test");
        hello.setProgram("server_test");
        hello.setPid(4711);
        hello.setHost("here");
        hello.setWindowAddress(k_window);
        hello.setWindowBytes(uint64_t{64} << 30);
        hello.setWantsUploads(wants_uploads);
    });
    if (!body.ok() || !m_link.outbox().add_body(protocol::FrameKind::hello, std::move(*body)).ok()) return std::nullopt;
    MutexLock lock(m_mutex);
    wait_for([this]() WL_REQUIRES(m_mutex) { return m_hello.has_value() || m_ended; });
    if (m_hello && m_hello->version != 0) context = m_hello->primary_context, window = m_hello->window_address;
    return m_hello;
}

template <typename Predicate>
bool FakeClient::wait_for(Predicate predicate) {
    const auto deadline = std::chrono::steady_clock::now() + k_patience;
    while (!predicate()) {
        if (!m_changed.wait_until(m_mutex, deadline)) return predicate();
    }
    return true;
}

uint64_t FakeClient::send(const protocol::CallHeader& header, protocol::FillArgs fill, BytesView payload) {
    const auto ignore = [](uint64_t) {};
    const auto number =
        payload.size() > k_chunk_bytes
            ? m_link.outbox().add_streamed_call(header, k_max_words, fill, ignore, payload, protocol::Lent::until_return)
            : m_link.outbox().add_call(header, k_max_words, fill, ignore, payload, protocol::Urgency::writer);
    return number.ok() ? *number : 0;
}

FakeReply FakeClient::wait_reply(uint64_t call) {
    MutexLock lock(m_mutex);
    wait_for([this, call]() WL_REQUIRES(m_mutex) { return m_replies.contains(call) || m_ended; });
    const auto found = m_replies.find(call);
    return found != m_replies.end() ? found->second : FakeReply{};
}

bool FakeClient::has_reply(uint64_t call) {
    MutexLock lock(m_mutex);
    return m_replies.contains(call);
}

std::optional<std::string> FakeClient::wait_copy(uint64_t call) {
    MutexLock lock(m_mutex);
    wait_for([this, call]() WL_REQUIRES(m_mutex) { return m_copies.contains(call) || m_ended; });
    const auto found = m_copies.find(call);
    if (found == m_copies.end()) return std::nullopt;
    return found->second;
}

bool FakeClient::has_copy(uint64_t call) {
    MutexLock lock(m_mutex);
    return m_copies.contains(call);
}

std::optional<uint64_t> FakeClient::wait_host_call() {
    MutexLock lock(m_mutex);
    wait_for([this]() WL_REQUIRES(m_mutex) { return !m_host_calls.empty() || m_ended; });
    if (m_host_calls.empty()) return std::nullopt;
    const uint64_t id = m_host_calls.front();
    m_host_calls.pop_front();
    return id;
}

void FakeClient::host_call_done(uint64_t id) {
    static_cast<void>(m_link.outbox().add_message<wire::Event>(
        protocol::FrameKind::event, 16, [&](wire::Event::Builder event) { event.initHostCallDone().setId(id); }));
}

bool FakeClient::has_host_call() {
    MutexLock lock(m_mutex);
    return !m_host_calls.empty();
}

void FakeClient::host_data(uint64_t id, uint64_t offset, BytesView bytes) {
    static_cast<void>(m_link.outbox().add_message<wire::Event>(
        protocol::FrameKind::event, 16,
        [&](wire::Event::Builder event) {
            auto data = event.initHostData();
            data.setId(id), data.setOffset(offset);
        },
        bytes));
}

std::string FakeClient::output() {
    MutexLock lock(m_mutex);
    return m_output;
}

std::vector<std::pair<uint64_t, int>> FakeClient::async_errors() {
    MutexLock lock(m_mutex);
    return m_async_errors;
}

void FakeClient::send_raw(BytesView bytes) {
    {
        MutexLock lock(m_mutex);
        m_raw.assign(bytes.begin(), bytes.end());
    }
    // A frame wakes the writing thread, which then finds them.
    m_link.outbox().add_ping(protocol::k_command_lane);
}

void FakeClient::send_body(protocol::FrameKind kind, protocol::Buffer body) {
    static_cast<void>(m_link.outbox().add_body(kind, std::move(body)));
}

bool FakeClient::wait_end() {
    MutexLock lock(m_mutex);
    return wait_for([this]() WL_REQUIRES(m_mutex) { return m_ended; });
}

std::string FakeClient::close_reason() {
    MutexLock lock(m_mutex);
    return m_close_reason;
}

std::string FakeClient::end_explanation() {
    MutexLock lock(m_mutex);
    return m_explanation;
}

Result<void> FakeClient::on_frame(protocol::Frame frame) {
    using protocol::FrameKind;
    MutexLock lock(m_mutex);
    m_changed.notify_all();
    const BytesView body = frame.body.view();
    const std::string payload(as_text(frame.payload_view()));
    switch (frame.header.kind) {
        case FrameKind::hello_reply:
            return protocol::read_message<wire::HelloReply>(
                body, [&](wire::HelloReply::Reader reply) WL_NO_THREAD_SAFETY_ANALYSIS {
                    HelloAnswer answer;
                    answer.version = reply.getVersion();
                    answer.error = reply.getError().cStr();
                    answer.tenant = reply.getTenant().cStr();
                    answer.window_address = reply.getWindowAddress();
                    answer.window_bytes = reply.getWindowBytes();
                    answer.memory_credit = reply.getMemoryCreditBytes();
                    answer.devices = reply.getDevices().size();
                    if (answer.devices > 0) {
                        answer.device_name = reply.getDevices()[0].getName().cStr();
                        answer.primary_context = reply.getDevices()[0].getPrimaryContext();
                    }
                    m_hello = answer;
                });
        case FrameKind::bulk: {
            const auto header = WL_TRY(protocol::read_bulk_header(body, payload.size()));
            m_bulk[header.call] += payload;
            return {};
        }
        case FrameKind::reply:
            return protocol::read_message<wire::Reply>(body, [&](wire::Reply::Reader message) WL_NO_THREAD_SAFETY_ANALYSIS {
                FakeReply& reply = m_replies[message.getCall()];
                reply.result = message.getResult();
                reply.payload = payload.empty() ? m_bulk[message.getCall()] : payload;
                reply.body.assign(body.begin(), body.end());
            });
        case FrameKind::event:
            return protocol::read_message<wire::Event>(body, [&](wire::Event::Reader event) WL_NO_THREAD_SAFETY_ANALYSIS {
                if (event.isAsyncError()) {
                    m_async_errors.emplace_back(event.getAsyncError().getCall(), event.getAsyncError().getResult());
                } else if (event.isCopyDone()) {
                    const uint64_t call = event.getCopyDone().getCall();
                    m_copies[call] = payload.empty() ? m_bulk[call] : payload;
                } else if (event.isOutput()) {
                    m_output += payload;
                } else if (event.isHostCall()) {
                    m_host_calls.push_back(event.getHostCall().getId());
                }
            });
        case FrameKind::close:
            return protocol::read_message<wire::Close>(body, [&](wire::Close::Reader close) WL_NO_THREAD_SAFETY_ANALYSIS {
                m_close_reason = close.getReason().cStr();
            });
        default: return {};
    }
}

}  // namespace warpline::server::test
