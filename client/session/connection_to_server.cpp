// Connecting, and passing on what arrives.
#include "client/session/connection_to_server.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "client/managed/held_signals.h"
#include "client/session/environment.h"
#include "client/session/hello.h"
#include "client/session/session.h"
#include "client/session/waiter.h"
#include "client/trace/trace.h"
#include "common/base/copy_past_caches.h"
#include "common/log/log.h"
#include "common/net/link_user.h"
#include "common/net/socket.h"
#include "protocol/codec/preamble.h"

namespace warpline::client {

namespace {
constexpr std::chrono::seconds k_hello_timeout{30};   // a worker may have to start, and its driver
constexpr std::chrono::seconds k_goodbye_timeout{2};  // at the end of the process
// Of calls that the server has given no credit for yet: a million launches and more, which their thread need not wait for.
constexpr size_t k_backlog_bytes = 64u << 20;
// Natively a thread runs about 1,024 launches ahead. Twice what the server reports at once, so that neither waits.
constexpr uint64_t k_calls_ahead = 2 * protocol::k_progress_calls;
/// Of a copy that is longer, nothing that a program reads first is in a core's cache any more when it returns.
constexpr uint64_t k_cached_copy_bytes = 8u << 20;
protocol::LinkOptions link_options(const ConnectionSettings& settings, trace::Traffic* traffic) {
    protocol::LinkOptions options;
    options.observer = options.outbox.observer = traffic;
    options.outbox.chunk_bytes = ConnectionToServer::k_chunk_bytes;
    if (settings.switches.uses(config::Optimisation::batching)) {
        options.outbox.backlog_bytes = k_backlog_bytes;
        options.outbox.calls_ahead = k_calls_ahead;
        options.outbox.nap = settings.nap;
        options.outbox.longest_nap = settings.longest_nap;
        // A thread that looks now and then takes its time from others where there is one core.
        if (std::thread::hardware_concurrency() > 1) options.outbox.idle_naps = settings.idle_naps;
    }
    options.heartbeat = settings.heartbeat;
    options.codecs = settings.compression.codecs;
    options.fits_link = settings.switches.uses(config::Optimisation::parts);
    return options;
}

/// As CUDA waits with these flags of a context: it would look without end, too, but for its own device.
net::Looking looking_for(unsigned schedule, std::chrono::microseconds spin) {
    constexpr std::chrono::microseconds k_wanted{1000};
    switch (schedule) {
        case CU_CTX_SCHED_SPIN: return {std::max(spin, k_wanted), false, false};
        case CU_CTX_SCHED_YIELD: return {std::max(spin, k_wanted), false, true};
        case CU_CTX_SCHED_BLOCKING_SYNC: return {};
        default: return {spin};
    }
}

}  // namespace

/// The answer to Hello on its way from the receiving thread to the one that connects.
struct ConnectionToServer::HelloAnswer {
    std::promise<Result<protocol::Buffer>> promise;
    bool answered = false;  // the receiving thread's
};

ConnectionToServer::ConnectionToServer(Session& session, const ConnectionSettings& settings)
    : m_session(session),
      m_settings(settings),
      m_traffic(trace::is_on() ? std::make_unique<trace::Traffic>() : nullptr),
      m_link(*this, link_options(settings, m_traffic.get())),
      m_hello(std::make_unique<HelloAnswer>()),
      m_bulk(*this, m_link.outbox(),
             {link_options(settings, m_traffic.get()), settings.grace, settings.reconnect_first, settings.reconnect_longest}),
      m_hashes(m_link.outbox()) {}

ConnectionToServer::~ConnectionToServer() { join(); }

void ConnectionToServer::join() {
    if (!m_pump) return;
    leave();
    m_bulk.stop();
    // A recovery under way may start the threads again; one that begins hereafter finds that we leave.
    m_pump->stop();
    join_recovery();
    m_pump->stop();
    m_pump->join();
    join_recovery();
    m_link.close(Error{Code::shutting_down, "the session has ended"}, true);
    m_hashes.join();
}

void ConnectionToServer::join_recovery() {
    std::thread recovery;
    {
        MutexLock lock(m_recovery_mutex);
        recovery.swap(m_recovery);
    }
    if (recovery.joinable()) recovery.join();
}

Result<std::unique_ptr<net::Channel>> ConnectionToServer::open_lane(net::Socket socket, uint16_t lane, uint32_t epoch,
                                                                    std::chrono::milliseconds timeout, std::string& why) {
    return m_settings.identity.greet(std::move(socket), m_endpoint, {protocol::Preamble::Kind::lane, m_session_id, lane, epoch},
                                     m_key, timeout, why);
}

Result<std::unique_ptr<net::Channel>> ConnectionToServer::open_session(std::string& why) {
    constexpr std::chrono::seconds k_longest_handshake{10};
    const auto timeout = m_settings.connect_timeout;
    const auto answer_by = std::chrono::steady_clock::now() + timeout;
    net::Socket to_door = WL_TRY(net::dial(m_endpoint, timeout, why));
    if (m_endpoint.kind == net::Endpoint::Kind::tcp) {
        // A name may stand for several servers; the session is on the one at this address.
        const auto reached = net::parse_endpoint(to_door.peer_address());
        if (reached.ok() && reached->host != m_endpoint.host) m_endpoint.addresses = {reached->host};
    }
    const auto door = WL_TRY(m_settings.identity.greet(std::move(to_door), m_endpoint, {}, std::nullopt,
                                                       std::min<std::chrono::milliseconds>(timeout, k_longest_handshake), why));
    // Right behind our end of the handshake; and while it is answered, the lane's socket is connected.
    const Bytes request = WL_TRY(protocol::encode_open({WARPLINE_VERSION, driver_settings()}));
    const BytesView pieces[] = {request};
    const auto sent = door->write(pieces);
    auto lane = net::dial(m_endpoint, timeout, why);
    const auto exchange = [&]() -> Result<protocol::OpenAnswer> {
        WL_TRY(sent);
        const auto frame = WL_TRY(protocol::read_single_frame(
            protocol::FrameKind::open, [&](MutableBytesView bytes) { return door->read_exact(bytes, answer_by); }));
        return protocol::decode_open_answer(frame);
    };
    const auto answer = exchange();
    if (!answer.ok()) {
        // A server that does not accept our certificate says so now.
        const std::string explanation = door->explain();
        why = log::format("{}: {}", m_address, explanation.empty() ? answer.error().what : explanation);
        return answer.error();
    }
    if (answer->refused != Code::ok) {
        why = log::format("{}: {}", m_address, answer->reason);
        return Error{answer->refused, "the server refused the session"};
    }
    if (!lane.ok()) return lane.error();
    m_session_id = answer->session;
    m_key = answer->key;
    // A worker may have to start, and its driver.
    auto channel = open_lane(std::move(*lane), protocol::k_command_lane, 0, k_hello_timeout, why);
    // The door has just given us the key: it is right, and what does not fit was changed on the way.
    if (!channel.ok() && channel.error().code == Code::auth_failed)
        return Error{Code::connection_lost, "the first lane of the session is lost"};
    if (channel.ok() && may_share()) (*channel)->accept_descriptor();
    if (!channel.ok() || (*channel)->proved_by_key()) return channel;
    why = log::format("{}: the server has given up the session that it had opened", m_address);
    return Error{Code::connection_lost, "the session has gone before it began"};
}

Result<std::unique_ptr<ConnectionToServer>> ConnectionToServer::connect(Session& session, const ConnectionSettings& settings,
                                                                        std::string& why) {
    Result<net::Endpoint> endpoint = net::parse_endpoint(settings.server);
    if (!endpoint.ok()) {
        why = log::format("'{}' is not a server address; write host:port, unix:PATH or vsock:CID:PORT", settings.server);
        return endpoint.error();
    }
    std::unique_ptr<ConnectionToServer> connection(new ConnectionToServer(session, settings));
    connection->m_endpoint = *endpoint;
    connection->m_address = endpoint->to_string();
    auto channel = WL_TRY(connection->open_session(why));
    net::PumpOptions options;
    options.name = "wl-client";
    options.guests = settings.switches.uses(config::Optimisation::reading);
    connection->m_pump = std::make_unique<net::ChannelPump>(std::move(channel), net::user_of(connection->m_link), options);
    WL_TRY(connection->m_pump->start());
    return connection;
}

Result<ServerInfo> ConnectionToServer::exchange_hello(const ConnectionSettings& settings, std::string& why) {
    std::future<Result<protocol::Buffer>> answer = m_hello->promise.get_future();
    // A link that takes no more has ended: the receiving thread, which knows why, answers in the server's stead.
    const auto sent = outbox().add_body(protocol::FrameKind::hello, WL_TRY(make_hello(settings, may_share())));
    if (answer.wait_for(k_hello_timeout) != std::future_status::ready) {
        why = log::format("{}: the server does not answer", m_address);
        return sent.ok() ? Error{Code::deadline, "no answer to Hello"} : sent.error();
    }
    Result<protocol::Buffer> body = answer.get();
    if (!body.ok()) {
        // Set by the receiving thread before it gave the answer.
        const std::string said = goodbye();
        why = log::format("{}: {}", m_address, said.empty() ? std::string(body.error().what) : said);
        return body.error();
    }
    protocol::CreditLimits credit;
    Result<ServerInfo> info = read_hello_reply(body->view(), credit, why);
    if (!info.ok()) {
        if (why.empty()) why = info.error().what;
        why = log::format("{}: {}", m_address, why);
        return info.error();
    }
    // What a server does not know of it passes over.
    if (settings.memory_bytes != 0 && (info->memory_limit_bytes == 0 || info->memory_limit_bytes > settings.memory_bytes)) {
        why = log::format("{}: this server ({}) cannot hold a program to an amount of device memory (WARPLINE_MEMORY={})",
                          m_address, info->version, settings.memory_bytes);
        return Error{Code::version_mismatch, "the server does not heed the limit of device memory"};
    }
    info->address = m_address;
    info->dialled = m_endpoint.to_string();
    info->session_id = m_session_id;
    info->key = m_key;
    m_lanes_may_end.store(info->lanes_may_end, std::memory_order_relaxed);
    info->connection = to_string(m_endpoint.kind);
    info->cipher = m_pump->channel().cipher();
    // What lies in shared memory needs no connections of its own.
    m_bulk_lanes_wanted.store(m_slots ? 0 : std::min<unsigned>(settings.bulk_lanes, info->bulk_lanes),
                              std::memory_order_relaxed);
    m_bulk_lanes_most.store(info->bulk_lanes, std::memory_order_relaxed);
    m_established.store(true, std::memory_order_release);
    credit.bytes = std::min(credit.bytes, settings.credit.bytes);
    credit.calls = std::min(credit.calls, settings.credit.calls);
    outbox().set_credit(credit);
    if (info->remembered_calls != 0 && uses(config::Optimisation::compact)) outbox().remember_calls(info->remembered_calls);
    agree_on_codecs(info->codecs);
    m_link.measure_round_trip();
    if (m_traffic) m_traffic->measure(outbox());
    if (uses(config::Optimisation::cache)) m_hashes.begin(info->uploads);
    return std::move(*info);
}

void ConnectionToServer::agree_on_codecs(compress::CodecSet of_server) {
    const compress::Wish& wish = m_settings.compression;
    if (wish.forced && (wish.codecs & of_server) == 0)
        WL_LOG(warn, "client", "{} does not take {} (WARPLINE_COMPRESS): nothing is compressed", m_address,
               to_string(wish.forced->codec));
    outbox().encoding().agree(wish.codecs & of_server, wish.forced);
}

Result<void> ConnectionToServer::on_frame(protocol::Frame frame) {
    if (frame.header.kind == protocol::FrameKind::bulk) return on_part(protocol::k_command_lane, frame);
    MutexLock lock(m_order_mutex);
    const uint64_t bytes = frame.body.size() + frame.payload_view().size();
    WL_TRY(m_order.arrived(std::move(frame), bytes, taker()));
    // The server has to wait, then, with what it says here. Should it give this connection up meanwhile, there will be another.
    while (m_order.full() && !m_leaving.load()) m_order_changed.wait(m_order_mutex);
    return {};
}

Result<bool> ConnectionToServer::take(protocol::Frame& frame) {
    switch (frame.header.kind) {
        case protocol::FrameKind::reply: return on_reply(frame);
        case protocol::FrameKind::event: return on_event(frame);
        case protocol::FrameKind::hello_reply: WL_TRY(on_hello_reply(frame)); return true;
        case protocol::FrameKind::close:
            return protocol::read_message<wire::Close>(
                frame.body.view(), [&](wire::Close::Reader close) WL_NO_THREAD_SAFETY_ANALYSIS -> Result<bool> {
                    m_goodbye = std::string(close.getReason().cStr());
                    auto code = static_cast<Code>(close.getCode());
                    if (code == Code::ok || code > Code::internal) code = Code::connection_lost;
                    return Error{code, "the server ended the session"};
                });
        default: return Error{Code::malformed, "a frame that a server does not send"};
    }
}

std::string ConnectionToServer::goodbye() {
    MutexLock lock(m_order_mutex);
    return m_goodbye;
}

void ConnectionToServer::on_level(const protocol::LinkLevelChange& change) {
    if (change.serious) {
        WL_LOG(warn, "link", "{}: {}", m_address, change.text);
    } else {
        WL_LOG(info, "link", "{}: {}", m_address, change.text);
    }
}

Result<void> ConnectionToServer::on_hello_reply(const protocol::Frame& frame) {
    if (m_hello->answered) return Error{Code::malformed, "a second answer to Hello"};
    // Who waits for the answer hears why there is none.
    WL_TRY(take_shared_memory(frame.body.view()));
    m_hello->answered = true;
    protocol::Buffer body;
    if (!body.append(frame.body.view())) return Error{Code::alloc_failed, "no memory for the answer to Hello"};
    m_hello->promise.set_value(std::move(body));
    return {};
}

Result<void> ConnectionToServer::take_shared_memory(BytesView hello_reply) {
    uint64_t to_server = 0, to_client = 0;
    WL_TRY(protocol::read_message<wire::HelloReply>(hello_reply, [&](wire::HelloReply::Reader reply) -> Result<void> {
        to_server = reply.getSharedToServer();
        to_client = reply.getSharedToClient();
        return {};
    }));
    if (to_server == 0 && to_client == 0) return {};
    if (!may_share()) return Error{Code::malformed, "the server shares memory, and was not asked to"};
    const auto layout = WL_TRY(protocol::SharedLayout::checked(to_server, to_client));
    m_shared = WL_TRY(net::SharedMemory::open(m_pump->channel().take_descriptor(), layout.total_bytes()));
    m_slots.emplace(layout.to_server(m_shared.bytes()));
    m_link.share_in(layout.to_client(m_shared.bytes()));
    outbox().encoding().share(*m_slots);
    return {};
}

Result<bool> ConnectionToServer::on_reply(protocol::Frame& frame) {
    ReplyHeader header;
    uint64_t freed_slots = 0;
    WL_TRY(protocol::read_message<wire::Reply>(frame.body.view(), [&](wire::Reply::Reader reply) -> Result<void> {
        header.call = reply.getCall();
        header.result = static_cast<CUresult>(reply.getResult());
        header.payload_bytes = reply.getPayloadBytes();
        header.memory_credit_bytes = reply.getCreditBytes();
        header.memory_credit_device = reply.getCreditDevice();
        header.freed_through = reply.getFreedThrough();
        freed_slots = reply.getProgress().getFreedSlots();
        if (reply.hasProgress()) return outbox().progress(reply.getProgress().getCalls(), reply.getProgress().getBytes());
        return {};
    }));
    const uint64_t here = frame.payload_view().size();
    if (!m_order.has_arrived(header.call, header.payload_bytes - std::min(header.payload_bytes, here))) return false;
    m_order.forget(header.call);
    // A reply that has to wait is looked at again, and this is told once.
    WL_TRY(outbox().slots_freed(freed_slots));
    WL_TRY(m_session.on_reply(header, std::move(frame)));
    return true;
}

Result<bool> ConnectionToServer::on_event(const protocol::Frame& frame) {
    return protocol::read_message<wire::Event>(
        frame.body.view(), [&](wire::Event::Reader event) WL_NO_THREAD_SAFETY_ANALYSIS -> Result<bool> {
            switch (event.which()) {
                case wire::Event::ASYNC_ERROR: {
                    auto error = event.getAsyncError();
                    // Of a copy that failed parts may be on their way: none that is being received may land any more when the
                    // program hears of it.
                    if (m_order.is_in_hand(error.getCall())) return false;
                    m_order.forget(error.getCall());
                    m_session.on_async_error(error.getCall(), static_cast<CUresult>(error.getResult()), error.getContext());
                    return true;
                }
                case wire::Event::COPY_DONE: return on_copy_done(event.getCopyDone(), frame.payload_view());
                case wire::Event::OUTPUT: m_session.on_output(event.getOutput().getStream(), frame.payload_view()); return true;
                case wire::Event::HOST_CALL: {
                    auto wanted = event.getHostCall();
                    m_session.host_call_comes();
                    if (m_session.host_calls().request(wanted.getId(), static_cast<CUresult>(wanted.getResult()))) return true;
                    return Error{Code::quota, "the server asks for more host functions than any program has under way"};
                }
                case wire::Event::DRAIN:
                    WL_LOG(warn, "client", "{} is being drained: this session will be ended in {} s ({})", m_address,
                           event.getDrain().getSecondsLeft(), event.getDrain().getReason().cStr());
                    return true;
                case wire::Event::LANE_GIVEN_UP:
                    WL_TRY(m_bulk.server_gave_up(event.getLaneGivenUp().getLane(), event.getLaneGivenUp().getReceived()));
                    m_order.parts_moved();
                    return true;
                case wire::Event::EXECUTED:
                    if (m_traffic)
                        WL_TRY(m_traffic->executed(frame.payload_view(), event.getExecuted().getCalls(),
                                                   event.getExecuted().getDropped()));
                    return true;
                // An event that is newer than this client is not for it.
                default: return true;
            }
        });
}

Result<bool> ConnectionToServer::on_copy_done(wire::CopyDone::Reader done, BytesView payload) {
    const uint64_t bytes = done.getBytes();
    if (!m_order.has_arrived(done.getCall(), bytes - std::min<uint64_t>(bytes, payload.size()))) return false;
    m_order.forget(done.getCall());
    WL_TRY(m_session.on_copy_done(done.getCall(), static_cast<CUresult>(done.getResult()), bytes, payload));
    return true;
}

Result<protocol::Place> ConnectionToServer::place_payload(uint64_t call, uint64_t offset, uint64_t total, size_t bytes) {
    return place_part(protocol::k_command_lane, {call, offset, total}, bytes);
}

Result<protocol::Place> ConnectionToServer::place_part(uint16_t lane, const protocol::BulkHeader& part, size_t bytes) {
    MutexLock lock(m_order_mutex);
    const std::optional<CopyTarget> target = WL_TRY(m_session.target_of(part.call, part.offset));
    m_part_targets[lane] = target;
    m_part_is_placed[lane] = false;
    if (!target || part.total > target->total_bytes()) return protocol::Place{};
    m_order.part_begins(lane, part.call);
    protocol::Place place(target->together(part.offset, bytes));
    m_part_is_placed[lane] = place.data() != nullptr;
    return place;
}

Result<protocol::Place> ConnectionToServer::take_shared(uint64_t call, uint64_t offset, uint64_t total,
                                                        MutableBytesView bytes) {
    protocol::Place place = WL_TRY(place_part(protocol::k_command_lane, {call, offset, total}, bytes.size()));
    if (place.data() != nullptr) {
        if (total > k_cached_copy_bytes) {
            copy_past_caches(place.data(), bytes.data(), bytes.size());
        } else {
            std::memcpy(place.data(), bytes.data(), bytes.size());
        }
        return place;
    }
    // Now, too: it is the server's again as soon as the frame is acknowledged, which another thread may do at any time.
    const std::optional<CopyTarget>& target = m_part_targets[protocol::k_command_lane];
    if (target && !target->write(offset, bytes)) return Error{Code::malformed, "more bytes than were asked for"};
    m_part_is_placed[protocol::k_command_lane] = true;
    return protocol::Place(bytes);
}

Result<void> ConnectionToServer::on_part(uint16_t lane, const protocol::Frame& frame) {
    const protocol::BulkHeader part = WL_TRY(protocol::read_bulk_header(frame.body.view(), frame.payload_view().size()));
    const uint64_t bytes = frame.payload_view().size();
    note_long_payload(bytes);
    const std::optional<CopyTarget>& target = m_part_targets[lane];  // none: of a copy that was given up
    if (target && !m_part_is_placed[lane] && !target->write(part.offset, frame.payload_view()))
        return Error{Code::malformed, "more bytes than were asked for"};
    MutexLock lock(m_order_mutex);
    if (target) m_session.part_arrived(part.call, bytes);
    const bool was_full = m_order.full();
    WL_TRY(m_order.part_arrived(lane, part.call, bytes, taker()));
    if (was_full && !m_order.full()) m_order_changed.notify_all();
    m_pump->wake_guest();
    return {};
}

void ConnectionToServer::wait_for(Waiter& waiter, unsigned schedule) {
    const auto enough = [&] { return waiter.is_done() || held_signals::any(); };
    const auto wake = [](void* pump) { static_cast<net::ChannelPump*>(pump)->wake_guest(); };
    const net::Looking looking = uses(config::Optimisation::spin) ? looking_for(schedule, m_settings.spin) : net::Looking{};
    for (;;) {
        {
            const held_signals::Interruptible interruptible(wake, m_pump.get());
            const bool reads = m_pump->begin_reading();
            m_pump->flush();
            if (reads && m_pump->read_until(enough, looking)) m_pump->end_reading();
        }
        if (waiter.is_done() || !held_signals::any()) break;
        // Who waits for replies in a handler finds them read by another thread.
        const held_signals::Open handlers_run;
    }
    const held_signals::Open handlers_run;
    waiter.wait();
}

void ConnectionToServer::lane_ended(uint16_t lane) {
    MutexLock lock(m_order_mutex);
    const auto taken = m_order.lane_ended(lane, taker());
    lock.unlock();
    m_pump->wake_guest();
    m_order_changed.notify_all();
    if (!taken.ok()) lanes_failed(taken.error(), goodbye());
}

Result<std::unique_ptr<net::Channel>> ConnectionToServer::connect_lane(uint16_t lane, uint32_t epoch,
                                                                       std::chrono::milliseconds patience) {
    std::string why;
    const auto until = std::chrono::steady_clock::now() + patience;
    net::Socket socket = WL_TRY(net::dial(m_endpoint, patience, why));
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
    return open_lane(std::move(socket), lane, epoch, std::max(left, std::chrono::milliseconds(1)), why);
}

void ConnectionToServer::lane_given_up(uint16_t lane, uint64_t received) {
    {
        MutexLock lock(m_order_mutex);
        m_order.lane_given_up();
    }
    m_order_changed.notify_all();
    constexpr unsigned k_words = 8;
    auto queued = outbox().add_message<wire::Event>(protocol::FrameKind::event, k_words, [&](wire::Event::Builder event) {
        auto given_up = event.initLaneGivenUp();
        given_up.setLane(lane);
        given_up.setReceived(received);
    });
    if (!queued.ok()) WL_LOG(debug, "client", "bulk lane {}: its end could not be told: {}", lane, queued.error().what);
}

/// The threads that find it cannot wait for the command lane's, which may wait for them.
void ConnectionToServer::lanes_failed(const Error& error, const std::string& why) {
    WL_LOG(error, "client", "{}: the session cannot go on: {}", m_address, why.empty() ? error.what : why);
    leave();
    m_pump->stop();
}

void ConnectionToServer::note_long_payload(uint64_t bytes) {
    const uint64_t before = m_long_payload_bytes.fetch_add(bytes, std::memory_order_relaxed);
    // A program that copies little has no use for further connections.
    if (before <= m_settings.bulk_lanes_after && before + bytes > m_settings.bulk_lanes_after)
        m_bulk.open(m_bulk_lanes_wanted.load(std::memory_order_relaxed), m_session_id,
                    m_lanes_may_end.load(std::memory_order_relaxed));
}

/// As many connections as the server allows, and before a program has copied much, where losses make each of them slow.
void ConnectionToServer::on_tick() {
    if (m_widened || m_bulk_lanes_wanted.load(std::memory_order_relaxed) == 0) return;
    if (m_long_payload_bytes.load(std::memory_order_relaxed) == 0 || !suffers_from_losses()) return;
    m_widened = true;
    WL_LOG(info, "client", "packets are lost on the way to {}: more connections for large copies", m_address);
    m_bulk.open(m_bulk_lanes_most.load(std::memory_order_relaxed), m_session_id,
                m_lanes_may_end.load(std::memory_order_relaxed));
}

bool ConnectionToServer::suffers_from_losses() const {
    if (m_link.quality().kernel.suffers_from_losses()) return true;
    const auto lanes = m_bulk.qualities();
    return std::any_of(lanes.begin(), lanes.end(), [](const auto& lane) { return lane.second.kernel.suffers_from_losses(); });
}

Result<void> ConnectionToServer::take_the_rest() {
    MutexLock lock(m_order_mutex);
    return m_order.lane_ended(protocol::k_command_lane, taker());
}

void ConnectionToServer::on_closing(const Error& error, const std::string& explanation) {
    static_cast<void>(take_the_rest());  // that the session ends is known; why, may be among it
    const std::string said = goodbye();
    if (m_hello->answered) m_session.say_lost(error, said.empty() ? explanation : said);
}

void ConnectionToServer::on_ended(const Error& error, const std::string& explanation) {
    const Result<void> taken = take_the_rest();
    if (!m_hello->answered) {
        MutexLock lock(m_order_mutex);
        if (m_goodbye.empty()) m_goodbye = explanation;
    }
    const std::string said = goodbye();
    const std::string text = said.empty() ? explanation : said;
    if (!taken.ok()) {
        if (m_hello->answered) m_session.say_lost(taken.error(), text);
        m_link.close(taken.error(), true);
    }
    if (!m_hello->answered) {
        m_hello->answered = true;
        m_hello->promise.set_value(error);
    } else if (!m_link.outbox().closed()) {
        // The link waits for another connection, which this thread cannot make: it is about to end.
        MutexLock lock(m_recovery_mutex);
        if (m_recovery.get_id() == std::this_thread::get_id()) return;  // it could not start the threads, and goes on trying
        if (m_recovery.joinable()) m_recovery.join();                   // the one before has long handed over
        m_recovery = std::thread([this, text] { recover(text); });
        return;
    } else {
        // Who waits gets its memory back: nobody receives into it any more.
        m_bulk.stop();
        m_session.on_lost(error, text);
    }
    m_ended.set_value();
}

void ConnectionToServer::host_call_done(uint64_t id) {
    constexpr unsigned k_words = 8;
    auto queued = outbox().add_message<wire::Event>(protocol::FrameKind::event, k_words,
                                                    [&](wire::Event::Builder event) { event.initHostCallDone().setId(id); });
    if (!queued.ok()) WL_LOG(debug, "client", "host function {}: its end could not be told: {}", id, queued.error().what);
}

void ConnectionToServer::send_host_data(uint64_t id, uint64_t offset, BytesView bytes) {
    constexpr unsigned k_words = 8;
    while (!bytes.empty()) {
        const BytesView part = bytes.first(std::min(bytes.size(), k_chunk_bytes));
        auto queued = outbox().add_message<wire::Event>(
            protocol::FrameKind::event, k_words,
            [&](wire::Event::Builder event) {
                auto data = event.initHostData();
                data.setId(id);
                data.setOffset(offset);
            },
            part);
        if (!queued.ok()) {
            WL_LOG(debug, "client", "memory for host call {} could not be sent: {}", id, queued.error().what);
            return;
        }
        offset += part.size();
        bytes = bytes.subspan(part.size());
    }
}

bool ConnectionToServer::finish() {
    std::future<void> ended = m_ended.get_future();
    constexpr const char* k_reason = "the program has ended";
    m_bulk.expect_end();
    // Where a trace is written, the server has something to say yet.
    m_traffic ? m_link.announce_end(Code::ok, k_reason) : m_link.say_goodbye(Code::ok, k_reason);
    // The server closes when it has executed what came before; a program that ends does not wait longer than this for it.
    const bool heard = ended.wait_for(k_goodbye_timeout) == std::future_status::ready;
    leave();
    m_bulk.stop();
    m_pump->stop();
    ended.wait_for(k_goodbye_timeout);
    return heard;
}

}  // namespace warpline::client
