// The counts of a process as JSON, for whoever measures programs.
#include "client/abi/statistics.h"

#include <fcntl.h>
#include <unistd.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "client/managed/shared_pages.h"
#include "client/session/session.h"
#include "client/state/called.h"
#include "client/state/thread_state.h"
#include "common/log/log.h"

namespace warpline::client {

namespace {

/// Keys stay in the order in which they are given.
using Json = nlohmann::ordered_json;

/// With so many digits behind the point as mean something.
double rounded(double value, double steps) { return std::round(value * steps) / steps; }

Json as_json(const protocol::LinkQuality& link) {
    const std::chrono::duration<double> at_level = std::chrono::steady_clock::now() - link.level_since;
    return {{"level", to_string(link.level)},
            {"level_seconds", rounded(at_level.count(), 1e3)},
            {"level_changes", link.level_changes},
            {"round_trips", link.round_trips},
            {"last_round_trip_us", link.round_trip_us},
            {"smoothed_round_trip_us", link.smoothed_round_trip_us},
            {"minimum_round_trip_us", link.minimum_round_trip_us},
            {"round_trip_variation_us", link.round_trip_variation_us},
            {"jitter_us", link.jitter_us},
            {"pings", link.pings},
            {"missed_pings", link.missed_pings},
            {"part_bytes", link.part_bytes},
            {"window_bytes", link.window_bytes},
            {"tcp_round_trip_us", link.kernel.round_trip_us},
            {"tcp_window_bytes", link.kernel.congestion_window_bytes},
            {"tcp_segments", link.kernel.sent_segments},
            {"tcp_segments_again", link.kernel.repeated_segments},
            {"sent_bytes_per_s", link.sent_bytes_per_s},
            {"received_bytes_per_s", link.received_bytes_per_s}};
}

Json as_json(const std::map<uint16_t, protocol::LinkQuality>& bulk_links) {
    Json links = Json::object();
    for (const auto& [lane, link] : bulk_links) links[std::to_string(lane)] = as_json(link);
    return links;
}

Json as_json(const std::map<cuda::CallId, uint64_t>& waits) {
    Json calls = Json::object();
    for (const auto& [call, count] : waits) calls[cuda::call_name(call)] = count;
    return calls;
}

Json as_json(const Foresight::Counts& foreseen) {
    return {{"answers", foreseen.answers},
            {"asked_ahead", foreseen.asked},
            {"used", foreseen.used},
            {"bytes", foreseen.bytes},
            {"used_bytes", foreseen.used_bytes}};
}

/// What was compressed, before and after, by codec.
Json as_json(const protocol::Encoding::ByCodec& encoded) {
    Json codecs = Json::object();
    for (size_t codec = 0; codec < encoded.size(); ++codec)
        if (encoded[codec].raw != 0)
            codecs[to_string(static_cast<compress::Codec>(codec))] = {{"bytes", encoded[codec].raw},
                                                                      {"compressed_bytes", encoded[codec].wire}};
    return codecs;
}

Json calls_json() {
    Json calls = Json::object();
    const auto counts = calls_by_class();
    for (size_t i = 0; i + 1 < counts.size(); ++i)  // the last class is internal: no program calls it
        calls[cuda::to_string(static_cast<cuda::CallClass>(i))] = counts[i];
    return calls;
}

Json as_json(const protocol::OfferCounters& offers) {
    const double asked = static_cast<double>(offers.asked_chunks);
    return {{"asked_chunks", offers.asked_chunks},
            {"found_chunks", offers.found_chunks},
            {"sampled_chunks", offers.sampled_chunks},
            {"found_bytes", offers.found_bytes},
            {"hit_rate", asked == 0 ? Json() : Json(rounded(static_cast<double>(offers.found_chunks) / asked, 1e4))}};
}

/// Of memory that the program and the device share by address.
Json as_json(const SharedPages::Counters& pages) {
    return {{"faults", pages.faults.load()},
            {"fetches", pages.fetches.load()},
            {"late", pages.late.load()},
            {"fetched_bytes", pages.fetched_bytes.load()},
            {"written_back_bytes", pages.written_back_bytes.load()},
            {"hand_overs", pages.hand_overs.load()}};
}

}  // namespace

std::string statistics_json(const ServerInfo& server, const SessionStats& stats, const Foresight::Counts& foreseen) {
    const Json json = {{"pid", ::getpid()},
                       {"server", server.name},
                       {"address", server.address},
                       {"connection", server.connection},
                       {"cipher", server.cipher},
                       {"driver", server.driver_kind == DriverKind::software ? "software" : "nvidia"},
                       {"calls", calls_json()},
                       {"functions", called_functions()},
                       {"blocking_round_trips", stats.blocking_round_trips},
                       {"waits", as_json(stats.waits)},
                       {"calls_sent", stats.calls_sent},
                       {"calls_alike", stats.calls_alike},
                       {"batches", stats.batches},
                       {"frames_sent", stats.frames_sent},
                       {"frames_received", stats.frames_received},
                       {"bytes_sent", stats.bytes_sent},
                       {"bytes_received", stats.bytes_received},
                       {"payload_bytes_sent", stats.payload_bytes_sent},
                       {"payload_bytes_received", stats.payload_bytes_received},
                       {"shared_bytes_sent", stats.shared_bytes_sent},
                       {"shared_bytes_received", stats.shared_bytes_received},
                       {"compressed_sent", as_json(stats.encoded_sent)},
                       {"compressed_received", as_json(stats.encoded_received)},
                       {"foreseen", as_json(foreseen)},
                       {"upload_cache", as_json(stats.offers)},
                       {"shared_pages", as_json(SharedPages::instance().counters)},
                       {"credit_waits", stats.credit_waits},
                       {"reconnects", stats.reconnects},
                       {"frames_sent_again", stats.frames_again},
                       {"round_trip_us", stats.link.smoothed_round_trip_us},
                       {"link", as_json(stats.link)},
                       {"bulk_links", as_json(stats.bulk_links)},
                       {"seconds_connected", rounded(stats.seconds_connected, 1e6)}};
    return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

void write_statistics(const Session& session, const Foresight& foresight, const std::string& path) {
    const std::string line = statistics_json(session.info(), session.stats(), foresight.counts()) + "\n";
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
