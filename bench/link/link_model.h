// What a link does to the bytes on it, computed: rate, delay, jitter, loss, and a bounded queue before it. No socket, no
// thread, and no clock of its own: the caller says what time it is. docs/performance.md#the-link-emulator explains the model.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <limits>
#include <optional>
#include <random>

namespace warpline::bench {

using LinkTime = std::chrono::nanoseconds;  ///< since any beginning, the same for all

inline constexpr size_t k_packet_bytes = 1448;  ///< of payload, on an Ethernet

/// A link, the same in both directions.
struct LinkProperties {
    LinkTime round_trip{0};  ///< of the first byte, while the queue is empty
    LinkTime jitter{0};      ///< a round trip is as much as this longer or shorter, evenly distributed; at most round_trip
    double bits_per_s = 0;   ///< of payload, each way; 0: no limit
    double loss = 0;         ///< share of the packets that are lost, independently of each other; 0 … 0.5
    LinkTime queue = std::chrono::milliseconds(5);  ///< how long bytes may wait for the link before their sender has to
    uint64_t seed = 1;                              ///< of jitter and loss
};

/// One direction of the link, which all connections share: when bytes have left it.
class Wire {
public:
    explicit Wire(const LinkProperties& link)
        : m_ns_per_byte(link.bits_per_s > 0 ? 8e9 / link.bits_per_s : 0), m_queue(link.queue) {}

    /// From when on there is room in the queue; in the past: now.
    LinkTime room_at() const { return m_free_at - m_queue; }
    /// Takes bytes, and says when the last of them is on its way.
    LinkTime transmit(LinkTime now, size_t bytes);

private:
    double m_ns_per_byte;
    LinkTime m_queue;
    LinkTime m_free_at{std::numeric_limits<int64_t>::min() / 2};  // when what was taken so far has left
};

/// One direction of one connection: the order of its bytes, what is lost of them, and how much may be under way.
///
/// A lost packet comes a round trip late, because the acknowledgements of those behind it tell the sender (RFC 8985), and holds
/// those back meanwhile; if fewer than three follow, two round trips (its tail loss probe). Each loss makes the window smaller
/// as CUBIC does (RFC 9438). Without loss the window is what the link holds: there is no slow start.
class Stream {
public:
    /// @param number  makes the chances of several streams different
    Stream(Wire& wire, const LinkProperties& link, uint64_t number);

    /// From when on it may send, as far as that is known; nothing: not before the receiver has taken what arrived.
    std::optional<LinkTime> may_send_at(LinkTime now);
    /// The most bytes that send() should get when it may send: what the window has room for, at least a packet.
    size_t room(LinkTime now) const;
    /// Sends one piece. 0 bytes are the end of the stream, which is never lost.
    void send(LinkTime now, size_t bytes);

    /// When the first piece that was not taken yet arrives; nothing: there is none.
    std::optional<LinkTime> next_arrival() const;
    /// The receiver takes that piece.
    void take();

    uint64_t lost_packets() const { return m_lost; }
    /// Bytes that may be sent and not acknowledged.
    double window(LinkTime now) const;

private:
    struct Piece {
        LinkTime arrives;
        size_t bytes;
    };
    struct Acknowledgement {
        LinkTime comes;
        size_t bytes;
    };
    /// The last loss, while too few packets have followed it for the sender to know.
    struct Unnoticed {
        uint64_t piece;  // its number
        size_t followers;
    };

    LinkTime losses(LinkTime now, size_t packets);
    void followed_by(size_t packets, LinkTime arrives);
    void shrink_window(LinkTime now);
    LinkTime jitter();
    uint64_t packets_before_loss();

    Wire& m_wire;
    LinkProperties m_link;
    std::mt19937_64 m_random;
    double m_capacity;  // bytes that the link and its queue hold
    std::deque<Piece> m_pieces;
    uint64_t m_taken = 0;   // pieces: the number of the first in m_pieces
    size_t m_arriving = 0;  // bytes in m_pieces
    std::deque<Acknowledgement> m_acknowledgements;
    size_t m_under_way = 0;  // bytes not acknowledged
    uint64_t m_until_loss;   // packets
    std::optional<Unnoticed> m_unnoticed;
    std::optional<LinkTime> m_shrunk_at;  // when the window was made smaller
    double m_window_before = 0;           // what it was then, in packets
    uint64_t m_lost = 0;
};

}  // namespace warpline::bench
