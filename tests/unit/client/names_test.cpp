// What the entries of a pool stand for, and for how long that is believed (C4).
#include "client/pool/names.h"

#include <gtest/gtest.h>

#include <deque>

namespace warpline::client {
namespace {

using namespace std::chrono_literals;

struct EntryCase {
    const char* text;
    PoolEntry::Kind kind;
    const char* name;  // nullptr: refused
    uint16_t port;
    uint32_t weight;
};

TEST(PoolEntry, IsReadAsUsersWriteIt_C4) {
    using enum PoolEntry::Kind;
    const EntryCase cases[] = {
        {"gpu1:9000", server, "gpu1:9000", 0, 1},
        {"gpu1:9000*3", server, "gpu1:9000", 0, 3},
        {"gpus[10.0.0.7]:9000", server, "gpus[10.0.0.7]:9000", 0, 1},
        {"dns:gpus.example:9000", addresses, "gpus.example", 9000, 1},
        {"dns:gpus.example", addresses, "gpus.example", 14833, 1},
        {"dns:gpus.example:9000*2", addresses, "gpus.example", 9000, 2},
        {"dns:10.0.0.7:9000", server, "10.0.0.7:9000", 0, 1},
        {"srv:_warpline._tcp.example", services, "_warpline._tcp.example", 0, 1},
        {"gpu1:9000*", server, nullptr, 0, 0},
        {"gpu1:9000*0", server, nullptr, 0, 0},
        {"gpu1:9000*-1", server, nullptr, 0, 0},
        {"gpu1:9000*3x", server, nullptr, 0, 0},
        {"gpu1:9000*3*4", server, nullptr, 0, 0},
        {"gpu1:9000*1001", server, nullptr, 0, 0},
        {"gpu1:9000*x", server, nullptr, 0, 0},
        {"dns:", addresses, nullptr, 0, 0},
        {"dns:gpus[10.0.0.7]:1", addresses, nullptr, 0, 0},
        {"srv:gpus.example", services, nullptr, 0, 0},
        {"srv:_warpline._tcp.example:9000", services, nullptr, 0, 0},
        {"srv:_warpline._tcp.example*2", services, nullptr, 0, 0},
    };
    for (const EntryCase& expected : cases) {
        std::string why;
        const auto entry = parse_pool_entry(expected.text, why);
        ASSERT_EQ(entry.ok(), expected.name != nullptr) << expected.text;
        if (!entry.ok()) {
            EXPECT_TRUE(why.starts_with(expected.text)) << why;
            continue;
        }
        EXPECT_EQ(entry->kind, expected.kind) << expected.text;
        EXPECT_EQ(entry->name, expected.name) << expected.text;
        EXPECT_EQ(entry->port, expected.port) << expected.text;
        EXPECT_EQ(entry->weight, expected.weight) << expected.text;
    }
}

/// A DNS that says what it is told to, and a clock that goes when it is told to.
class NamesTest : public testing::Test {
protected:
    static NameAnswer are(std::vector<std::string> addresses, std::chrono::seconds ttl) {
        std::vector<PoolServer> servers;
        for (auto& address : addresses) servers.push_back({std::move(address), 1, 0});
        return {std::move(servers), ttl, ""};
    }
    static NameAnswer failed(Code code, std::string why) { return {Error{code}, 0s, std::move(why)}; }

    std::vector<std::string> expand(const char* list = "dns:gpus:1") {
        std::vector<PoolEntry> entries;
        std::string why;
        for (std::string_view rest = list; !rest.empty();) {
            const size_t space = std::min(rest.find(' '), rest.size());
            entries.push_back(*parse_pool_entry(rest.substr(0, space), why));
            rest.remove_prefix(std::min(space + 1, rest.size()));
        }
        m_last = m_names.expand(entries, m_now);
        std::vector<std::string> addresses;
        for (const PoolServer& server : m_last.servers) addresses.push_back(server.address);
        return addresses;
    }

    std::deque<NameAnswer> m_answers;
    std::vector<std::string> m_events;
    Names::Clock::time_point m_now{1h};
    Names m_names{[this](const PoolEntry& entry) -> Names::Wait {
                      m_events.push_back("ask " + entry.name);
                      return [this, name = entry.name](Names::Clock::time_point) {
                          m_events.push_back("wait " + name);
                          NameAnswer answer = std::move(m_answers.front());
                          m_answers.pop_front();
                          return answer;
                      };
                  },
                  [this] { return m_now; }};
    Names::Expanded m_last;
};

using Addresses = std::vector<std::string>;

TEST_F(NamesTest, AnswersAreKeptAsLongAsTheyHold_C4) {
    m_answers = {};
    m_answers.push_back(are({"a:1", "b:1"}, 30s));
    m_answers.push_back(are({"b:1", "c:1"}, 30s));
    EXPECT_EQ(expand(), (Addresses{"a:1", "b:1"}));
    m_now += 29s;
    EXPECT_EQ(expand(), (Addresses{"a:1", "b:1"}));
    EXPECT_EQ(m_answers.size(), 1u) << "asked again before the answer was old";
    m_now += 1s;
    EXPECT_EQ(expand(), (Addresses{"b:1", "c:1"}));
}

TEST_F(NamesTest, AllAreAskedBeforeAnyIsWaitedFor_C4) {
    m_answers.push_back(are({"a:1"}, 30s));
    m_answers.push_back(are({"b:1"}, 30s));
    EXPECT_EQ(expand("dns:one:1 plain:1 dns:two:1"), (Addresses{"a:1", "plain:1", "b:1"}));
    EXPECT_EQ(m_events, (Addresses{"ask one", "ask two", "wait one", "wait two"}));
}

TEST_F(NamesTest, ADeadDnsLeavesWhatWasKnown_C4) {
    m_answers.push_back(are({"a:1"}, 1s));
    m_answers.push_back(failed(Code::deadline, "silence"));
    m_answers.push_back(are({"b:1"}, 1s));
    EXPECT_EQ(expand(), Addresses{"a:1"});
    m_now += 2s;
    EXPECT_EQ(expand(), Addresses{"a:1"});
    EXPECT_TRUE(m_last.failed.empty());
    m_now += 4s;
    EXPECT_EQ(expand(), Addresses{"a:1"});
    EXPECT_EQ(m_answers.size(), 1u) << "a DNS server that did not answer was asked again at once";
    m_now += 2s;
    EXPECT_EQ(expand(), Addresses{"b:1"});
}

TEST_F(NamesTest, WhatDnsSaysIsGoneIsGone_C4) {
    m_answers.push_back(are({"a:1"}, 1s));
    m_answers.push_back(failed(Code::connect_refused, "no such name"));
    EXPECT_EQ(expand(), Addresses{"a:1"});
    m_now += 2s;
    EXPECT_EQ(expand("dns:gpus:1 plain:1"), Addresses{"plain:1"});
    EXPECT_EQ(m_last.reasons(), "dns:gpus:1: no such name");
    EXPECT_EQ(m_last.last_error.code, Code::connect_refused);
}

}  // namespace
}  // namespace warpline::client
