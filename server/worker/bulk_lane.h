// A further connection of a session's, which carries parts of long payloads.
#pragma once

#include <memory>

#include "common/net/channel_pump.h"
#include "protocol/codec/link.h"
#include "protocol/session/resume.h"

namespace warpline::server {

/// The server's end of one bulk lane. It comes and goes as the client likes: what is on its way waits for it to come back, the
/// session does not.
class BulkLane final : private protocol::Link::Handler {
public:
    /// What a lane asks of its session. @thread the lane's reading one
    class Owner {
    public:
        virtual Result<protocol::Place> place_part(size_t bytes) = 0;
        virtual Result<void> on_part(protocol::Frame frame) = 0;
        /// What came makes no sense: the session cannot go on.
        virtual void lane_misbehaved(const Error& error) = 0;

    protected:
        ~Owner() = default;
    };

    BulkLane(Owner& owner, protocol::Outbox& outbox, uint16_t lane, protocol::LinkOptions options);
    ~BulkLane() override;

    /// This connection takes the place of the one before, if it is newer. Answers it. @blocks for the threads of the one before
    /// @thread  the worker's main one
    Result<void> resume(std::unique_ptr<net::Channel> channel, uint32_t epoch, const protocol::ResumeRequest& request);
    /// Ends the connection, and waits for its threads. @thread the worker's main one
    void stop();
    /// The client has given the lane up: likewise, and for good. @return the highest number that has been received
    uint64_t give_up();

private:
    Result<void> on_frame(protocol::Frame frame) override { return m_owner.on_part(std::move(frame)); }
    Result<protocol::Place> place_payload(uint64_t, uint64_t, uint64_t, size_t bytes) override {
        return m_owner.place_part(bytes);
    }
    void on_level(const protocol::LinkLevelChange& change) override;
    bool keeps() const override { return true; }
    void on_ended(const Error& error, const std::string& explanation) override;

    Owner& m_owner;
    protocol::Link m_link;
    uint32_t m_epoch = 0;
    bool m_given_up = false;
    std::unique_ptr<net::ChannelPump> m_pump;
};

}  // namespace warpline::server
