// From the handshake to the end: which frames a client may send when.
#include "server/worker/connection_from_client.h"

#include <unistd.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "common/log/log.h"
#include "common/net/link_user.h"
#include "protocol/schema/envelope.capnp.h"
#include "server/objects/send_event.h"

namespace warpline::server {

namespace {

/// A part: long enough to be worth a change of threads, short enough for calls to wait for.
constexpr uint64_t k_shared_slot_bytes = 512 * 1024;
/// The first slabs of staging memory.
constexpr uint64_t k_shared_to_client_bytes = 36u << 20;
constexpr uint64_t k_shared_report_bytes = 4 * k_shared_slot_bytes;
/// How long a process that has closed its socket may take to be dead, if it dies.
constexpr std::chrono::milliseconds k_death_patience{200};

protocol::LinkOptions link_options(const ConnectionFromClient::Options& options) {
    protocol::LinkOptions link;
    link.outbox.chunk_bytes = ConnectionFromClient::k_chunk_bytes;
    link.heartbeat = options.heartbeat;
    link.fits_link = options.fits_link;
    return link;
}

/// Of the memory for staging, what payloads are received into: as much as may be under way, and no more than a quarter.
uint64_t arrivals_bytes(const ConnectionFromClient::Options& options) {
    return std::min(options.credit.bytes, options.session.max_staging_bytes / 4);
}

SessionOptions session_options(const ConnectionFromClient::Options& options) {
    SessionOptions session = options.session;
    session.max_staging_bytes -= arrivals_bytes(options);
    return session;
}

}  // namespace

Result<std::unique_ptr<ConnectionFromClient>> ConnectionFromClient::start(std::unique_ptr<net::Channel> channel,
                                                                          const Driver& driver,
                                                                          const std::vector<DeviceSnapshot>& devices,
                                                                          SessionCounters& counters, ConnectionHost& host,
                                                                          const Options& options) {
    auto connection = std::unique_ptr<ConnectionFromClient>(new ConnectionFromClient(driver, devices, counters, host, options));
    ConnectionFromClient& self = *connection;
    net::PumpOptions pump_options;
    pump_options.name = "client";
    pump_options.guests = options.idle_threads_read;
    self.m_pump = std::make_unique<net::ChannelPump>(std::move(channel), net::user_of(self.m_link), pump_options);
    WL_TRY(self.m_pump->start());
    return connection;
}

ConnectionFromClient::ConnectionFromClient(const Driver& driver, const std::vector<DeviceSnapshot>& devices,
                                           SessionCounters& counters, ConnectionHost& host, const Options& options)
    : m_driver(driver),
      m_devices(devices),
      m_counters(counters),
      m_host(host),
      m_options(options),
      m_arrivals(driver, arrivals_bytes(options), StagingMemory::FirstSlab::when_wanted),
      m_link(*this, link_options(options)),
      m_receiver(options.credit, options.compact_calls) {}

ConnectionFromClient::~ConnectionFromClient() {
    stop_lanes();
    // What is queued lies in memory of the session's.
    m_link.close(Error{Code::shutting_down, "the session has ended"}, true);
    if (m_uploads != nullptr) m_uploads->stop();
    m_session.reset();
}

void ConnectionFromClient::stop_lanes() {
    m_pump->stop();
    m_pump->join();
    for (const auto& lane : m_bulk)
        if (lane) lane->stop();
}

Result<void> ConnectionFromClient::on_frame(protocol::Frame frame) {
    using protocol::FrameKind;
    const FrameKind kind = frame.header.kind;
    if (kind == FrameKind::hello) return on_hello(frame);
    if (kind == FrameKind::close) return on_close();
    if (!m_session || m_closing) return Error{Code::malformed, "a frame comes before Hello or after Close"};
    if (kind == FrameKind::batch) {
        auto unit = WL_TRY(m_receiver.accept_batch(std::move(frame)));
        return m_session->accept(std::move(unit));
    }
    if (kind == FrameKind::bulk) return m_receiver.accept_bulk(std::move(frame));
    if (kind == FrameKind::event) return on_event(frame);
    return Error{Code::malformed, "a frame of a kind that clients do not send"};
}

Result<protocol::Place> ConnectionFromClient::place_payload(uint64_t, uint64_t, uint64_t, size_t bytes) {
    return place_part(bytes);
}

Result<void> ConnectionFromClient::on_part(protocol::Frame frame) {
    m_parts_received.fetch_add(frame.payload_view().size(), std::memory_order_relaxed);
    return m_receiver.accept_bulk(std::move(frame));
}

/// It is used where it lies; what the client does with it meanwhile is the client's own loss.
Result<protocol::Place> ConnectionFromClient::take_shared(uint64_t, uint64_t, uint64_t, MutableBytesView bytes) {
    // Not for programs that never copy much: it takes milliseconds.
    if (!std::exchange(m_shared_is_locked, true)) m_arrivals.lock_also(m_shared_arrivals->memory());
    return m_shared_arrivals->place(bytes);
}

/// Where the device can fetch it by itself, as long as there is room; what the driver copies in the call goes through the heap.
Result<protocol::Place> ConnectionFromClient::place_part(size_t bytes) {
    if (bytes <= k_copied_at_once_bytes) return protocol::Place{};
    return m_arrivals.place(bytes);
}

void ConnectionFromClient::on_level(const protocol::LinkLevelChange& change) {
    if (change.serious) {
        WL_LOG(warn, "link", "the client: {}", change.text);
    } else {
        WL_LOG(info, "link", "the client: {}", change.text);
    }
}

Result<void> ConnectionFromClient::on_event(const protocol::Frame& frame) {
    return protocol::read_message<wire::Event>(frame.body.view(), [&](wire::Event::Reader event) -> Result<void> {
        if (event.isHostData()) {
            const wire::HostData::Reader data = event.getHostData();
            if (!m_session->late_reads().receive(data.getId(), data.getOffset(), frame.payload_view()))
                m_session->graph_copies().receive(data.getId(), data.getOffset(), frame.payload_view());
            return {};
        }
        if (event.isLaneGivenUp()) {
            const uint16_t lane = event.getLaneGivenUp().getLane();
            if (!protocol::is_bulk_lane(lane) || std::exchange(m_given_up.at(lane), true))
                return Error{Code::malformed, "a lane is given up that cannot be, or was before"};
            m_host.lane_given_up(lane, event.getLaneGivenUp().getReceived());
            return {};
        }
        if (event.isOffer()) return on_offer(event.getOffer());
        if (!event.isHostCallDone()) return Error{Code::malformed, "an event that clients do not send"};
        const uint64_t id = event.getHostCallDone().getId();
        if (!m_session->late_reads().done(id)) m_session->host_calls().done(id);
        return {};
    });
}

Result<void> ConnectionFromClient::on_close() {
    m_closing = true;
    m_host.closing();
    const auto over = [this] {
        if (m_session) m_session->executed().tell();
        m_host.over("the client has finished");
    };
    if (!m_session || !m_session->push_last(over).ok()) over();
    return {};
}

Result<void> ConnectionFromClient::on_hello(const protocol::Frame& frame) {
    if (m_hello_seen) return Error{Code::malformed, "a second Hello"};
    m_hello_seen = true;
    const HelloData hello = WL_TRY(read_hello(frame.body.view()));
    if (hello.version_min > protocol::k_protocol_version_max || hello.version_max < protocol::k_protocol_version_min) {
        return refuse(Code::version_mismatch,
                      log::format("this server ({}) speaks version {} to {} of the protocol, the client ({}) version {} to {}",
                                  WARPLINE_VERSION, protocol::k_protocol_version_min, protocol::k_protocol_version_max,
                                  hello.client_version, hello.version_min, hello.version_max));
    }
    m_visible = select_devices(m_devices, hello.visible_devices);
    if (m_visible.empty()) {
        return refuse(Code::not_configured, log::format("CUDA_VISIBLE_DEVICES={} names none of the server's {} GPUs",
                                                        hello.visible_devices, m_devices.size()));
    }

    BegunMessage begun{};
    set_text(begun.program, hello.program);
    set_text(begun.host, hello.host);
    begun.pid = hello.pid;
    char here[256] = {};
    if (::gethostname(here, sizeof here - 1) == 0 && hello.host == std::string_view(here))
        m_program = static_cast<int>(hello.pid);
    m_host.begins(begun);
    return welcome(hello);
}

Result<void> ConnectionFromClient::refuse(Code code, std::string reason) {
    auto body = WL_TRY(make_refusal(code, reason));
    WL_TRY(m_link.outbox().add_body(protocol::FrameKind::hello_reply, std::move(body)));
    m_host.over(std::move(reason));
    return {};
}

/// The session's devices are as large as it may use of them.
void ConnectionFromClient::show_limit(uint64_t bytes) {
    for (DeviceSnapshot& device : m_visible) {
        device.total_bytes = std::min(device.total_bytes, bytes);
        device.free_bytes = std::min(device.free_bytes, bytes);
    }
}

Result<void> ConnectionFromClient::welcome(const HelloData& hello) {
    ClientPort& client = *this;
    m_host.session_sees(m_visible);
    const protocol::SharedLayout shared = hello.shares_memory ? share_memory() : protocol::SharedLayout{};
    SessionOptions options = session_options(m_options);
    options.shared_staging = shared.to_client(m_shared.bytes());
    options.memory = MemoryLimit::smaller_of(hello.memory_bytes, m_options.session_memory_bytes);
    if (options.memory.bytes != 0) show_limit(options.memory.bytes);
    m_session = std::make_unique<Session>(m_driver, m_visible, m_counters, client, m_receiver.grant(), options);
    if (hello.wants_executed && m_options.tell_executed) m_session->executed().begin();
    m_begun.store(true, std::memory_order_release);
    const auto window = m_session->memory().reserve_window(hello.window, address_space_of_this_machine());
    // Virtual GPUs and some virtual machines cannot map: then allocations wait, and have the driver's addresses.
    if (!window.ok())
        WL_LOG(info, "session", "device memory has the driver's own addresses, and allocating it waits: {}",
               window.error().what);
    if (!m_options.output.empty()) {
        m_session->set_output(std::make_unique<OutputCapture>(m_options.output, [this](int stream, BytesView text) {
            static_cast<void>(send_event(
                m_link.outbox(),
                [&](wire::Event::Builder event) { event.initOutput().setStream(static_cast<uint8_t>(stream)); }, text));
        }));
    }
    Welcome welcome;
    if (hello.wants_uploads && m_options.uploads != nullptr) {
        m_uploads = m_options.uploads;
        m_uploads->start(*this, m_options.credit.bytes);
        welcome.uploads = m_uploads;
    }
    welcome.version = std::min(hello.version_max, protocol::k_protocol_version_max);
    m_reported = hello.reported;
    welcome.server_name = m_options.server_name;
    welcome.tenant = m_options.tenant;
    welcome.credit = m_options.credit;
    welcome.bulk_lanes = m_options.bulk_lanes;
    if (m_options.compact_calls) welcome.remembered_calls = protocol::RememberedCalls::k_most_calls;
    agree_on_codecs(hello.compression);
    welcome.codecs = m_codecs.load();
    welcome.shared = shared;
    welcome.shares = m_session->sharing() != nullptr;
    welcome.chunk_bytes = k_chunk_bytes;
    welcome.heartbeat_ms = static_cast<uint32_t>(m_options.heartbeat.interval.count());
    welcome.window = m_session->memory().window();
    welcome.memory_limit_bytes = options.memory.bytes;
    welcome.memory_credit_bytes = m_session->memory().credit().at_start(m_visible.front(), m_options.memory_credit_bytes);
    auto body = WL_TRY(make_hello_reply(welcome, m_driver, m_visible));
    m_link.measure_round_trip();
    return m_link.outbox().add_body(protocol::FrameKind::hello_reply, std::move(body));
}

void ConnectionFromClient::on_tick() {
    count_bytes();
    if (m_session) m_session->executed().tell();
}

/// Memory for parts of payloads, made here, so that nothing of what the client gives us has to be believed; its descriptor goes
/// with what is sent next. Nothing: the client has no Unix socket, or there is no memory.
protocol::SharedLayout ConnectionFromClient::share_memory() {
    if (!m_options.shares_memory || !net::peer_user(m_pump->channel().fd())) return {};
    const uint64_t to_client =
        std::min(k_shared_to_client_bytes, session_options(m_options).max_staging_bytes & ~uint64_t{4095});
    const auto layout = protocol::SharedLayout::checked(k_shared_slot_bytes * protocol::SharedLayout::k_slots, to_client);
    net::Socket descriptor;
    auto memory =
        layout.ok() ? net::SharedMemory::create(layout->total_bytes(), descriptor) : Result<net::SharedMemory>(layout.error());
    if (!memory.ok()) {
        WL_LOG(warn, "session", "no memory is shared with the client: {} (errno {})", memory.error().what,
               memory.error().detail);
        return {};
    }
    m_shared = std::move(*memory);
    m_shared_arrivals.emplace(layout->to_server(m_shared.bytes()));
    m_shared_out.emplace(layout->to_client(m_shared.bytes()), k_shared_slot_bytes);
    m_link.share_in(layout->to_server(m_shared.bytes()));
    m_link.outbox().encoding().share(*m_shared_out);
    // A client that has no slots left sends bytes: it hears of those that are free soon.
    m_receiver.grant().report_after(k_shared_report_bytes);
    m_pump->channel().pass_descriptor(std::move(descriptor));
    return *layout;
}

void ConnectionFromClient::agree_on_codecs(const compress::Wish& wish) {
    if (!m_options.compression) return;
    m_codecs.store(wish.codecs);
    m_link.accept_codecs(wish.codecs);
    m_link.outbox().encoding().agree(wish.codecs, wish.forced);
}

void ConnectionFromClient::did_misbehave(const char* reason) {
    WL_LOG(warn, "session", "the session is ended: {}", reason);
    m_host.over(reason);
}

bool ConnectionFromClient::keeps() const {
    return m_session && m_options.grace.count() > 0 && !m_closing && !m_leaving.load() && !m_pump->refused();
}

/// False if it is unlikely that the client comes back: as a rule, a connection that was closed or reset without a goodbye is a
/// program's that was killed. Where that will be told, silence about it means that the program lives.
bool ConnectionFromClient::somebody_may_come(const net::Channel& lost) const {
    // Of a client that has not said anything yet, nobody knows whether it has heard that it has a session.
    if (m_link.received_sequence() == 0) return false;
    return m_reported || !lost.ended_by_peer();
}

void ConnectionFromClient::on_ended(const Error& error, const std::string& explanation) {
    count_bytes();
    const protocol::LinkQuality quality = m_link.quality();
    m_counters.round_trip_us.store(quality.smoothed_round_trip_us, std::memory_order_relaxed);
    m_counters.missed_pings.store(quality.missed_pings, std::memory_order_relaxed);
    const std::string reason = explanation.empty() ? error.what : explanation;
    if (!m_link.outbox().closed()) {
        const net::Channel& lost = m_pump->channel();
        // The socket of a process that dies is closed before it is dead.
        if (lost.ended_by_peer() && net::peer_has_ended(lost.fd(), m_program, k_death_patience))
            m_host.program_died();
        else
            m_host.orphaned(reason, !somebody_may_come(lost));
    } else {
        const Error lost{Code::connection_lost, "the connection to the client is lost"};
        m_receiver.fail(lost);
        if (m_session) m_session->connection_lost();
        // After an orderly end, what the client sent is still executed: LastWork says when.
        if (!(m_closing && m_session)) m_host.over(reason);
    }
    MutexLock lock(m_mutex);
    m_ended = true;
    m_ended_changed.notify_all();
}

bool ConnectionFromClient::resume(std::unique_ptr<net::Channel> channel, uint32_t epoch,
                                  const protocol::ResumeRequest& request) {
    const auto refuse_it = [&](Code code, const char* reason) {
        WL_LOG(warn, "session", "a connection from {} is refused: {}", channel->peer_address(), reason);
        static_cast<void>(protocol::answer_resume(*channel, {0, code, reason}));
        return false;
    };
    if (!request.dead && epoch <= m_epoch) return refuse_it(Code::denied, "a later connection has taken over");
    if (request.dead) {
        WL_LOG(info, "session", "{} says that the program is dead", channel->peer_address());
        m_host.program_died();
        static_cast<void>(protocol::answer_resume(*channel, {}));
        channel->send_end();
        return false;
    }
    m_epoch = epoch;
    // The connection before is superseded: its threads have let go of everything before anything is answered.
    m_pump->stop();
    m_pump->join();
    if (m_closing || m_link.outbox().closed()) return refuse_it(Code::unknown_handle, "this session has ended");
    if (!protocol::answer_resume(*channel, {m_link.received_sequence(), Code::ok, {}}).ok()) return false;
    {
        MutexLock lock(m_mutex);
        m_ended = false;
    }
    m_host.resumed();
    const auto restarted = m_pump->restart(std::move(channel), [&] { return m_link.attach(request.received); });
    if (!restarted.ok() && restarted.error().code == Code::malformed) did_misbehave(restarted.error().what);
    return restarted.ok();
}

void ConnectionFromClient::resume_bulk(std::unique_ptr<net::Channel> channel, uint16_t lane, uint32_t epoch,
                                       const protocol::ResumeRequest& request) {
    if (lane == protocol::k_command_lane || lane > m_options.bulk_lanes || m_leaving.load()) return;
    std::unique_ptr<BulkLane>& bulk = m_bulk[lane - 1u];
    if (!bulk) {
        BulkLane::Owner& owner = *this;
        protocol::LinkOptions link = link_options(m_options);
        link.codecs = m_codecs.load();
        bulk = std::make_unique<BulkLane>(owner, m_link.outbox(), lane, link);
    }
    const auto resumed = bulk->resume(std::move(channel), epoch, request);
    if (resumed.ok()) return;
    WL_LOG(debug, "session", "bulk lane {}: {}", lane, resumed.error().what);
    if (resumed.error().code == Code::malformed) did_misbehave(resumed.error().what);
}

void ConnectionFromClient::give_up_bulk(uint16_t lane, uint64_t received) {
    BulkLane* const bulk = m_bulk.at(lane - 1u).get();
    if (bulk == nullptr) return did_misbehave("the client gives up a lane that it never had");
    const uint64_t has = bulk->give_up();
    auto told = protocol::build_message<wire::Event>([&](wire::Event::Builder event) {
        auto given_up = event.initLaneGivenUp();
        given_up.setLane(lane);
        given_up.setReceived(has);
    });
    if (!told.ok()) return did_misbehave(told.error().what);
    const auto moved = m_link.outbox().give_up(lane, received, std::move(*told));
    if (!moved.ok()) return did_misbehave(moved.error().what);
    WL_LOG(info, "session", "the client has given up bulk lane {}; what was on its way goes over the others", lane);
}

void ConnectionFromClient::say_goodbye(Code code, const std::string& reason, std::chrono::milliseconds patience) {
    m_leaving.store(true);
    m_link.say_goodbye(code, reason);
    const auto deadline = std::chrono::steady_clock::now() + patience;
    {
        MutexLock lock(m_mutex);
        while (!m_ended && m_ended_changed.wait_until(m_mutex, deadline)) {
        }
    }
    stop_lanes();
}

void ConnectionFromClient::count_bytes() {
    m_counters.received_bytes.store(m_link.bytes_received() + m_parts_received.load(std::memory_order_relaxed),
                                    std::memory_order_relaxed);
    m_counters.sent_bytes.store(m_link.outbox().counters().bytes, std::memory_order_relaxed);
}

}  // namespace warpline::server
