// When to ask the peer for a sign of life, and what its silence means. No clock and no socket: time and events are arguments.
#pragma once

#include <chrono>
#include <deque>
#include <optional>
#include <string>

#include "protocol/codec/link_quality.h"

namespace warpline::protocol {

/// Bounds of the limits that follow the measured round trip (docs/wire-format.md#heartbeat).
struct HeartbeatOptions {
    std::chrono::milliseconds interval{1000};    ///< silence, ours or the peer's, after which a Ping is sent
    std::chrono::milliseconds lost_after{8000};  ///< silence of the peer's after which it is lost; more on a slow link
    std::chrono::milliseconds lost_after_at_most{32000};
    /// Instead, while the peer's machine acknowledges what we send: then its process is stopped, not the link.
    std::chrono::milliseconds stopped_after{30000};

    /// @param lost_after     0: eight intervals
    /// @param stopped_after  not less than lost_after, whatever it says
    static HeartbeatOptions of(std::chrono::milliseconds interval, std::chrono::milliseconds lost_after,
                               std::chrono::milliseconds stopped_after);
};

/// A change of level that is worth a line in the log.
struct LinkLevelChange {
    LinkLevel from = LinkLevel::up;
    LinkLevel to = LinkLevel::up;
    bool serious = false;  ///< into suspect, or out of it: warn; else info
    std::string text;      ///< "slow -> suspect: nothing received for …"
};

/// The heartbeat of one connection. Silence is counted between looks at the clock (each event is one): a long gap between two
/// looks means that this process was stopped or kept from listening, and says nothing about the peer.
class Heartbeat {
public:
    Heartbeat(HeartbeatOptions options, Clock::time_point now);

    /// Another connection takes the place of one that is lost: nothing was silent yet. What was measured stays.
    void restart(Clock::time_point now);

    enum class Action : uint8_t { none, ping, lost };

    /// What is due. To be called several times per interval.
    ///
    /// @param unacknowledged_for  how long the peer's machine has owed an acknowledgement of bytes that we sent; 0: it owes
    ///                            none. Nothing: not known, and taken for as long as its silence
    Action tick(Clock::time_point now, std::optional<std::chrono::milliseconds> unacknowledged_for);
    enum class Came : uint8_t {
        whole,  ///< something complete, with the beginning of the next or without
        part,   ///< bytes of what is not complete yet
    };
    /// Bytes came: a sign of life. But not for ever, if what they are part of is not completed: then its length was damaged on
    /// the way, and what follows is taken for its rest.
    void received(Clock::time_point now, Came came = Came::whole);
    void sent(Clock::time_point at) { m_last_sent = at; }
    /// A Ping has been sent at that moment beside those of tick(): its Pong tells a round trip.
    void asked(Clock::time_point at);
    /// A Pong came: `echo_us` is the time stamp of the Ping. What answers no Ping of ours is not believed.
    void pong(uint64_t echo_us, Clock::time_point now);

    LinkLevel level() const { return m_level; }
    /// How long nothing has been received, as far as it was listened.
    Clock::duration silence() const { return m_silence; }

    /// Silence from which on the link is on each level. It is lost as well when something is in its middle for so long.
    struct Limits {
        Clock::duration slow, suspect, lost;
    };
    Limits limits() const;

    /// True if take_change() may have something. Cheap.
    bool has_change() const { return m_change.has_value(); }
    /// A change of level to be logged: each once. Of many troubles within a short time only the first few are told, each with
    /// its end; the next one that is told says how many were not.
    std::optional<LinkLevelChange> take_change();

    /// All but the rates.
    void describe(LinkQuality& quality) const;
    /// 0 before the first one.
    uint64_t minimum_round_trip_us() const { return m_round_trips.minimum_us(); }

private:
    struct Asked {
        Clock::time_point at;
        bool missed = false;
    };
    /// How many troubles of a kind are still told within this minute.
    struct Budget {
        unsigned left = 0;
        Clock::time_point renewed;
    };

    void look(Clock::time_point now);
    void count_missed(Clock::time_point now);
    bool ping_is_due(Clock::time_point now) const;
    Clock::duration answer_time() const;
    void change_level(LinkLevel level, Clock::time_point now, std::string reason);
    void report(LinkLevelChange change, Clock::time_point now);

    const HeartbeatOptions m_options;
    Clock::duration m_silence{};
    std::optional<Clock::duration> m_incomplete_for;  // since only parts have come
    Clock::time_point m_last_look;
    Clock::time_point m_last_received;
    Clock::time_point m_last_sent;
    Clock::time_point m_last_ping;
    RoundTrips m_round_trips;
    std::deque<Asked> m_asked;  // Pings without an answer, oldest first
    uint64_t m_pings = 0;
    uint64_t m_missed_pings = 0;

    LinkLevel m_level = LinkLevel::up;
    Clock::time_point m_level_since;
    uint32_t m_level_changes = 0;
    bool m_peer_stopped = false;  // silent beyond the limit, while its machine acknowledges

    std::optional<LinkLevelChange> m_change;
    Budget m_budgets[2];    // for troubles that are not serious, and for those that are
    bool m_told = false;    // of the trouble at hand
    unsigned m_untold = 0;  // changes since the last one that was told
};

}  // namespace warpline::protocol
