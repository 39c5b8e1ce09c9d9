// What a trace consists of, before it is written.
#pragma once

#include <array>
#include <cstdint>
#include <string>

namespace warpline::client::trace {

/// What happened. The numbers mean something within a process only.
enum class EventKind : uint8_t {
    call,       ///< the program called: `count` calls from `first` on were sent, or `first` had told the answer; `result`
    wait,       ///< its thread waited for the reply to call `first`, with so many `bytes` of payload
    blocked,    ///< its thread could not send
    start,      ///< connecting, and the goodbye: `count` round trips
    sent,       ///< a frame was handed to a socket
    received,   ///< a frame was received
    executed,   ///< the server executed call `first`, on its thread `track`
    clocks,     ///< `first`: what is known of the server's clock, ± nanoseconds
    round_trip  ///< `first`: of a Ping, nanoseconds
};

/// One thing that happened: 64 bytes, so that noting it costs a cache line.
struct Event {
    EventKind kind = EventKind::call;
    uint8_t codec = 0;      ///< of a frame: compress::Codec
    uint16_t lane = 0;      ///< of a frame
    uint32_t track = 0;     ///< the thread; of the server's for `executed`
    const char* name = "";  ///< lives as long as the process
    uint64_t begin_ns = 0;  ///< of this machine's steady clock, as all times
    uint64_t end_ns = 0;
    uint64_t first = 0;
    uint32_t count = 0;   ///< of calls
    uint32_t result = 0;  ///< CUresult; of a frame: see put_share()
    uint64_t bytes = 0;   ///< of a frame, decoded
    uint64_t wire_bytes = 0;
};
static_assert(sizeof(Event) <= 64);

/// Rates that a trace says of what large frames would be compressed to there, bits a second.
inline constexpr std::array<double, 3> k_share_rates = {10e6, 100e6, 1000e6};
/// A frame: the percentage of its bytes that it would travel as at one of these rates; 0: not known.
inline void put_share(Event& event, size_t rate, double share) {
    event.result |= static_cast<uint32_t>(share * 100 + 0.5) << (8 * rate);
}
inline unsigned share_percent(const Event& event, size_t rate) { return event.result >> (8 * rate) & 0xff; }

/// Appends the event as one line of a JSON array in the trace-event format, with a comma at its end.
void append_line(std::string& out, const Event& event, uint32_t pid);

/// Appends the line that names a track (a thread) or, with track 0, the process.
void append_name(std::string& out, uint32_t pid, uint32_t track, const std::string& name);

/// The process that the server's threads are shown as.
constexpr uint32_t server_pid(uint32_t pid) { return pid + 1'000'000'000; }
/// The track of what is sent over, or received from, a lane.
constexpr uint32_t lane_track(uint16_t lane, bool received) { return 1'000'000'000 + lane * 2u + (received ? 1 : 0); }

}  // namespace warpline::client::trace
