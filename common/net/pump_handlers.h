// What ties a pump to the protocol without either knowing the other.
#pragma once

#include <utility>

#include "common/net/channel_pump.h"

namespace warpline::net {

/// The handlers that let a pump move the bytes of a protocol::Link, or of anything else with the same methods. (A template,
/// because this folder knows no protocol, and the protocol no sockets.)
///
/// @param keeps  `keeps(const Error&)`: true if the link waits for another connection (Link::detach); else its sending side is
///               closed with the error
/// @param ended  the last act of the reading thread: `ended(const Error&, const std::string& explanation)`. The link's sending
/// side
///               has been closed with that error just before
template <typename Link, typename Ended, typename Keeps>
PumpHandlers pump_handlers(Link& link, Ended ended, Keeps keeps) {
    PumpHandlers handlers;
    handlers.space = [&link] { return link.receive_space(); };
    handlers.received = [&link](size_t count) { return link.received(count); };
    handlers.flush_due = [&link] { return link.flush_due(); };
    handlers.tick = [&link](const std::optional<TcpPath>& path) {
        if (path && path->capacity_bytes != 0) link.set_path_capacity(path->capacity_bytes);
        return link.tick(std::chrono::steady_clock::now(), path ? std::optional(path->unacknowledged_for) : std::nullopt);
    };
    handlers.wait_for_output = [&link] { return link.wait_for_output(); };
    handlers.take_output = [&link](std::vector<BytesView>& views) { return link.take_output(views); };
    handlers.between_pieces = [&link] { link.between_pieces(); };
    handlers.output_sent = [&link] { link.output_sent(); };
    handlers.may_flush = [&link] { return link.may_flush(); };
    handlers.wake_writer = [&link] { link.wake_writer(); };
    handlers.refuse = [&link](const Error& error) { link.say_goodbye(error.code, error.what); };
    handlers.ended = [&link, ended = std::move(ended), keeps = std::move(keeps)](const Error& error,
                                                                                 const std::string& explanation) {
        if (keeps(error)) {
            link.detach();
        } else {
            link.close(error, true);
        }
        ended(error, explanation);
    };
    return handlers;
}

/// The same for a link that lives as long as its connection.
template <typename Link, typename Ended>
PumpHandlers pump_handlers(Link& link, Ended ended) {
    return pump_handlers(link, std::move(ended), [](const Error&) { return false; });
}

}  // namespace warpline::net
