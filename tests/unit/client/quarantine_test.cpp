// Which servers rest, and for how long (C4).
#include "client/pool/quarantine.h"

#include <gtest/gtest.h>

namespace warpline::client {
namespace {

using namespace std::chrono_literals;

const RestingServers::Clock::time_point k_now{1'000'000s};

TEST(RestingServers, RestTwiceAsLongEachTime_C4) {
    RestingServers servers(60s);
    auto now = k_now;
    for (const auto rest : {2s, 4s, 8s, 16s, 32s, 60s, 60s}) {
        EXPECT_FALSE(servers.rests("a:1", now));
        servers.failed("a:1", now);
        EXPECT_TRUE(servers.rests("a:1", now + rest - 1ms)) << rest.count();
        now += rest;
        EXPECT_FALSE(servers.rests("a:1", now)) << rest.count();
    }
    EXPECT_FALSE(servers.rests("b:1", k_now));
    servers.well("a:1");
    servers.failed("a:1", now);
    EXPECT_FALSE(servers.rests("a:1", now + 2s)) << "it had been well";
}

TEST(RestingServers, ManyWhoFindTheSameFailureAreOne_C4) {
    RestingServers servers(60s);
    for (int program = 0; program < 30; ++program) servers.failed("a:1", k_now + program * 10ms);
    EXPECT_FALSE(servers.rests("a:1", k_now + 2s));
}

TEST(RestingServers, NobodyRestsWhereNobodyIsTo_C4) {
    RestingServers servers(0s);
    servers.failed("a:1", k_now);
    EXPECT_FALSE(servers.rests("a:1", k_now));
    EXPECT_EQ(servers.text(), "");
}

TEST(RestingServers, AreReadAsTheyWereWritten_C4) {
    RestingServers servers(60s);
    servers.failed("a:1", k_now);
    servers.failed("pool.example[10.0.0.7 ::1]:1", k_now + 1s);
    RestingServers others(60s);
    others.read(servers.text(), k_now + 1s);
    EXPECT_EQ(others.text(), servers.text());
    EXPECT_TRUE(others.rests("a:1", k_now + 1s));
    EXPECT_TRUE(others.rests("pool.example[10.0.0.7 ::1]:1", k_now + 1s));
    RestingServers later(60s);
    later.read(servers.text(), k_now + 63s);
    EXPECT_EQ(later.text().find("a:1"), std::string::npos) << "a failure of long ago is remembered";
}

TEST(RestingServers, WhatIsDamagedIsLeftOut_F1) {
    for (const char* text : {"", "\n\n", "a:1", "1 a:1", "x 1000001000 a:1", "-1 1000001000 a:1", "1 1000001000",
                             "1 1000001000 ", "1 99999999999999999999 a:1", "1 1000090000 a:1"}) {
        RestingServers servers(60s);
        servers.read(text, k_now);
        EXPECT_EQ(servers.text(), "") << text;
    }
    std::string many;
    for (int i = 0; i < 1000; ++i) many += "1 1000001000 a:" + std::to_string(i) + "\n";
    RestingServers servers(60s);
    servers.read(many, k_now);
    const std::string text = servers.text();
    EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 256);
}

}  // namespace
}  // namespace warpline::client
