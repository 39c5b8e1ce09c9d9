// Traces as they are written (E8): lines, files, threads that note faster than is written, the server's clock.
#include "client/trace/trace.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "client/trace/recorder.h"
#include "client/trace/server_clock.h"
#include "common/base/sanitizers.h"

namespace warpline::client::trace {
namespace {

using Json = nlohmann::json;
namespace fs = std::filesystem;

class TraceFile : public testing::Test {
protected:
    TraceFile() {
        char name[] = "/tmp/warpline-trace-XXXXXX";
        m_folder = ::mkdtemp(name);
    }
    ~TraceFile() override { fs::remove_all(m_folder); }
    std::string path(const std::string& name = "trace.json") const { return m_folder / name; }
    static Json read(const std::string& path) {
        std::ifstream file(path);
        return Json::parse(file, nullptr, false);
    }
    static std::vector<Json> of(const Json& trace, const std::string& category) {
        std::vector<Json> found;
        for (const Json& event : trace)
            if (event.value("cat", "") == category) found.push_back(event);
        return found;
    }
    std::unique_ptr<Recorder> open(const std::string& path, uint64_t limit = 1 << 30) {
        std::string problem;
        auto recorder = Recorder::open(path, limit, problem);
        EXPECT_TRUE(recorder) << problem;
        return recorder;
    }

    fs::path m_folder;
};

Event call_event(uint64_t number) {
    Event event;
    event.name = "cuLaunchKernel";
    event.track = 7;
    event.begin_ns = 1'234'567'890 + number * 1000;
    event.end_ns = event.begin_ns + 305;
    event.first = number;
    event.count = 1;
    return event;
}

TEST(TraceLine, has_what_the_format_asks_for_E8) {
    std::string line;
    append_line(line, call_event(5), 42);
    ASSERT_EQ(line.substr(line.size() - 2), ",\n");
    const Json call = Json::parse(line.substr(0, line.size() - 2));
    EXPECT_EQ(call["ph"], "X");
    EXPECT_EQ(call["pid"], 42);
    EXPECT_EQ(call["tid"], 7);
    EXPECT_DOUBLE_EQ(call["ts"].get<double>(), 1234572.890);
    EXPECT_DOUBLE_EQ(call["dur"].get<double>(), 0.305);
    EXPECT_EQ(call["args"], Json({{"call", 5}, {"calls", 1}}));
    Event executed = call_event(6);
    executed.kind = EventKind::executed;
    line.clear();
    append_line(line, executed, 42);
    const Json server = Json::parse(line.substr(0, line.size() - 2));
    EXPECT_EQ(server["pid"], server_pid(42));
    EXPECT_EQ(server["args"], Json({{"call", 6}}));
    Event frame = call_event(7);
    frame.kind = EventKind::sent;
    frame.lane = 2;
    frame.codec = 1;
    frame.bytes = 100;
    frame.wire_bytes = 60;
    line.clear();
    append_line(line, frame, 42);
    const Json sent = Json::parse(line.substr(0, line.size() - 2));
    EXPECT_EQ(sent["args"], Json({{"lane", 2}, {"call", 7}, {"calls", 1}, {"bytes", 100}, {"wire", 60}, {"codec", "lz4"}}));
    EXPECT_EQ(sent["tid"], lane_track(2, false));
    put_share(frame, 0, 0.231);
    put_share(frame, 1, 0.5);
    put_share(frame, 2, 1);
    line.clear();
    append_line(line, frame, 42);
    EXPECT_EQ(Json::parse(line.substr(0, line.size() - 2))["args"]["packs"], Json({23, 50, 100}));
    Event failed = call_event(0);
    failed.count = 0;
    failed.result = 700;
    line.clear();
    append_line(line, failed, 42);
    EXPECT_EQ(Json::parse(line.substr(0, line.size() - 2))["args"], Json({{"result", 700}}));
    Event answered = call_event(8);
    answered.count = 0;
    line.clear();
    append_line(line, answered, 42);
    EXPECT_EQ(Json::parse(line.substr(0, line.size() - 2))["args"], Json({{"answered_by", 8}}));
    Event wait = call_event(9);
    wait.kind = EventKind::wait;
    wait.bytes = 4;
    line.clear();
    append_line(line, wait, 42);
    EXPECT_EQ(Json::parse(line.substr(0, line.size() - 2))["args"], Json({{"call", 9}, {"bytes", 4}}));
}

TEST(TraceLine, names_of_others_do_no_harm_F3) {
    std::string line;
    append_name(line, 1, 0, "quote \" backslash \\ newline \n");
    EXPECT_EQ(Json::parse(line.substr(0, line.size() - 2))["args"]["name"], "quote \" backslash \\ newline  ");
}

// Threads note more than their rings hold, faster than it can be written.
TEST_F(TraceFile, loses_nothing_E8) {
    constexpr uint64_t k_threads = 4, k_events = 20 * Ring::k_events;
    auto recorder = open(path());
    std::vector<std::thread> threads;
    for (uint64_t t = 0; t < k_threads; ++t) {
        threads.emplace_back([&, t] {
            Ring* ring = recorder->add_ring();
            for (uint64_t i = 0; i < k_events; ++i) recorder->note(*ring, call_event(t * k_events + i + 1));
            ring->ended.store(true, std::memory_order_release);
        });
    }
    for (std::thread& thread : threads) thread.join();
    recorder->finish();
    const Json trace = read(path());
    ASSERT_TRUE(trace.is_array());
    std::vector<bool> seen(k_threads * k_events + 1);
    for (const Json& call : of(trace, "call")) {
        const auto number = call["args"]["call"].get<uint64_t>();
        ASSERT_LT(number, seen.size());
        EXPECT_FALSE(seen[number]) << number << " is there twice";
        seen[number] = true;
    }
    EXPECT_EQ(std::count(seen.begin(), seen.end(), true), k_threads * k_events);
    EXPECT_EQ(trace.back()["name"], "warpline_end");
    EXPECT_EQ(trace.back()["args"]["events_left_out"], 0);
}

TEST_F(TraceFile, stays_within_its_limit_and_says_so_E8) {
    constexpr uint64_t k_limit = 1 << 20;
    auto recorder = open(path(), k_limit);
    Ring* ring = recorder->add_ring();
    for (uint64_t i = 1; i <= 20'000; ++i) recorder->note(*ring, call_event(i));
    recorder->finish();
    EXPECT_LE(fs::file_size(path()), k_limit + 1024);
    const Json trace = read(path());
    ASSERT_TRUE(trace.is_array());
    EXPECT_EQ(trace.back()["args"]["events_left_out"].get<uint64_t>() + of(trace, "call").size(), 20'000u);
    EXPECT_GT(of(trace, "call").size(), 1000u);
}

TEST_F(TraceFile, belongs_to_one_process_at_a_time_E8) {
    auto first = open(path());
    EXPECT_EQ(first->path(), path());
    // Locks are of open files, not of processes: so a second one here is as good as another process's.
    auto second = open(path());
    EXPECT_EQ(second->path(), path() + "." + std::to_string(::getpid()));
    first->finish();
    second->finish();
    first.reset();
    auto third = open(path());
    EXPECT_EQ(third->path(), path()) << "the file is free again";
    EXPECT_EQ(open(path("%p-%p.json"))->path(), path(std::to_string(::getpid()) + "-" + std::to_string(::getpid()) + ".json"));
}

TEST_F(TraceFile, that_cannot_be_written_is_told_E8) {
    std::string problem;
    EXPECT_EQ(Recorder::open(path("no/such/folder"), 1 << 20, problem), nullptr);
    EXPECT_NE(problem.find("No such file"), std::string::npos) << problem;
}

// What a killed process leaves is readable, but for the last line.
TEST_F(TraceFile, has_a_beginning_that_is_readable_E8) {
    auto recorder = open(path());
    Ring* ring = recorder->add_ring();
    for (uint64_t i = 1; i <= 5000; ++i) recorder->note(*ring, call_event(i));
    std::string text;
    const auto written = [&] {
        std::ifstream file(path());
        text.assign(std::istreambuf_iterator<char>(file), {});
        return text.find("\"call\":5000,") != std::string::npos;
    };
    while (!written()) std::this_thread::yield();  // written within 250 ms, without an end
    EXPECT_FALSE(Json::accept(text));
    const size_t last = text.rfind(",\n");
    ASSERT_NE(last, std::string::npos);
    EXPECT_TRUE(Json::accept(text.substr(0, last) + "]"));
    recorder->finish();
    EXPECT_TRUE(read(path()).is_array());
}

TEST_F(TraceFile, has_calls_with_what_they_sent_E8) {
    std::string problem;
    { const CallScope before("before"); }
    ASSERT_TRUE(start(path(), 1 << 20, problem)) << problem;
    describe("a \"server\"", "host:1");
    EXPECT_EQ(threads(), 1u);
    {
        CallScope outer("outer");
        note_number(3);
        {
            const CallScope inner("inner");
            note_number(4);
        }
        note_number(5);
        EXPECT_EQ(outer.returns(600), 600);
    }
    { const CallScope nothing("nothing"); }
    {
        const CallScope known("known");
        note_answer(5);
    }
    {
        const CallScope asks("asks");  // all the same
        note_answer(5);
        note_number(6);
    }
    note_number(9);  // by nobody's call
    note_answer(9);
    finish();
    { const CallScope after("after"); }
    EXPECT_EQ(threads(), 0u);
    const Json trace = read(path());
    ASSERT_TRUE(trace.is_array());
    const auto calls = of(trace, "call");
    ASSERT_EQ(calls.size(), 5u);
    EXPECT_EQ(calls[0]["name"], "inner");
    EXPECT_EQ(calls[0]["args"], Json({{"call", 4}, {"calls", 1}}));
    EXPECT_EQ(calls[1]["name"], "outer");
    EXPECT_EQ(calls[1]["args"], Json({{"call", 3}, {"calls", 3}, {"result", 600}}));
    EXPECT_EQ(calls[2]["args"], Json::object());
    EXPECT_EQ(calls[3]["args"], Json({{"answered_by", 5}}));
    EXPECT_EQ(calls[4]["args"], Json({{"call", 6}, {"calls", 1}}));
    EXPECT_LE(calls[1]["ts"], calls[0]["ts"]);
}

TEST_F(TraceFile, is_the_parents_after_a_fork_E8) {
    if (k_has_thread_sanitizer) GTEST_SKIP() << "its processes may not start threads after a fork of several";
    std::string problem;
    ASSERT_TRUE(start(path(), 1 << 20, problem)) << problem;
    { const CallScope call("parent"); }
    const pid_t child = ::fork();
    if (child == 0) {
        forget_after_fork();
        { const CallScope call("child"); }
        finish();
        std::string why;
        const bool own = start(path(), 1 << 20, why);
        { const CallScope call("own"); }
        finish();
        ::_exit(own ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    finish();
    const auto calls = of(read(path()), "call");
    ASSERT_EQ(calls.size(), 1u);
    EXPECT_EQ(calls[0]["name"], "parent");
    const auto childs = of(read(path() + "." + std::to_string(child)), "call");
    ASSERT_EQ(childs.size(), 1u);
    EXPECT_EQ(childs[0]["name"], "own");
}

TEST(ServerClock, knows_nothing_before_it_has_heard_both_ways_E8) {
    ServerClock clock;
    EXPECT_FALSE(clock.at(0));
    clock.came(1000, 100);
    EXPECT_FALSE(clock.at(200));
    clock.left(50, 1100);
    ASSERT_TRUE(clock.at(200));
}

TEST(ServerClock, is_within_its_error_E8) {
    constexpr int64_t k_ahead = -5'000'000'000;
    ServerClock clock;
    // There in 40 to 400 µs, back in 30 to 900: the quickest of each count.
    for (const auto& [there, back] : {std::pair<int64_t, int64_t>{400, 900}, {40, 700}, {300, 30}, {200, 500}}) {
        const int64_t now = 1'000'000'000;
        clock.left(now, now + there * 1000 + k_ahead);
        clock.came(now + k_ahead, now + back * 1000);
    }
    const auto known = clock.at(1'000'900'000);
    ASSERT_TRUE(known);
    EXPECT_NEAR(static_cast<double>(known->error_ns), 35'000, 100);
    EXPECT_LE(std::abs(known->ahead_ns - k_ahead), known->error_ns);
    const auto later = clock.at(1'000'000'000 + 100'000'000'000);
    EXPECT_NEAR(static_cast<double>(later->error_ns), 35'000 + 2'000'000, 1000) << "clocks drift";
}

TEST(ServerClock, is_not_harmed_by_what_cannot_be_F3) {
    constexpr int64_t k_most = std::numeric_limits<int64_t>::max(), k_least = std::numeric_limits<int64_t>::min();
    ServerClock clock;
    for (const int64_t there : {k_most, k_least, k_most - 5, int64_t{0}})
        for (const int64_t here : {int64_t{1'000'000}, int64_t{0}, int64_t{-1}}) {
            clock.came(there, here);
            clock.left(here, there);
            static_cast<void>(clock.at(here));
        }
    clock.came(100, 50);
    clock.left(50, 200);
    ASSERT_TRUE(clock.at(60));
    EXPECT_LE(clock.at(60)->error_ns, 100);
}

TEST(ServerClock, believes_what_is_new_when_clocks_were_set_E8) {
    ServerClock clock;
    clock.left(0, 20'000);
    clock.came(30'000, 50'000);
    ASSERT_TRUE(clock.at(50'000));
    // An hour ahead, suddenly.
    constexpr int64_t k_hour = 3'600'000'000'000;
    clock.came(100'000 + k_hour, 120'000);
    EXPECT_FALSE(clock.at(120'000)) << "the two do not fit";
    clock.left(130'000, 150'000 + k_hour);
    const auto known = clock.at(160'000);
    ASSERT_TRUE(known);
    EXPECT_LE(std::abs(known->ahead_ns - k_hour), known->error_ns);
}

}  // namespace
}  // namespace warpline::client::trace
