// Bulk lanes: opened, lost, opened again.
#include "client/session/bulk_lanes.h"

#include <pthread.h>

#include <algorithm>

#include "client/session/attempts.h"
#include "common/base/quiet_thread.h"
#include "common/log/log.h"
#include "common/net/link_user.h"
#include "protocol/session/resume.h"

namespace warpline::client {

namespace {

constexpr int k_threads_of_a_pump = 2;

}  // namespace

struct BulkLanes::Lane final : private protocol::Link::Handler {
    Lane(BulkLanes& lanes, uint16_t number) : all(lanes), link(*this, lanes.m_outbox, number, lanes.m_options.link) {}

    BulkLanes& all;
    protocol::Link link;
    std::unique_ptr<net::ChannelPump> pump;
    uint32_t epoch = 0;     // the opening thread's, these two
    unsigned attempts = 0;  // since it was up
    bool is_up = false;     // under the lanes' mutex, these five
    bool was_up = false;
    enum class End { none, told, answered } end = End::none;
    Clock::time_point due = Clock::now();
    Clock::time_point lost_at = Clock::now();

private:
    Result<void> on_frame(protocol::Frame frame) override { return all.m_owner.on_part(link.lane(), frame); }
    Result<protocol::Place> place_payload(uint64_t call, uint64_t offset, uint64_t total, size_t bytes) override {
        return all.m_owner.place_part(link.lane(), {call, offset, total}, bytes);
    }
    void on_level(const protocol::LinkLevelChange& change) override {
        WL_LOG(info, "link", "bulk lane {}: {}", link.lane(), change.text);
    }
    bool keeps() const override { return true; }
    void on_ended(const Error& error, const std::string& explanation) override { all.ended(*this, error, explanation); }
};

BulkLanes::BulkLanes(Owner& owner, protocol::Outbox& outbox, const Options& options)
    : m_owner(owner), m_outbox(outbox), m_options(options) {}

BulkLanes::~BulkLanes() { stop(); }

void BulkLanes::open(unsigned count, const protocol::SessionId& session, bool may_end) {
    MutexLock lock(m_mutex);
    count = std::min<unsigned>(count, protocol::k_max_bulk_lanes);
    if (m_stopping || count <= m_wanted) return;
    if (std::exchange(m_wanted, count) != 0) {
        m_wake.notify_all();
        return;
    }
    m_session = session;
    m_may_end = may_end;
    auto started = make_quiet_thread([this] { run(); });
    // Without them everything travels over the command lane.
    if (started.ok()) {
        m_thread = std::move(*started);
    } else {
        WL_LOG(warn, "client", "no further connections for large copies: {}", started.error().what);
    }
}

void BulkLanes::expect_end() {
    MutexLock lock(m_mutex);
    m_expects_end = true;
}

void BulkLanes::stop() {
    std::thread thread;
    {
        MutexLock lock(m_mutex);
        m_stopping = true;
        thread.swap(m_thread);
    }
    m_wake.notify_all();
    if (thread.joinable()) thread.join();
    for (const auto& lane : m_lanes)
        if (lane && lane->pump) lane->pump->stop();
    for (const auto& lane : m_lanes)
        if (lane && lane->pump) lane->pump->join();
}

BulkLanes::Received BulkLanes::received() const {
    Received all;
    MutexLock lock(m_mutex);
    for (const auto& lane : m_lanes) {
        if (!lane) continue;
        all.bytes += lane->link.bytes_received();
        all.frames += lane->link.frames_received();
    }
    return all;
}

std::map<uint16_t, protocol::LinkQuality> BulkLanes::qualities() const {
    std::map<uint16_t, protocol::LinkQuality> qualities;
    MutexLock lock(m_mutex);
    for (const auto& lane : m_lanes)
        if (lane && lane->was_up) qualities.emplace(lane->link.lane(), lane->link.quality());
    return qualities;
}

void BulkLanes::run() {
    (void)::pthread_setname_np(::pthread_self(), "wl-client-lanes");
    m_threads.fetch_add(1, std::memory_order_relaxed);
    while (Lane* lane = wait_for_work())
        if (!connect(*lane)) break;
    m_threads.fetch_sub(1, std::memory_order_relaxed);
}

/// The lane whose turn it is. Null: no more.
BulkLanes::Lane* BulkLanes::wait_for_work() {
    MutexLock lock(m_mutex);
    while (!m_stopping) {
        Lane* next = nullptr;
        for (uint16_t i = 0; i < m_wanted; ++i)
            if (!m_lanes[i]) m_lanes[i] = std::make_unique<Lane>(*this, static_cast<uint16_t>(i + 1));
        for (const auto& lane : m_lanes)
            if (lane && !lane->is_up && lane->end == Lane::End::none && (next == nullptr || lane->due < next->due))
                next = lane.get();
        if (next != nullptr && next->due <= Clock::now()) return next;
        if (next == nullptr) {
            m_wake.wait(m_mutex);
        } else {
            m_wake.wait_until(m_mutex, next->due);
        }
    }
    return nullptr;
}

/// One attempt. False: the session cannot go on.
bool BulkLanes::connect(Lane& lane) {
    const Result<void> connected = attempt(lane);
    if (connected.ok()) return true;
    WL_LOG(debug, "client", "bulk lane {}, attempt {}: {}", lane.link.lane(), lane.attempts + 1, connected.error().what);
    if (connected.error().code == Code::malformed) {
        m_owner.lanes_failed(connected.error(), connected.error().what);
        return false;
    }
    MutexLock lock(m_mutex);
    lane.is_up = false;
    if (lane.was_up && Clock::now() - lane.lost_at >= m_options.grace) {
        lock.unlock();
        return give_up(lane, connected.error());
    }
    lane.due = Clock::now() + random_pause_after(lane.attempts++, m_options.reconnect_first, m_options.reconnect_longest);
    return true;
}

/// Of a lane whose threads have ended. False: the session cannot go on without it.
bool BulkLanes::give_up(Lane& lane, const Error& why) {
    if (!m_may_end) {
        m_owner.lanes_failed(why, "a connection for large copies was lost, and did not come back (grace_seconds)");
        return false;
    }
    {
        MutexLock lock(m_mutex);
        lane.end = Lane::End::told;
    }
    WL_LOG(warn, "client",
           "a connection for large copies was lost, and did not come back (grace_seconds): what was on its way goes over the "
           "others");
    m_owner.lane_given_up(lane.link.lane(), lane.link.received_sequence());
    return true;
}

Result<void> BulkLanes::server_gave_up(uint16_t lane, uint64_t received) {
    {
        MutexLock lock(m_mutex);
        Lane* const known = protocol::is_bulk_lane(lane) ? m_lanes[lane - 1u].get() : nullptr;
        if (known == nullptr || known->end != Lane::End::told)
            return Error{Code::malformed, "the server gives up a lane that was not given up"};
        known->end = Lane::End::answered;
    }
    return m_outbox.give_up(lane, received);
}

/// How long an attempt may take. Who stops the lanes waits for it: the session may be given up when the lane would be.
std::chrono::milliseconds BulkLanes::patience_for(const Lane& lane) const {
    constexpr std::chrono::milliseconds k_least(100);
    const auto patience = patience_of(lane.attempts);
    MutexLock lock(m_mutex);
    if (!lane.was_up) return patience;
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(lane.lost_at + m_options.grace - Clock::now());
    return std::clamp(left, k_least, patience);
}

Result<void> BulkLanes::attempt(Lane& lane) {
    if (lane.pump) lane.pump->join();
    const auto patience = patience_for(lane);
    const auto answer_by = Clock::now() + patience;
    auto connected = m_owner.connect_lane(lane.link.lane(), ++lane.epoch, patience);
    // Until TLS protects what comes, it may have been damaged on the way, and says nothing about the server.
    if (!connected.ok()) return Error{Code::connection_lost, connected.error().what, connected.error().detail};
    std::unique_ptr<net::Channel> channel = std::move(*connected);
    const auto answer = WL_TRY(protocol::ask_to_resume(*channel, {lane.link.received_sequence(), false, m_session}, answer_by));
    // Who has lost the session itself hears it on the command lane.
    if (answer.refused != Code::ok || !channel->proved_by_key())
        return Error{Code::denied, "the server does not take the lane"};
    const auto attach = [&]() -> Result<void> {
        WL_TRY(lane.link.attach(answer.received));
        MutexLock lock(m_mutex);
        lane.is_up = true;
        lane.attempts = 0;
        m_up.fetch_add(1, std::memory_order_relaxed);
        if (std::exchange(lane.was_up, true)) m_reconnects.fetch_add(1, std::memory_order_relaxed);
        return {};
    };
    if (!lane.pump) {
        net::PumpOptions options;
        options.name = "wl-bulk";
        lane.pump = std::make_unique<net::ChannelPump>(std::move(channel), net::user_of(lane.link), options);
        WL_TRY(attach());
        WL_TRY(lane.pump->start());
    } else {
        WL_TRY(lane.pump->restart(std::move(channel), attach));
    }
    m_threads.fetch_add(k_threads_of_a_pump, std::memory_order_relaxed);
    return {};
}

void BulkLanes::ended(Lane& lane, const Error& error, const std::string& explanation) {
    m_threads.fetch_sub(k_threads_of_a_pump, std::memory_order_relaxed);
    m_up.fetch_sub(1, std::memory_order_relaxed);
    m_owner.lane_ended(lane.link.lane());
    if (lane.pump->refused()) return m_owner.lanes_failed(error, explanation.empty() ? error.what : explanation);
    bool expects_end = false;
    {
        MutexLock lock(m_mutex);
        if (m_stopping) return;
        expects_end = m_expects_end;
        lane.is_up = false;
        lane.lost_at = lane.due = Clock::now();
        if (expects_end) lane.due += m_options.reconnect_first;
    }
    if (!expects_end) {
        WL_LOG(info, "client", "a connection for large copies is lost ({}), and opened again",
               explanation.empty() ? error.what : explanation);
    }
    m_wake.notify_all();
}

}  // namespace warpline::client
