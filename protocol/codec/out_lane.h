// What an outbox has for each of a session's connections.
#pragma once

#include <array>
#include <deque>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "protocol/codec/buffer.h"
#include "protocol/codec/delivery_meter.h"
#include "protocol/codec/frame.h"
#include "protocol/codec/place.h"
#include "protocol/codec/preamble.h"
#include "protocol/session/item_sender.h"

namespace warpline::protocol {

/// A frame on its way out: its header, and its bytes or a view of somebody else's.
struct OutFrame {
    FrameHeader header;
    Buffer body;
    Buffer payload;
    BytesView external_payload;  ///< instead of `payload`: valid until the frame has been handed to a socket
    Place lent;                  ///< what external_payload lies in, if it goes back with the frame
    std::byte wire_header[k_frame_header_bytes] = {};
    // The writer's while it has the frame in hand:
    uint32_t saved_bytes = 0;       ///< by encoding it, when it was sent
    uint32_t shared_bytes = 0;      ///< that did not travel, because its payload lies in shared memory
    uint64_t shared_place = 0;      ///< where: as it travels
    uint8_t way = k_tells_nothing;  ///< in which it was sent: DeliveryMeter
    bool was_awaited = false;       ///< by a lane that had nothing to do: how long that took tells nothing

    BytesView payload_view() const { return external_payload.data() ? external_payload : payload.view(); }
    /// As it travels if it is not encoded.
    void append_views(std::vector<BytesView>& views) const {
        views.emplace_back(wire_header, k_frame_header_bytes);
        if (!body.empty()) views.push_back(body.view());
        if (!payload_view().empty()) views.push_back(payload_view());
    }
    size_t raw_bytes() const { return k_frame_header_bytes + header.body_bytes + header.payload_bytes; }
};
using FramePtr = std::unique_ptr<OutFrame>;  // its place does not change while it is written

/// The fields of a Bulk frame's body.
struct BulkHeader {
    uint64_t call = 0;
    uint64_t offset = 0;
    uint64_t total = 0;
    bool keep = false;  ///< it may be worth keeping for another time
};

/// A long payload on its way out. Its parts are cut when a lane can take them, so that calls go in between.
struct Transfer {
    uint64_t call = 0;
    BytesView payload;
    bool counts_credit = false;
    bool any_lane = false;  ///< its parts may travel on bulk lanes; else all on the command lane, in order with everything else
    uint64_t cut_bytes = 0;  ///< what lies before is cut or offered, and has its credit
    // Of a payload whose hashes may go ahead of it (outbox_offers.cpp):
    bool hashes_first = false;   ///< what lies behind cut_bytes is hashed and offered
    bool samples = false;        ///< one chunk is to be asked for
    bool hash_leads = false;     ///< nothing is sent before that chunk is hashed: else its hash would queue behind
    bool being_hashed = false;   ///< somebody reads it
    uint64_t plain_bytes = 0;    ///< at its beginning, that are sent whatever the server has
    uint64_t offered_bytes = 0;  ///< that are not answered
    std::deque<std::pair<uint64_t, uint64_t>> owed{};  ///< offered, and the server does not have them: from where, to where
    std::array<uint64_t, k_max_lanes> last_numbers{};  ///< of the frame with the last part on each lane; 0: none went there

    bool is_cut() const { return cut_bytes == payload.size() && offered_bytes == 0 && owed.empty(); }
};

/// The sending half of one connection after another: frames with numbers of the lane's own, which go on from connection to
/// connection. Under the outbox's mutex.
struct OutLane {
    OutLane(uint64_t retain_limit_bytes, uint64_t window) : items(retain_limit_bytes), window_bytes(window) {}

    ItemSender<FramePtr> items;
    uint64_t window_bytes;    ///< parts leave while less is sent and not acknowledged
    uint32_t part_bytes = 0;  ///< that suits it; 0: as the options say
    uint64_t wire_bytes = 0;
    uint64_t saved_bytes = 0;  ///< of frames that are sent and not acknowledged
    bool ping_due = false;
    std::optional<uint64_t> pong_due;          ///< what it echoes
    std::vector<FramePtr> taken_once;          ///< what the writer has that nobody will ask for again
    std::vector<FramePtr> acknowledged_early;  ///< while the writer still has them in hand
    uint64_t sent_number = 0;                  ///< the highest that was handed to a socket
    bool writing = false;                      ///< between take() and sent()
    uint64_t in_hand_first = 0;                ///< what the writer has then; 0: nothing with a number
    uint64_t in_hand_last = 0;
    bool given_up = false;  ///< for good
    uint64_t in_hand_bytes = 0;
    DeliveryMeter delivery;
    bool had_nothing_to_do = true;  ///< before what it has in hand
    bool writer_sleeps = false;
    bool writer_naps = false;   ///< it comes back soon, unless it is woken for what is urgent
    bool writer_waits = false;  ///< its thread does either, or is about to look
    bool poked = false;

    bool in_hand(uint64_t number) const { return writing && number >= in_hand_first && number <= in_hand_last; }
    /// As they travel, as far as that is known: what waits to be sent may still get smaller.
    uint64_t under_way_bytes() const { return items.unacknowledged_bytes() - saved_bytes + items.unsent_bytes(); }
    /// True if a part of this size may leave now: one always may, when nothing is under way.
    bool in_window(uint64_t bytes) const { return under_way_bytes() == 0 || under_way_bytes() + bytes <= window_bytes; }
};

}  // namespace warpline::protocol
