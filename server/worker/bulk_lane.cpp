// Bulk lanes: coming, going, coming back.
#include "server/worker/bulk_lane.h"

#include "common/log/log.h"
#include "common/net/link_user.h"

namespace warpline::server {

BulkLane::BulkLane(Owner& owner, protocol::Outbox& outbox, uint16_t lane, protocol::LinkOptions options)
    : m_owner(owner), m_link(*this, outbox, lane, options) {}

BulkLane::~BulkLane() { stop(); }

void BulkLane::stop() {
    if (!m_pump) return;
    m_pump->stop();
    m_pump->join();
}

uint64_t BulkLane::give_up() {
    m_given_up = true;
    stop();
    return m_link.received_sequence();
}

void BulkLane::on_level(const protocol::LinkLevelChange& change) {
    WL_LOG(info, "link", "the client, bulk lane {}: {}", m_link.lane(), change.text);
}

void BulkLane::on_ended(const Error& error, const std::string& explanation) {
    WL_LOG(debug, "session", "bulk lane {} has no connection: {}", m_link.lane(),
           explanation.empty() ? error.what : explanation);
    if (m_pump->refused()) m_owner.lane_misbehaved(error);
}

Result<void> BulkLane::resume(std::unique_ptr<net::Channel> channel, uint32_t epoch, const protocol::ResumeRequest& request) {
    if (m_given_up) return protocol::answer_resume(*channel, {0, Code::denied, "the lane was given up"});
    if (epoch <= m_epoch) return protocol::answer_resume(*channel, {0, Code::denied, "a later connection has taken over"});
    m_epoch = epoch;
    stop();
    WL_TRY(protocol::answer_resume(*channel, {m_link.received_sequence(), Code::ok, {}}));
    const auto attach = [&] { return m_link.attach(request.received); };
    if (m_pump) return m_pump->restart(std::move(channel), attach);
    net::PumpOptions options;
    options.name = "bulk";
    m_pump = std::make_unique<net::ChannelPump>(std::move(channel), net::user_of(m_link), options);
    WL_TRY(attach());
    return m_pump->start();
}

}  // namespace warpline::server
