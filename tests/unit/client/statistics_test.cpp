// The line that a process leaves behind (E3): what scripts read, whatever a server calls itself.
#include "client/abi/statistics.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "client/session/session.h"
#include "client/state/called.h"

namespace warpline::client {
namespace {

using Json = nlohmann::ordered_json;

std::vector<std::string> keys_of(const Json& object) {
    std::vector<std::string> keys;
    for (const auto& [key, value] : object.items()) keys.push_back(key);
    return keys;
}

TEST(Statistics, AreOneLineWithTheKeysThatScriptsKnow_E3) {
    ServerInfo server;
    server.name = "gpu host";
    server.address = "gpus.example:14833";
    server.driver_kind = DriverKind::software;
    SessionStats stats;
    stats.blocking_round_trips = 7;
    stats.waits[cuda::CallId::cuCtxSynchronize] = 6;
    stats.bytes_sent = uint64_t{1} << 63;
    stats.frames_again = 3;
    stats.seconds_connected = 1.23456789;
    stats.link.smoothed_round_trip_us = 42;
    stats.bulk_links[2].pings = 5;
    stats.encoded_sent[static_cast<size_t>(compress::Codec::zstd)] = {1000, 10};
    static CalledFunction first, second;
    note_called(second, "cuSecond");
    note_called(first, "cuFirst");
    note_called(second, "cuSecond");
    const std::string line = statistics_json(server, stats, {7, 5, 6, 4000, 3000});
    EXPECT_EQ(line.find('\n'), std::string::npos);
    const Json json = Json::parse(line, nullptr, false);
    ASSERT_TRUE(json.is_object()) << line;
    EXPECT_EQ(keys_of(json), (std::vector<std::string>{"pid",
                                                       "server",
                                                       "address",
                                                       "connection",
                                                       "cipher",
                                                       "driver",
                                                       "calls",
                                                       "functions",
                                                       "blocking_round_trips",
                                                       "waits",
                                                       "calls_sent",
                                                       "calls_alike",
                                                       "batches",
                                                       "frames_sent",
                                                       "frames_received",
                                                       "bytes_sent",
                                                       "bytes_received",
                                                       "payload_bytes_sent",
                                                       "payload_bytes_received",
                                                       "shared_bytes_sent",
                                                       "shared_bytes_received",
                                                       "compressed_sent",
                                                       "compressed_received",
                                                       "foreseen",
                                                       "upload_cache",
                                                       "shared_pages",
                                                       "credit_waits",
                                                       "reconnects",
                                                       "frames_sent_again",
                                                       "round_trip_us",
                                                       "link",
                                                       "bulk_links",
                                                       "seconds_connected"}));
    EXPECT_EQ(json["pid"], getpid());
    EXPECT_EQ(json["server"], "gpu host");
    EXPECT_EQ(json["driver"], "software");
    EXPECT_EQ(json["functions"], Json::array({"cuFirst", "cuSecond"})) << "each once, sorted";
    EXPECT_EQ(json["blocking_round_trips"], 7);
    EXPECT_EQ(json["waits"], Json({{"cuCtxSynchronize", 6}}));
    EXPECT_EQ(json["compressed_sent"].dump(), R"({"zstd":{"bytes":1000,"compressed_bytes":10}})");
    EXPECT_EQ(json["compressed_received"], Json::object());
    EXPECT_EQ(json["foreseen"].dump(), R"({"answers":6,"asked_ahead":7,"used":5,"bytes":4000,"used_bytes":3000})");
    EXPECT_EQ(json["bytes_sent"], uint64_t{1} << 63);
    EXPECT_EQ(json["frames_sent_again"], 3);
    EXPECT_EQ(json["round_trip_us"], 42);
    EXPECT_EQ(json["seconds_connected"], 1.234568);
    const std::vector<std::string> link_keys{"level",
                                             "level_seconds",
                                             "level_changes",
                                             "round_trips",
                                             "last_round_trip_us",
                                             "smoothed_round_trip_us",
                                             "minimum_round_trip_us",
                                             "round_trip_variation_us",
                                             "jitter_us",
                                             "pings",
                                             "missed_pings",
                                             "part_bytes",
                                             "window_bytes",
                                             "tcp_round_trip_us",
                                             "tcp_window_bytes",
                                             "tcp_segments",
                                             "tcp_segments_again",
                                             "sent_bytes_per_s",
                                             "received_bytes_per_s"};
    EXPECT_EQ(keys_of(json["link"]), link_keys);
    EXPECT_EQ(json["link"]["level"], "up");
    EXPECT_EQ(keys_of(json["bulk_links"]), std::vector<std::string>{"2"});
    EXPECT_EQ(keys_of(json["bulk_links"]["2"]), link_keys);
    EXPECT_EQ(json["bulk_links"]["2"]["pings"], 5);
    EXPECT_EQ(keys_of(json["calls"]),
              (std::vector<std::string>{"local", "cached", "create", "ordered", "query", "blocking", "unsupported"}));
}

TEST(Statistics, NamesOfOthersDoNoHarm_F3) {
    ServerInfo server;
    server.name = "quote \" backslash \\ newline \n no UTF-8 \xff\xc3";
    const std::string line = statistics_json(server, {}, {});
    EXPECT_EQ(line.find('\n'), std::string::npos);
    const Json json = Json::parse(line, nullptr, false);
    ASSERT_TRUE(json.is_object()) << line;
    EXPECT_EQ(json["server"], "quote \" backslash \\ newline \n no UTF-8 \xef\xbf\xbd\xef\xbf\xbd");
    EXPECT_EQ(json["bulk_links"], Json::object());
}

}  // namespace
}  // namespace warpline::client
