// Analyses of traces that were made by hand (E8): what is added up, what is advised, what another link would cost.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>

#include "client/analyze/busy_times.h"
#include "client/analyze/report.h"

namespace warpline::analyze {
namespace {

/// Writes traces as programs do, with times of its own.
class Script {
public:
    Script() { m_text = "[\n"; }
    Script& call(const char* name, double begin, double us, int number = 0, int count = 1, int thread = 1, int result = 0,
                 int answered_by = 0) {
        std::string args;
        if (number != 0) args = "\"call\":" + std::to_string(number) + ",\"calls\":" + std::to_string(count);
        if (result != 0) args += std::string(number != 0 ? "," : "") + "\"result\":" + std::to_string(result);
        if (answered_by != 0) args = "\"answered_by\":" + std::to_string(answered_by);
        return slice("call", name, begin, us, thread, args);
    }
    /// A call that is answered by what the reply to another one has told.
    Script& known(const char* name, double begin, double us, int answered_by, int thread = 1) {
        return call(name, begin, us, 0, 0, thread, 0, answered_by);
    }
    Script& wait(const char* name, double begin, double us, int number, int thread = 1, int bytes = 0) {
        return slice("wait", (std::string("wait: ") + name).c_str(), begin, us, thread,
                     "\"call\":" + std::to_string(number) + ",\"bytes\":" + std::to_string(bytes));
    }
    Script& executed(const char* name, double begin, double us, int number) {
        return slice("server", name, begin, us, 1, "\"call\":" + std::to_string(number));
    }
    Script& frame(const char* category, const char* name, double begin, int number, int calls, uint64_t bytes) {
        return slice(category, name, begin, 1, 9,
                     "\"lane\":0,\"call\":" + std::to_string(number) + ",\"calls\":" + std::to_string(calls) +
                         ",\"bytes\":" + std::to_string(bytes) + ",\"wire\":" + std::to_string(bytes));
    }
    Script& part(const char* name, double begin, double us, int round_trips) {
        return slice("start", name, begin, us, 1, "\"round_trips\":" + std::to_string(round_trips));
    }
    Script& blocked(const char* name, double begin, double us) { return slice("blocked", name, begin, us, 1, ""); }
    Script& round_trip(double us) {
        m_text +=
            R"({"ph":"C","cat":"round trip","name":"","pid":1,"tid":1,"ts":0,"args":{"us":)" + std::to_string(us) + "}},\n";
        return *this;
    }
    Trace trace() const {
        std::istringstream in(m_text + R"({"ph":"M","name":"warpline_end","pid":1,"args":{"server_calls_dropped":0}})" +
                              "\n]\n");
        std::string problem;
        auto read = read_trace(in, problem);
        EXPECT_TRUE(read.ok()) << problem;
        return std::move(*read);
    }
    const std::string& text() const { return m_text; }

private:
    Script& slice(const char* category, const char* name, double begin, double us, int thread, const std::string& args) {
        m_text += std::string(R"({"ph":"X","cat":")") + category + R"(","name":")" + name + R"(","pid":1,"tid":)" +
                  std::to_string(thread) + ",\"ts\":" + std::to_string(begin) + ",\"dur\":" + std::to_string(us) +
                  ",\"args\":{" + args + "}},\n";
        return *this;
    }
    std::string m_text;
};

/// Steps of a launch of 5 µs, 1000 µs of the program's own, and a copy of a word that waits for 150 µs, of which the server
/// executes for 60.
Script steps(int count) {
    Script script;
    script.round_trip(80);
    for (int i = 0; i < count; ++i) {
        const double at = i * 1200;
        const int number = 1 + 2 * i;
        script.call("cuLaunchKernel", at, 5, number).executed("cuLaunchKernel", at + 45, 4, number);
        script.call("cuMemcpyDtoH_v2", at + 1005, 155, number + 1).wait("cuMemcpyDtoH_v2", at + 1008, 150, number + 1, 1, 4);
        script.executed("cuMemcpyDtoH_v2", at + 1048, 60, number + 1);
        script.frame("sent", "batch", at + 6, number, 1, 150).frame("sent", "batch", at + 1008, number + 1, 1, 150);
        script.frame("received", "reply", at + 1150, number + 1, 1, 120);
    }
    return script;
}

double predicted_us(const Trace& trace, double round_trip_ms, double rate_mbit = 0) {
    Timeline timeline = make_timeline(trace);
    return predict(trace, timeline, {round_trip_ms * 1e3, rate_mbit / 8}).us;
}

TEST(Analyze, adds_up_to_the_whole_E8) {
    const Trace trace = steps(100).trace();
    const Account account = make_account(trace);
    const Shares& shares = account.shares;
    EXPECT_DOUBLE_EQ(account.whole.us(), 99 * 1200 + 1160);
    EXPECT_NEAR(shares.all_us, account.whole.us(), 1e-6);
    EXPECT_NEAR(shares.own_us, 100 * 1000 + 99 * 40, 1e-6);
    EXPECT_NEAR(shares.calls_us, 100 * 10, 1e-6);
    EXPECT_NEAR(shares.executing_us, 100 * 60, 1e-6);
    EXPECT_NEAR(shares.link_us, 100 * 90, 1e-6);
    EXPECT_NEAR(shares.own_us + shares.calls_us + shares.executing_us + shares.link_us, shares.all_us, 1e-6);
    ASSERT_EQ(account.waits.size(), 1u);
    EXPECT_EQ(account.waits[0].call, "cuMemcpyDtoH_v2");
    EXPECT_EQ(account.waits[0].count, 100u);
    EXPECT_EQ(account.waits[0].bytes_down, 12'000u);
    EXPECT_EQ(account.wait_count, 100u);
    ASSERT_EQ(account.lanes.size(), 2u);
    EXPECT_EQ(account.lanes[0].calls, 200u);
}

TEST(Analyze, advises_about_what_waits_often_E8) {
    const Account small = make_account(steps(100).trace());
    ASSERT_EQ(small.advice.size(), 1u);
    EXPECT_NE(small.advice[0].find("cuMemcpyDtoH_v2 of about 4 bytes waits 100 times"), std::string::npos) << small.advice[0];
    EXPECT_TRUE(make_account(steps(5).trace()).advice.empty()) << "five times are no pattern";
    Script pageable, stepwise;
    for (int i = 0; i < 20; ++i) {
        const double at = i * 1000;
        pageable.call("cuMemcpyDtoHAsync_v2", at, 300, 1 + 2 * i, 2).wait("cuStreamSynchronize", at + 10, 280, 2 + 2 * i);
        stepwise.call("cuLaunchKernel", at, 5, 1 + 2 * i).call("cuCtxSynchronize", at + 10, 300, 2 + 2 * i);
        stepwise.wait("cuCtxSynchronize", at + 10, 300, 2 + 2 * i);
    }
    const auto of_pageable = make_account(pageable.trace()).advice, of_stepwise = make_account(stepwise.trace()).advice;
    ASSERT_EQ(of_pageable.size(), 1u);
    EXPECT_NE(of_pageable[0].find("pageable"), std::string::npos) << of_pageable[0];
    ASSERT_EQ(of_stepwise.size(), 1u);
    EXPECT_NE(of_stepwise[0].find("after every 1.0 launches"), std::string::npos) << of_stepwise[0];
}

/// What is advised where `call` waits twenty times for what is sent for it, each time behind a launch.
std::vector<std::string> advice_about(const char* call, std::vector<const char*> sent, int bytes = 0) {
    Script script;
    script.round_trip(100);
    for (int i = 0; i < 20; ++i) {
        const double at = i * 1000;
        script.call("cuLaunchKernel", at, 5, 1 + 2 * i);
        if (*call != 0) script.call(call, at + 10, 300, 2 + 2 * i);
        script.wait(sent[static_cast<size_t>(i) % sent.size()], at + 20, 280, 2 + 2 * i, 1, bytes);
    }
    return make_account(script.trace()).advice;
}

void expect_advice(const std::vector<std::string>& advice, const char* begins, const char* says) {
    ASSERT_EQ(advice.size(), 1u) << begins;
    EXPECT_TRUE(advice[0].starts_with(begins)) << advice[0];
    EXPECT_NE(advice[0].find(says), std::string::npos) << advice[0];
}

// What is sent for a call may bring more than it asks for: the advice is about what the program does.
TEST(Analyze, advises_about_the_programs_own_calls_E8) {
    const char* const stepwise = "after every 1.0 launches";
    expect_advice(advice_about("cuCtxSynchronize_v2", {"wlReadAhead"}), "cuCtxSynchronize_v2 waits 20 times", stepwise);
    expect_advice(advice_about("cuCtxSynchronize", {"cuCtxSynchronize", "wlReadAhead"}), "cuCtxSynchronize waits 20 times",
                  stepwise);
    expect_advice(advice_about("cuEventSynchronize", {"wlEventTimes"}), "cuEventSynchronize waits 20 times", stepwise);
    expect_advice(advice_about("cuStreamSynchronize", {"wlWaitPages"}), "cuStreamSynchronize waits 20 times", stepwise);
    for (const char* sent : {"cuMemcpyDtoH_v2", "wlReadAhead", "cuStreamSynchronize", "wlCopyFromDevice"})
        expect_advice(advice_about("cuMemcpyDtoHAsync_v2", {sent}, 4), "cuMemcpyDtoHAsync_v2 waits 20 times",
                      "memory is pageable");
    expect_advice(advice_about("cuMemcpy2D_v2", {"wlCopyFromDevice"}, 64), "cuMemcpy2D_v2 of about 64 bytes waits",
                  "gather several");
    expect_advice(advice_about("cuMemcpyDtoH_v2", {"cuMemcpyDtoH_v2"}, 1 << 20), "cuMemcpyDtoH_v2 of about 1048576 bytes",
                  "go on meanwhile");
    expect_advice(advice_about("cuMemcpyDtoH_v2", {"cuMemcpyDtoH_v2", "wlReadAhead"}, 4), "cuMemcpyDtoH_v2 waits 20 times",
                  "gather several");
    expect_advice(advice_about("cuMemcpyHtoD_v2", {"cuMemcpyHtoD_v2"}), "cuMemcpyHtoD_v2 waits", "several threads");
    expect_advice(advice_about("cuEventElapsedTime_v2", {"cuEventElapsedTime_v2"}), "cuEventElapsedTime_v2 waits", "n-th step");
    expect_advice(advice_about("cuFuncGetAttribute", {"wlFunctionAttributes"}), "cuFuncGetAttribute waits", "ask once");
    expect_advice(advice_about("cuLibraryLoadData", {"wlImageCompile"}), "cuLibraryLoadData waits", "before the loop");
    expect_advice(advice_about("cuOccupancyMaxActiveClusters", {"cuOccupancyMaxActiveClusters"}), "cuOccupancy", "ask once");
    expect_advice(advice_about("", {"wlReadPages", "cuCtxSynchronize"}), "The program waits 20 times", "cudaMemPrefetchAsync");
    expect_advice(advice_about("cuStreamQuery", {"cuStreamQuery"}), "cuStreamQuery asks the server 20 times", "ask less often");
}

TEST(Analyze, advises_about_polls_that_are_answered_here_E8) {
    Script polls, once;
    for (int i = 0; i < 200; ++i) polls.call("cuEventQuery", i * 100, 90, 0, 0, 1, 600);
    expect_advice(make_account(polls.trace()).advice, "cuEventQuery is called 200 times", "cudaEventSynchronize");
    for (int i = 0; i < 10; ++i)
        polls.call("cuEventQuery", 20'000 + i * 100, 90, 1 + i).wait("cuEventQuery", 20'010 + i * 100, 70, 1 + i);
    expect_advice(make_account(polls.trace()).advice, "cuEventQuery asks the server 10 times", "cudaEventSynchronize");
    for (int i = 0; i < 200; ++i) once.call("cuEventQuery", i * 10'000, 1, 0, 0, 1, 600);
    EXPECT_TRUE(make_account(once.trace()).advice.empty()) << "takes no time";
}

TEST(Analyze, advises_no_pool_to_who_has_one_E8) {
    for (const auto& [allocate, release, about] :
         {std::tuple("cuMemAlloc_v2", "cuMemFree_v2", true), std::tuple("cuMemAllocAsync", "cuMemFreeAsync", false),
          std::tuple("cuMemAllocHost_v2", "cuMemFreeHost", false)}) {
        Script script;
        for (int i = 0; i < 100; ++i) script.call(allocate, i * 100, 40, 1 + i).call(release, i * 100 + 50, 40);
        const auto advice = make_account(script.trace()).advice;
        EXPECT_EQ(advice.size(), about ? 1u : 0u) << allocate;
        if (about) expect_advice(advice, "Memory is allocated and freed 200 times", "cudaMallocAsync");
    }
}

TEST(Analyze, predicts_a_round_trip_for_each_wait_E8) {
    const Trace trace = steps(100).trace();
    const double here = trace.whole().us();
    EXPECT_NEAR(predicted_us(trace, 0.080), here, 1) << "of the link that was traced";
    EXPECT_NEAR(predicted_us(trace, 30.080), here + 100 * 30'000, 10);
    EXPECT_GE(predicted_us(trace, 30), 100 * 30'000);
    EXPECT_LT(predicted_us(trace, 0), here) << "and a shorter one";
}

TEST(Analyze, predicts_what_bytes_take_E8) {
    // A megabyte up, that nobody waits for; then a wait; then a megabyte down.
    Script script;
    script.round_trip(100);
    script.call("cuMemcpyHtoD_v2", 0, 200, 1).executed("cuMemcpyHtoD_v2", 250, 150, 1);
    script.frame("sent", "batch", 100, 1, 1, 1'000'000);
    script.call("cuCtxSynchronize", 1000, 200, 2).wait("cuCtxSynchronize", 1000, 200, 2);
    script.executed("cuCtxSynchronize", 1060, 20, 2)
        .frame("sent", "batch", 1000, 2, 1, 100)
        .frame("received", "reply", 1190, 2, 1, 100);
    script.call("cuMemcpyDtoH_v2", 1300, 700, 3)
        .wait("cuMemcpyDtoH_v2", 1300, 700, 3)
        .executed("cuMemcpyDtoH_v2", 1360, 400, 3);
    script.frame("sent", "batch", 1300, 3, 1, 100).frame("received", "part", 1900, 3, 1, 1'000'000);
    script.frame("received", "reply", 1990, 3, 1, 100);
    const Trace trace = script.trace();
    const double here = trace.whole().us();
    // 100 Mb/s: 80 ms each way. What was done meanwhile is no time on top.
    const double there = predicted_us(trace, 0.1, 100);
    EXPECT_NEAR(there, here + 2 * 80'000, 1500);
    EXPECT_GE(there, 2 * 80'000);
    EXPECT_NEAR(predicted_us(trace, 10.1, 100), there + 2 * 10'000, 100);
}

TEST(Analyze, a_link_takes_what_is_ready_in_the_times_that_are_free_E8) {
    BusyTimes link;
    EXPECT_EQ(link.take(100, 50), 150);
    EXPECT_EQ(link.take(120, 10), 160) << "behind what is there";
    EXPECT_EQ(link.take(10, 20), 30) << "told later, but ready earlier";
    EXPECT_EQ(link.take(90, 30), 180) << "10 before the others, 20 behind them";
    EXPECT_EQ(link.take(130, 0), 180) << "a byte of no length waits, too";
    EXPECT_EQ(link.take(200, 5), 205);
    EXPECT_EQ(link.take(0, 10), 10);
    EXPECT_EQ(link.take(0, 80), 200) << "60 between the others, and 20 behind them";
    BusyTimes other;
    double last = 0;
    for (int i = 999; i >= 0; --i) last = std::max(last, other.take(i * 0.5, 1));
    EXPECT_EQ(last, 1000) << "work is neither lost nor made";
}

// What copies brought is there when the reply to the wait for them is, which leaves behind it; and replies wait for each other.
TEST(Analyze, replies_leave_one_after_the_other_E8) {
    Script script;
    script.round_trip(100);
    for (int thread = 2; thread <= 5; ++thread) {
        const int number = thread * 10;
        script.call("cuMemcpyDtoHAsync_v2", thread, 200, number, 2, thread);
        script.wait("cuStreamSynchronize", thread + 5, 190, number + 1, thread);
        script.executed("cuMemcpyDtoHAsync_v2", 60 + 5 * thread, 2, number);
        script.executed("cuStreamSynchronize", 62 + 5 * thread, 3, number + 1);
        script.frame("received", "event", 140 + 10 * thread, number, 1, 100'000);
        script.frame("received", "reply", 141 + 10 * thread, number + 1, 1, 100);
    }
    const Trace trace = script.trace();
    // 100 Mb/s: 8 ms each, of four threads, and a round trip; no link can do it in less.
    const double there = predicted_us(trace, 10, 100);
    EXPECT_GE(there, 10'000 + 4 * 8'000);
    EXPECT_NEAR(there, 10'000 + 4 * 8'000, 400);
    // A thread alone waits for what its own copy brings.
    Script alone;
    alone.round_trip(100);
    alone.call("cuMemcpyDtoHAsync_v2", 0, 200, 1, 2).wait("cuStreamSynchronize", 5, 190, 2);
    alone.executed("cuMemcpyDtoHAsync_v2", 60, 2, 1).executed("cuStreamSynchronize", 62, 3, 2);
    alone.frame("received", "event", 150, 1, 1, 100'000).frame("received", "reply", 151, 2, 1, 100);
    EXPECT_NEAR(predicted_us(alone.trace(), 10, 100), 10'000 + 8'000, 300);
}

TEST(Analyze, what_compresses_takes_less_on_slow_links_E8) {
    Frame frame;
    frame.bytes = frame.wire_bytes = 1'000'000;
    frame.percent = {20, 30, 60};
    EXPECT_EQ(frame.bytes_at(0), 1e6) << "as it travelled";
    EXPECT_EQ(frame.bytes_at(10.0 / 8), 200'000);
    EXPECT_EQ(frame.bytes_at(100.0 / 8), 300'000);
    EXPECT_EQ(frame.bytes_at(1000.0 / 8), 600'000);
    EXPECT_EQ(frame.bytes_at(10'000.0 / 8), 1e6) << "on fast links nothing is compressed";
    frame.wire_bytes = 250'000;
    frame.encoded = true;
    EXPECT_EQ(frame.bytes_at(100.0 / 8), 250'000) << "it was";
    EXPECT_EQ(frame.bytes_at(10'000.0 / 8), 1e6);
    frame.wire_bytes = 5'000;
    EXPECT_EQ(frame.bytes_at(10'000.0 / 8), 5'000) << "a constant is packed on any link";
    frame.wire_bytes = 250'000;
    frame.percent = {};
    frame.encoded = false;
    EXPECT_EQ(frame.bytes_at(10.0 / 8), 250'000) << "nobody has looked";
}

// Until acknowledgements tell that it pays nothing is compressed.
TEST(Analyze, what_compresses_begins_plain_E8) {
    std::string text = "[\n";
    for (int i = 1; i <= 20; ++i)
        text += R"({"ph":"X","cat":"sent","name":"batch","pid":1,"tid":9,"ts":)" + std::to_string(i) +
                R"(,"dur":1,"args":{"lane":0,"call":)" + std::to_string(i) +
                R"(,"calls":1,"bytes":1048576,"wire":1048576,"packs":[10,10,10]}},)" + "\n";
    std::istringstream in(text);
    std::string problem;
    const auto trace = read_trace(in, problem);
    ASSERT_TRUE(trace.ok()) << problem;
    Timeline timeline;
    const auto total = [&](double mbit) {
        count_bytes(*trace, mbit / 8, timeline);
        double sum = 0;
        for (const auto& [number, facts] : timeline.calls) sum += facts.bytes_up;
        return sum / (1 << 20);
    };
    EXPECT_NEAR(total(0), 20, 1e-6) << "as they travelled";
    EXPECT_NEAR(total(100), 3 + 17 * 0.1, 0.01);
    EXPECT_NEAR(total(10'000), 20, 1e-6);
}

TEST(Analyze, constants_are_packed_from_the_beginning_E8) {
    std::istringstream in(
        "[\n"
        R"({"ph":"X","cat":"sent","name":"batch","pid":1,"tid":9,"ts":1,"dur":1,"args":{"lane":0,"call":1,"calls":1,)"
        R"("bytes":1048576,"wire":1024,"codec":"lz4","packs":[1,1,1]}},)"
        "\n");
    std::string problem;
    const auto trace = read_trace(in, problem);
    ASSERT_TRUE(trace.ok()) << problem;
    Timeline timeline;
    count_bytes(*trace, 100.0 / 8, timeline);
    ASSERT_EQ(timeline.calls.size(), 1u);
    EXPECT_EQ(timeline.calls.begin()->second.bytes_up, 1024);
}

TEST(Analyze, counts_the_sessions_own_round_trips_E8) {
    Script script;
    script.round_trip(100).part("connect", 0, 8000, 5).call("cuLaunchKernel", 9000, 10, 1).part("goodbye", 10'000, 500, 1);
    script.executed("cuLaunchKernel", 9100, 10, 1);
    const Trace trace = script.trace();
    EXPECT_NEAR(predicted_us(trace, 20.1) - trace.whole().us(), 6 * 20'000, 1);
    EXPECT_NEAR(make_account(trace).shares.session_us, 8500, 1e-6);
}

// The device works while the program does something else: a longer way there changes nothing that was hidden before.
TEST(Analyze, what_the_device_does_meanwhile_stays_hidden_E8) {
    Script script;
    script.round_trip(100);
    script.call("cuLaunchKernel", 0, 10, 1).executed("cuLaunchKernel", 60, 10, 1);
    script.call("cuCtxSynchronize", 100, 50'000, 2).wait("cuCtxSynchronize", 100, 50'000, 2);
    script.executed("cuCtxSynchronize", 160, 49'890, 2).frame("received", "reply", 50'098, 2, 1, 100);
    const Trace trace = script.trace();
    EXPECT_NEAR(predicted_us(trace, 10.1) - trace.whole().us(), 10'000, 20);
}

// The server waits for a function of the program's, and goes on when it has returned.
TEST(Analyze, host_functions_take_a_round_trip_each_E8) {
    Script script;
    script.round_trip(100);
    script.call("cuLaunchHostFunc", 0, 10, 1, 1).executed("cuLaunchHostFunc", 60, 10, 1);
    script.call("cuStreamSynchronize", 100, 1000, 2).wait("cuStreamSynchronize", 100, 1000, 2);
    script.executed("cuStreamSynchronize", 160, 890, 2).frame("received", "reply", 1098, 2, 1, 100);
    for (int i = 0; i < 3; ++i) script.frame("received", "host call", 300 + i * 200, 0, 0, 80);
    const Trace trace = script.trace();
    EXPECT_NEAR(predicted_us(trace, 10.1) - trace.whole().us(), 4 * 10'000, 20);
}

TEST(Analyze, polls_end_when_the_answer_comes_E8) {
    Script script;
    script.round_trip(100);
    // The first question travels, and a second call that tells the end; the rest is answered here.
    script.call("cuEventQuery", 0, 120, 1, 2, 1, 600).wait("cuEventQuery", 5, 110, 1).executed("cuEventQuery", 55, 2, 1);
    script.executed("cuEventSynchronize", 170, 3000, 2).frame("received", "reply", 3230, 2, 1, 100);
    for (int i = 0; i < 30; ++i) script.call("cuEventQuery", 130 + i * 100, 50, 0, 0, 1, 600);
    script.known("cuEventQuery", 3240, 1, 2).call("cuLaunchKernel", 3300, 5, 3);
    const Trace trace = script.trace();
    // Two round trips: for the question, and for the answer that comes by itself.
    EXPECT_NEAR(predicted_us(trace, 20.1) - trace.whole().us(), 2 * 20'000, 150);
}

/// Ten times: a kernel, and an event of which the server tells the end without being asked; then `ask`.
template <typename Ask>
Script told_events(Ask ask) {
    Script script;
    script.round_trip(100);
    for (int i = 0; i < 10; ++i) {
        const double at = i * 1000;
        const int number = 1 + 3 * i, watch = number + 2;
        script.call("cuLaunchKernel", at, 5, number).executed("cuLaunchKernel", at + 60, 5, number);
        script.call("cuEventRecord", at + 6, 5, number + 1, 2).executed("cuEventRecord", at + 66, 1, number + 1);
        script.executed("cuEventSynchronize", at + 67, 20, watch).frame("received", "reply", at + 140, watch, 1, 100);
        ask(script, at + 12, watch);
    }
    return script;
}

// Of records that the program has asked about before, the server tells the end: no question travels, but the first waits.
TEST(Analyze, polls_wait_for_what_is_told_unasked_E8) {
    const Trace trace = told_events([](Script& script, double at, int watch) {
                            for (int i = 0; i < 4; ++i) script.call("cuEventQuery", at + i * 30, 25, 0, 0, 1, 600);
                            script.known("cuEventQuery", at + 135, 1, watch);
                        }).trace();
    EXPECT_NEAR(predicted_us(trace, 20.1) - trace.whole().us(), 10 * 20'000, 200);
    // What polling took is no time of the program's own: a shorter link shortens it.
    EXPECT_LT(predicted_us(trace, 0.01), trace.whole().us() - 10 * 80);
    const Trace waits = told_events([](Script& script, double at, int watch) {
                            script.known("cuEventSynchronize", at + 300, 1, watch);
                        }).trace();
    EXPECT_NEAR(predicted_us(waits, 20.1) - waits.whole().us(), 10 * 20'000 - 10 * 170, 200)
        << "a synchronisation waits, though it found all done here";
}

TEST(Analyze, who_asks_once_and_goes_on_waits_for_no_answer_E8) {
    const Trace trace = told_events([](Script& script, double at, int watch) {
                            script.call("cuEventQuery", at, 5, 0, 0, 1, 600);
                            script.call("cuCtxGetCurrent", at + 10, 1, 0, 0);
                            script.known("cuEventQuery", at + 300, 1, watch);
                        }).trace();
    EXPECT_NEAR(predicted_us(trace, 20.1), trace.whole().us(), 1);
    // Who has asked anew at once is one who waits, also where the first question finds that all is done.
    int step = 0;
    const Trace polls = told_events([&](Script& script, double at, int watch) {
                            if (++step % 2 == 0)
                                for (int i = 0; i < 3; ++i) script.call("cuEventQuery", at + i * 40, 5, 0, 0, 1, 600);
                            script.known("cuEventQuery", at + 290, 1, watch);
                        }).trace();
    EXPECT_GE(predicted_us(polls, 20.1), 10 * 20'000);
}

TEST(Analyze, threads_that_are_waited_for_count_once_E8) {
    Script script;
    script.round_trip(100);
    script.call("cuInit", 0, 10, 0, 0, 1);
    for (int thread = 2; thread <= 5; ++thread) {
        for (int i = 0; i < 10; ++i) {
            const double at = 1000 + i * 200 + thread;
            const int number = thread * 100 + i;
            script.call("cuStreamSynchronize", at, 150, number, 1, thread).wait("cuStreamSynchronize", at, 150, number, thread);
            script.executed("cuStreamSynchronize", at + 50, 10, number);
        }
    }
    // The first thread has done nothing meanwhile: it has waited for the others.
    script.call("cuCtxSynchronize", 4000, 150, 900)
        .wait("cuCtxSynchronize", 4000, 150, 900)
        .executed("cuCtxSynchronize", 4050, 10, 900);
    const Trace trace = script.trace();
    EXPECT_NEAR(predicted_us(trace, 30.1) - trace.whole().us(), 11 * 30'000, 1000);
}

TEST(Analyze, reads_what_a_killed_program_has_left_E8) {
    const std::string text = steps(3).text();
    for (size_t length = 3; length < text.size(); ++length) {
        std::istringstream in(text.substr(0, length));
        std::string problem;
        const auto trace = read_trace(in, problem);
        const bool has_a_line = text.substr(0, length).find("}},") != std::string::npos;
        ASSERT_EQ(trace.ok(), has_a_line || length == text.find("}}") + 2) << length << problem;
        if (trace.ok()) {
            EXPECT_FALSE(trace->complete);
        }
    }
}

TEST(Analyze, says_what_is_no_trace_E8) {
    for (const char* text :
         {"", "[\n", "hello\nworld\n", "{\"a\":1}x\n{}\n", "[\n{\"ph\":\"X\",\"cat\":\"call\",\"ts\":\"soon\"},\n{}\n]"}) {
        std::istringstream in(text);
        std::string problem;
        EXPECT_FALSE(read_trace(in, problem).ok()) << text;
        EXPECT_FALSE(problem.empty());
    }
}

TEST(Analyze, says_the_same_as_text_and_as_json_E8) {
    const Trace trace = steps(100).trace();
    const Account account = make_account(trace);
    Timeline timeline = make_timeline(trace);
    const std::vector<Prediction> predictions = {predict(trace, timeline, {30'000, 125})};
    const auto json = nlohmann::json::parse(as_json(trace, account, predictions));
    EXPECT_EQ(json["wait_count"], 100);
    EXPECT_EQ(json["waits"][0]["count"], 100);
    EXPECT_EQ(json["predictions"][0]["rate_mbit"], 1000.0);
    EXPECT_EQ(json["advice"].size(), 1u);
    const std::string text = as_text(trace, account, predictions);
    for (const char* part :
         {"Calls that wait (100 waits)", "30 ms, 1 Gb/s", "cuMemcpyDtoH_v2 of about 4 bytes waits 100 times"})
        EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
}

}  // namespace
}  // namespace warpline::analyze
