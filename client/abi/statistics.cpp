// The counts of a process as JSON, for whoever measures programs.
#include "client/abi/statistics.h"

#include <fcntl.h>
#include <unistd.h>

#include "client/session/session.h"
#include "client/state/thread_state.h"
#include "common/log/log.h"

namespace warpline::client {

namespace {

std::string quoted(std::string_view text) {
    std::string out = "\"";
    for (char c : text) {
        if (c == '"' || c == '\\') out += '\\';
        if (static_cast<unsigned char>(c) < 0x20) {
            out += log::format("\\u{:04x}", static_cast<unsigned>(c));
        } else {
            out += c;
        }
    }
    return out + "\"";
}

std::string as_json(const protocol::LinkQuality& link) {
    const std::chrono::duration<double> at_level = std::chrono::steady_clock::now() - link.level_since;
    return log::format(
        "{{\"level\": \"{}\", \"level_seconds\": {:.3f}, \"level_changes\": {}, \"round_trips\": {}, "
        "\"last_round_trip_us\": {}, \"smoothed_round_trip_us\": {}, \"minimum_round_trip_us\": {}, "
        "\"round_trip_variation_us\": {}, \"jitter_us\": {}, \"pings\": {}, \"missed_pings\": {}, "
        "\"sent_bytes_per_s\": {}, \"received_bytes_per_s\": {}}}",
        to_string(link.level), at_level.count(), link.level_changes, link.round_trips, link.round_trip_us,
        link.smoothed_round_trip_us, link.minimum_round_trip_us, link.round_trip_variation_us, link.jitter_us, link.pings,
        link.missed_pings, link.sent_bytes_per_s, link.received_bytes_per_s);
}

std::string as_json(const std::map<uint16_t, protocol::LinkQuality>& bulk_links) {
    std::string links;
    for (const auto& [lane, link] : bulk_links)
        links += log::format("{}\"{}\": {}", links.empty() ? "" : ", ", lane, as_json(link));
    return "{" + links + "}";
}

std::string as_json(const Session& session) {
    SessionStats stats = session.stats();
    std::string calls;
    auto counts = calls_by_class();
    for (size_t i = 0; i + 1 < counts.size(); ++i) {  // the last class is internal: no program calls it
        calls += log::format("{}\"{}\": {}", i == 0 ? "" : ", ", cuda::to_string(static_cast<cuda::CallClass>(i)), counts[i]);
    }
    return log::format(
        "{{\"pid\": {}, \"server\": {}, \"address\": {}, \"driver\": {}, \"calls\": {{{}}}, \"blocking_round_trips\": {}, "
        "\"calls_sent\": {}, \"batches\": {}, \"frames_sent\": {}, \"frames_received\": {}, \"bytes_sent\": {}, "
        "\"bytes_received\": {}, \"payload_bytes_sent\": {}, \"payload_bytes_received\": {}, \"credit_waits\": {}, "
        "\"reconnects\": {}, \"frames_sent_again\": {}, \"round_trip_us\": {}, \"link\": {}, "
        "\"bulk_links\": {}, \"seconds_connected\": {:.6f}}}\n",
        ::getpid(), quoted(session.info().name), quoted(session.info().address),
        session.info().driver_kind == DriverKind::software ? "\"software\"" : "\"nvidia\"", calls, stats.blocking_round_trips,
        stats.calls_sent, stats.batches, stats.frames_sent, stats.frames_received, stats.bytes_sent, stats.bytes_received,
        stats.payload_bytes_sent, stats.payload_bytes_received, stats.credit_waits, stats.reconnects, stats.frames_again,
        stats.link.smoothed_round_trip_us, as_json(stats.link), as_json(stats.bulk_links), stats.seconds_connected);
}

}  // namespace

void write_statistics(const Session& session, const std::string& path) {
    std::string line = as_json(session);
    int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (fd < 0) {
        WL_LOG(warn, "client", "the statistics cannot be written to {}", path);
        return;
    }
    // One write: with O_APPEND, lines of several processes do not mix.
    if (::write(fd, line.data(), line.size()) != static_cast<ssize_t>(line.size())) {
        WL_LOG(warn, "client", "the statistics could not be written to {} completely", path);
    }
    ::close(fd);
}

}  // namespace warpline::client
