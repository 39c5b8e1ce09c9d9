// News for the client.
#pragma once

#include <utility>

#include "protocol/codec/outbox.h"
#include "protocol/schema/envelope.capnp.h"

namespace warpline::server {

/// Tells the client something that it has not asked for.
/// @param fill     of the wire::Event::Builder
/// @param payload  copied
/// @blocks         as Outbox::add_message
/// @errors         as Outbox::add_message
template <typename F>
Result<void> send_event(protocol::Outbox& outbox, F&& fill, BytesView payload = {},
                        protocol::Urgency urgency = protocol::Urgency::writer) {
    constexpr unsigned k_event_words = 16;  // no event is larger
    return outbox.add_message<wire::Event>(protocol::FrameKind::event, k_event_words, std::forward<F>(fill), payload, urgency);
}

}  // namespace warpline::server
