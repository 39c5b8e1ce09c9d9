// What ties a pump to the protocol without either knowing the other.
#pragma once

#include <chrono>
#include <memory>

#include "common/net/channel_user.h"

namespace warpline::net {

/// Lets a pump move the bytes of a protocol::Link, or of anything else with the same methods. (A template, because this folder
/// knows no protocol, and the protocol no sockets.)
template <typename Link>
class LinkUser : public ChannelUser {
public:
    /// @param link  outlives it
    explicit LinkUser(Link& link) : m_link(link) {}

    MutableBytesView space() override { return m_link.receive_space(); }
    Result<void> received(size_t count) override { return m_link.received(count); }
    bool flush_due() override { return m_link.flush_due(); }
    Result<void> tick(const std::optional<TcpPath>& path) override {
        if (path)
            m_link.set_path({path->capacity_bytes, path->round_trip_us, path->congestion_window_bytes, path->sent_segments,
                             path->repeated_segments, path->received_segments, path->disordered_segments,
                             path->outlasts_losses});
        return m_link.tick(std::chrono::steady_clock::now(), path ? std::optional(path->unacknowledged_for) : std::nullopt);
    }
    uint64_t unsent_bytes() override { return m_link.unsent_bytes(); }
    void refuse(const Error& error, const std::string& explanation) override { m_link.refuse(error, explanation); }

    bool wait_for_output() override { return m_link.wait_for_output(); }
    bool take_output(std::vector<BytesView>& views) override { return m_link.take_output(views); }
    void between_pieces() override { m_link.between_pieces(); }
    void output_sent() override { m_link.output_sent(); }

    bool may_flush() override { return m_link.may_flush(); }
    void wake_writer() override { m_link.wake_writer(); }

    void ended(const Error& error, const std::string& explanation) override { m_link.connection_ended(error, explanation); }

private:
    Link& m_link;
};

template <typename Link>
std::unique_ptr<ChannelUser> user_of(Link& link) {
    return std::make_unique<LinkUser<Link>>(link);
}

}  // namespace warpline::net
