// The relay's connections: one thread, no waiting but for sockets and timers.
#include "bench/link/relay.h"

#include <algorithm>
#include <asio/connect.hpp>
#include <asio/generic/stream_protocol.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/local/stream_protocol.hpp>
#include <asio/post.hpp>
#include <asio/steady_timer.hpp>
#include <asio/write.hpp>
#include <deque>
#include <thread>
#include <vector>

#include "common/net/resolve.h"

namespace warpline::bench {

// Named, because Relay::State, which a header declares, has members of these types.
namespace relaying {

using asio::generic::stream_protocol;  // TCP, or a Unix socket
using asio::ip::tcp;
using Clock = std::chrono::steady_clock;

LinkTime now() { return std::chrono::duration_cast<LinkTime>(Clock::now().time_since_epoch()); }
Clock::time_point clock_time(LinkTime time) { return Clock::time_point(std::chrono::duration_cast<Clock::duration>(time)); }

/// Bytes read at a time: what passes the link in half a millisecond, so that connections take turns in short order.
size_t piece_bytes(const LinkProperties& link) {
    constexpr size_t k_least = 2 * k_packet_bytes, k_most = 256 << 10;
    if (link.bits_per_s <= 0) return k_most;
    return std::clamp(static_cast<size_t>(link.bits_per_s / 8 * 0.0005), k_least, k_most);
}

class Flow;

/// Both sockets of a connection, and its directions.
struct Pair {
    explicit Pair(asio::io_context& io) : client(io), server(io) {}
    /// Ends both directions at once.
    void abort();

    stream_protocol::socket client, server;
    std::vector<std::weak_ptr<Flow>> flows;
};

/// One direction of the link, and who waits for room in its queue: first come, first served.
class Gate {
public:
    Gate(asio::io_context& io, const LinkProperties& link) : wire(link), m_room(io) {}
    /// Calls flow->take_piece() when it is its turn.
    void wait(std::shared_ptr<Flow> flow);
    /// Nobody's turn will come any more.
    void close();

    Wire wire;
    uint64_t bytes = 0;

private:
    void next();
    std::deque<std::shared_ptr<Flow>> m_waiting;
    asio::steady_timer m_room;
};

/// What all connections of a relay share.
struct Shared {
    Shared(asio::io_context& io, const LinkProperties& properties)
        : link(properties), up(io, properties), down(io, properties), scratch(piece_bytes(properties)) {}
    LinkProperties link;
    Gate up, down;
    std::vector<std::byte> scratch;  // what is read, until it is known how much it is
    uint64_t connections = 0, streams = 0, lost_packets = 0;
};

/// One direction of one connection.
class Flow : public std::enable_shared_from_this<Flow> {
public:
    Flow(asio::io_context& io, Shared& shared, Gate& gate, std::shared_ptr<Pair> pair, stream_protocol::socket& source,
         stream_protocol::socket& target)
        : m_shared(shared),
          m_gate(gate),
          m_pair(std::move(pair)),
          m_source(source),
          m_target(target),
          m_stream(gate.wire, shared.link, ++shared.streams),
          m_window(io),
          m_arrival(io) {}
    ~Flow() { m_shared.lost_packets += m_stream.lost_packets(); }

    /// Waits for bytes and sends them, again and again.
    void receive() {
        m_source.async_wait(stream_protocol::socket::wait_read, [self = shared_from_this()](const asio::error_code& error) {
            if (error) return;
            self->m_gate.wait(self);
        });
    }

    /// The same after a pause: the round trip of TCP's handshake, which ended at the relay at once.
    void receive_after(LinkTime pause) {
        m_window.expires_after(pause);
        m_window.async_wait([self = shared_from_this()](const asio::error_code& error) {
            if (!error) self->receive();
        });
    }

    /// There is room in the queue.
    void take_piece() {
        const LinkTime at = now();
        const std::optional<LinkTime> may = m_stream.may_send_at(at);
        if (!may) {
            m_held = true;  // deliver() goes on
            return;
        }
        if (*may > at) {
            m_window.expires_at(clock_time(*may));
            m_window.async_wait([self = shared_from_this()](const asio::error_code& error) {
                if (!error) self->m_gate.wait(self);
            });
            return;
        }
        asio::error_code error;
        const size_t most = std::min(m_shared.scratch.size(), m_stream.room(at));
        const size_t count = m_source.read_some(asio::buffer(m_shared.scratch.data(), most), error);
        if (error == asio::error::would_block) return receive();
        if (error && error != asio::error::eof) return m_pair->abort();
        m_stream.send(now(), count);
        m_gate.bytes += count;
        m_pieces.emplace_back(m_shared.scratch.begin(), m_shared.scratch.begin() + static_cast<ptrdiff_t>(count));
        if (!m_delivering) wait_for_arrival();
        if (!error) receive();
    }

    void cancel() {
        m_window.cancel();
        m_arrival.cancel();
    }

private:
    void wait_for_arrival() {
        const std::optional<LinkTime> arrives = m_stream.next_arrival();
        m_delivering = arrives.has_value();
        if (!arrives) return;
        if (*arrives <= now()) return deliver();
        m_arrival.expires_at(clock_time(*arrives));
        m_arrival.async_wait([self = shared_from_this()](const asio::error_code& error) {
            // Meanwhile it may have been noticed that the piece is lost, or that it comes sooner than by a probe.
            if (!error) self->wait_for_arrival();
        });
    }

    void deliver() {
        if (m_pieces.front().empty()) {
            asio::error_code ignored;
            m_target.shutdown(stream_protocol::socket::shutdown_send, ignored);
            return;
        }
        asio::async_write(m_target, asio::buffer(m_pieces.front()),
                          [self = shared_from_this()](const asio::error_code& error, size_t) {
                              if (error) return self->m_pair->abort();
                              self->m_pieces.pop_front();
                              self->m_stream.take();
                              if (std::exchange(self->m_held, false)) self->m_gate.wait(self);
                              self->wait_for_arrival();
                          });
    }

    Shared& m_shared;
    Gate& m_gate;
    std::shared_ptr<Pair> m_pair;
    stream_protocol::socket& m_source;
    stream_protocol::socket& m_target;
    Stream m_stream;
    std::deque<std::vector<std::byte>> m_pieces;  // as the stream has them
    asio::steady_timer m_window, m_arrival;
    bool m_delivering = false;  // waiting for a piece to arrive, or writing it
    bool m_held = false;        // until the target has taken something
};

void Pair::abort() {
    asio::error_code ignored;
    client.close(ignored);
    server.close(ignored);
    for (const auto& weak : flows)
        if (const auto flow = weak.lock()) flow->cancel();
}

void Gate::close() {
    m_waiting.clear();
    m_room.cancel();
}

void Gate::wait(std::shared_ptr<Flow> flow) {
    m_waiting.push_back(std::move(flow));
    if (m_waiting.size() == 1) next();
}

/// Who is first stays in the list while it waits, so that nobody else begins to.
void Gate::next() {
    while (!m_waiting.empty()) {
        if (wire.room_at() > now()) {
            m_room.expires_at(clock_time(wire.room_at()));
            m_room.async_wait([this](const asio::error_code& error) {
                if (!error) next();
            });
            return;
        }
        const std::shared_ptr<Flow> flow = m_waiting.front();
        flow->take_piece();
        m_waiting.pop_front();
    }
}

void prepare(stream_protocol::socket& socket, const LinkProperties& link) {
    asio::error_code ignored;
    socket.non_blocking(true, ignored);
    socket.set_option(tcp::no_delay(true), ignored);
    // What waits for the link waits with its sender, not here: a few pieces.
    socket.set_option(
        asio::socket_base::receive_buffer_size(static_cast<int>(std::max<size_t>(4 * piece_bytes(link), 64 << 10))), ignored);
}

}  // namespace relaying

using namespace relaying;

struct Relay::State {
    State(const LinkProperties& link) : shared(io, link), acceptor(io) {}

    void accept() {
        acceptor.async_accept([this](const asio::error_code& error, tcp::socket client) {
            if (!acceptor.is_open()) return;
            if (!error) {
                auto pair = std::make_shared<Pair>(io);
                pair->client = std::move(client);
                connect(pair);
            }
            accept();
        });
    }

    void connect(const std::shared_ptr<Pair>& pair) {
        ++shared.connections;
        asio::async_connect(pair->server, targets, [this, pair](const asio::error_code& error, const auto&) {
            if (error) return pair->abort();  // as one who is not there
            prepare(pair->client, shared.link);
            prepare(pair->server, shared.link);
            start(pair, shared.up, pair->client, pair->server)->receive_after(shared.link.round_trip);
            start(pair, shared.down, pair->server, pair->client)->receive();
            std::erase_if(pairs, [](const auto& old) { return old.expired(); });
            pairs.push_back(pair);
        });
    }

    std::shared_ptr<Flow> start(const std::shared_ptr<Pair>& pair, Gate& gate, stream_protocol::socket& source,
                                stream_protocol::socket& target) {
        const auto flow = std::make_shared<Flow>(io, shared, gate, pair, source, target);
        pair->flows.push_back(flow);
        return flow;
    }

    /// Then nothing is left to do, and run() ends.
    void close() {
        asio::error_code ignored;
        acceptor.close(ignored);
        shared.up.close();
        shared.down.close();
        for (const auto& weak : pairs)
            if (const auto pair = weak.lock()) pair->abort();
    }

    asio::io_context io{1};
    Shared shared;
    tcp::acceptor acceptor;
    std::vector<stream_protocol::endpoint> targets;
    std::vector<std::weak_ptr<Pair>> pairs;  // connected
};

namespace {

/// Where connections lead to. @errors those of finding a host
Result<std::vector<stream_protocol::endpoint>> targets_of(const net::Endpoint& target, std::string& why) {
    using namespace std::chrono_literals;
    if (target.kind == net::Endpoint::Kind::unix_socket)
        return std::vector<stream_protocol::endpoint>{asio::local::stream_protocol::endpoint(target.host)};
    std::vector<std::string> addresses = target.addresses;
    if (addresses.empty()) addresses = WL_TRY(net::addresses_of_host(target.host, Clock::now() + 5s, why));
    std::vector<stream_protocol::endpoint> targets;
    asio::error_code ignored;
    for (const std::string& address : addresses)
        targets.emplace_back(tcp::endpoint(asio::ip::make_address(address, ignored), target.port));
    return targets;
}

}  // namespace

Result<std::unique_ptr<Relay>> Relay::open(const net::Endpoint& listen, const net::Endpoint& target, const LinkProperties& link,
                                           std::string& why) {
    auto targets = WL_TRY(targets_of(target, why));
    std::unique_ptr<Relay> relay(new Relay(std::make_unique<State>(link)));
    State& state = *relay->m_state;
    state.targets = std::move(targets);
    asio::error_code error;
    const auto own = asio::ip::make_address(listen.host, error);
    if (error) {
        why = "'" + listen.host + "' is no numeric address to listen at";
        return Error{Code::bad_argument, "no address to listen at"};
    }
    const tcp::endpoint at(own, listen.port);
    state.acceptor.open(at.protocol(), error);
    if (!error) state.acceptor.set_option(tcp::acceptor::reuse_address(true), error);
    if (!error) state.acceptor.bind(at, error);
    if (!error) state.acceptor.listen(asio::socket_base::max_listen_connections, error);
    if (error) {
        why = listen.to_string() + ": " + error.message();
        return Error{Code::io, "cannot listen", static_cast<uint32_t>(error.value())};
    }
    return relay;
}

Relay::Relay(std::unique_ptr<State> state) : m_state(std::move(state)) {}
Relay::~Relay() = default;

uint16_t Relay::port() const {
    asio::error_code ignored;
    return m_state->acceptor.local_endpoint(ignored).port();
}

void Relay::run() {
    m_state->accept();
    m_state->io.run();
}

void Relay::stop() {
    asio::post(m_state->io, [state = m_state.get()] { state->close(); });
}

RelayTotals Relay::totals() const {
    const Shared& shared = m_state->shared;
    return {shared.connections, shared.up.bytes, shared.down.bytes, shared.lost_packets};
}

struct RunningRelay::Thread {
    std::unique_ptr<Relay> relay;
    std::thread thread;
};

RunningRelay::RunningRelay(std::unique_ptr<Relay> relay) : m_thread(std::make_unique<Thread>()) {
    m_thread->relay = std::move(relay);
    m_thread->thread = std::thread([running = m_thread->relay.get()] { running->run(); });
}

RunningRelay::~RunningRelay() { static_cast<void>(stop()); }

uint16_t RunningRelay::port() const { return m_thread->relay->port(); }

RelayTotals RunningRelay::stop() {
    if (m_thread->thread.joinable()) {
        m_thread->relay->stop();
        m_thread->thread.join();
    }
    return m_thread->relay->totals();
}

}  // namespace warpline::bench
