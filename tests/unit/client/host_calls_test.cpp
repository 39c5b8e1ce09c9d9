// Tests of the thread that calls the program's host functions.
#include "client/session/host_calls.h"

#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "client/gen/context_calls.gen.h"
#include "client/gen/stream_calls.gen.h"
#include "tests/unit/client/fake_server.h"

namespace warpline::client {
namespace {

using test::FakeServer;
using test::SeenCall;
using test::SessionFixture;

TEST(HostCalls, run_in_order_on_a_thread_of_their_own_and_are_answered) {
    FakeServer server;
    SessionFixture client(server);
    HostCalls& calls = client.session->host_calls();
    std::vector<int> order;
    std::vector<CUresult> statuses;
    std::thread::id where;
    auto note = [&](int value) {
        return [&, value](CUresult status) {
            order.push_back(value);
            statuses.push_back(status);
            where = std::this_thread::get_id();
        };
    };
    uint64_t first = calls.add(note(1), HostCalls::Life::once);
    uint64_t second = calls.add(note(2), HostCalls::Life::once);
    EXPECT_FALSE(calls.idle());
    server.host_call(first);
    server.host_call(second, CUDA_ERROR_LAUNCH_FAILED);
    server.wait_for_host_call_done(second);
    EXPECT_EQ(order, (std::vector<int>{1, 2}));
    EXPECT_EQ(statuses, (std::vector<CUresult>{CUDA_SUCCESS, CUDA_ERROR_LAUNCH_FAILED}));
    EXPECT_NE(where, std::this_thread::get_id());
}

TEST(HostCalls, posted_ones_run_without_being_asked_for_and_are_not_answered) {
    FakeServer server;
    SessionFixture client(server);
    HostCalls& calls = client.session->host_calls();
    std::vector<int> order;
    calls.post([&](CUresult) { order.push_back(1); });
    EXPECT_TRUE(calls.idle());
    uint64_t asked = calls.add([&](CUresult) { order.push_back(2); }, HostCalls::Life::once);
    server.host_call(asked);
    server.wait_for_host_call_done(asked);
    std::promise<void> ran;
    calls.post([&](CUresult) { ran.set_value(); });
    calls.failed(0, UINT64_MAX);  // of those that wait for a stream
    ran.get_future().wait();
    EXPECT_EQ(order, (std::vector<int>{1, 2}));
    calls.stop();
    calls.post([&](CUresult) { order.push_back(3); });
    calls.join();
    EXPECT_EQ(order, (std::vector<int>{1, 2}));
}

TEST(HostCalls, those_of_graphs_run_each_time) {
    FakeServer server;
    SessionFixture client(server);
    HostCalls& calls = client.session->host_calls();
    std::atomic<int> runs{0};
    uint64_t node = calls.add([&](CUresult) { ++runs; }, HostCalls::Life::persistent);
    uint64_t last = calls.add([](CUresult) {}, HostCalls::Life::once);
    EXPECT_FALSE(calls.idle());
    for (int i = 0; i < 3; ++i) server.host_call(node);
    server.host_call(last);
    server.wait_for_host_call_done(last);
    EXPECT_EQ(runs.load(), 3);
    calls.forget(node);
    server.host_call(node);  // is answered, though nobody is called
    server.wait_for_host_call_done(node);
    EXPECT_EQ(runs.load(), 3);
}

TEST(HostCalls, an_unknown_number_is_answered) {
    FakeServer server;
    SessionFixture client(server);
    server.host_call(4711);
    server.wait_for_host_call_done(4711);
}

TEST(HostCalls, replies_arrive_while_a_function_runs) {
    FakeServer server;
    SessionFixture client(server);
    std::promise<void> may_end;
    auto gate = may_end.get_future();
    uint64_t id = client.session->host_calls().add([&](CUresult) { gate.wait(); }, HostCalls::Life::once);
    server.host_call(id);
    Call call = client.call();
    EXPECT_EQ(gen::request_cuCtxSynchronize(call), CUDA_SUCCESS);
    may_end.set_value();
    server.wait_for_host_call_done(id);
}

// Who has waited for its stream would wait again, for a function that is over.
TEST(HostCalls, B2_none_is_pending_when_the_server_hears_of_its_end) {
    const HostCalls* made = nullptr;
    std::promise<bool> was_idle;
    HostCalls calls([&](uint64_t) { was_idle.set_value(made->idle()); });
    made = &calls;
    EXPECT_TRUE(calls.request(calls.add([](CUresult) {}, HostCalls::Life::once), CUDA_SUCCESS));
    EXPECT_TRUE(was_idle.get_future().get());
}

TEST(HostCalls, functions_of_a_failed_stream_are_not_waited_for) {
    constexpr uint64_t k_context = 7, k_other = 8;
    HostCalls calls([](uint64_t) {});
    const auto never = [](CUresult) { FAIL() << "its stream has failed"; };
    calls.sent(calls.add(never, HostCalls::Life::once), {.context = k_context}, 1);
    calls.failed(k_context, 1);
    EXPECT_TRUE(calls.idle());
    std::promise<void> late, elsewhere, unsent;
    const auto keeps = [](std::promise<void>& promise) { return [&promise](CUresult) { promise.set_value(); }; };
    const uint64_t later = calls.add(keeps(late), HostCalls::Life::once);
    calls.sent(later, {.context = k_context}, 3);
    const uint64_t other = calls.add(keeps(elsewhere), HostCalls::Life::once);
    calls.sent(other, {.context = k_other}, 2);
    const uint64_t waiting = calls.add(keeps(unsent), HostCalls::Life::once);
    calls.failed(k_context, 2);
    EXPECT_FALSE(calls.idle()) << "one was sent later, one is of another context, one has not been sent";
    for (const uint64_t id : {later, other, waiting}) calls.request(id, CUDA_SUCCESS);
    for (std::promise<void>* promise : {&late, &elsewhere, &unsent}) promise->get_future().wait();
    calls.join();
}

// The program waits for its function and calls nothing else: a writer that naps for an hour would keep the call.
TEST(HostCalls, B2_the_call_of_a_function_leaves_at_once) {
    FakeServer server(true);
    SessionFixture client(server);
    const auto context = client.state.contexts.make();
    const auto stream = client.state.streams.make();
    stream.object->context = context.token;
    const CUhostFn run = [](void* data) { static_cast<std::promise<void>*>(data)->set_value(); };
    // The first ones may leave with the first answers to the server's Pings.
    for (size_t calls = 1; calls <= 50; ++calls) {
        std::promise<void> called;
        Call call = client.call(cuda::CallId::cuLaunchHostFunc);
        call.context = context.token;
        ASSERT_EQ(hook_client_cuLaunchHostFunc(call, reinterpret_cast<CUstream>(stream.token), run, &called), CUDA_SUCCESS);
        server.wait_for_calls(calls);
        server.host_call(calls);
        called.get_future().wait();
    }
}

TEST(HostCalls, A7_FunctionsOfStreamsApartDoNotPrecede) {
    constexpr uint64_t k_legacy = 0, k_stream = 100, k_other = 200;
    std::promise<void> runs, may_end;
    HostCalls calls([](uint64_t) {});
    EXPECT_FALSE(calls.may_precede(k_stream, 9)) << "there is none";
    const uint64_t id = calls.add([&](CUresult) { runs.set_value(), may_end.get_future().wait(); }, HostCalls::Life::once);
    EXPECT_TRUE(calls.may_precede(k_other, 0)) << "nobody knows where it is called";
    calls.sent(id, {7, k_stream}, 5);
    const auto expect = [&](const char* when) {
        EXPECT_TRUE(calls.may_precede(k_stream, 0)) << when;
        EXPECT_TRUE(calls.may_precede(k_legacy, 0)) << when;
        EXPECT_FALSE(calls.may_precede(k_other, 0)) << when;
        EXPECT_FALSE(calls.may_precede(k_other, 5)) << when << ": that is its own call";
        EXPECT_TRUE(calls.may_precede(k_other, 6)) << when << ": its stream may have been waited for";
    };
    expect("before it runs");
    calls.request(id, CUDA_SUCCESS);
    runs.get_future().wait();
    expect("while it runs");
    may_end.set_value();
    calls.join();
}

TEST(HostCalls, A7_ReadsWaitForNoFunction) {
    std::promise<void> runs, may_end, read;
    HostCalls calls([](uint64_t) {});
    const uint64_t function =
        calls.add([&](CUresult) { runs.set_value(), may_end.get_future().wait(); }, HostCalls::Life::once);
    calls.request(function, CUDA_SUCCESS);
    runs.get_future().wait();
    calls.request(calls.add_read({4096, 64}, 64, [&](CUresult) { read.set_value(); }), CUDA_SUCCESS);
    read.get_future().wait();
    EXPECT_FALSE(calls.idle()) << "the function still runs, and the read does not count";
    EXPECT_EQ(calls.threads(), 2u);
    may_end.set_value();
    calls.join();
}

TEST(HostCalls, A7_MemoryIsReadUntilTheServerHearsOfIt) {
    constexpr uint64_t k_context = 7, k_other = 8;
    using Contexts = std::vector<uint64_t>;
    const HostCalls* made = nullptr;
    std::promise<void> runs, may_end;
    std::promise<Contexts> then;
    HostCalls calls([&](uint64_t) { then.set_value(const_cast<HostCalls*>(made)->contexts_reading({4096, 64})); });
    made = &calls;
    const uint64_t first = calls.add_read({4096, 64}, 64, [&](CUresult) { runs.set_value(), may_end.get_future().wait(); });
    const uint64_t second = calls.add_read({4159, 8}, 8, [](CUresult) { FAIL() << "nobody asks for it"; });
    const uint64_t third = calls.add_read({8192, 64}, 64, [](CUresult) { FAIL() << "nobody asks for it"; });
    calls.sent(first, {.context = k_context}, 1);
    calls.sent(second, {.context = k_other}, 2);
    calls.sent(third, {.context = k_context}, 3);
    EXPECT_FALSE(calls.may_precede(0, 9)) << "they write nothing";
    EXPECT_EQ(calls.contexts_reading({4096, 64}), (Contexts{k_context, k_other}));
    EXPECT_EQ(calls.contexts_reading({4096, 63}), Contexts{k_context});
    EXPECT_EQ(calls.contexts_reading({4167, 4025}), Contexts{}) << "what lies between";
    calls.failed(k_other, 2);
    EXPECT_EQ(calls.contexts_reading({4096, 64}), Contexts{k_context});
    calls.refused(3);
    EXPECT_EQ(calls.contexts_reading({8192, 64}), Contexts{});
    calls.request(first, CUDA_SUCCESS);
    runs.get_future().wait();
    EXPECT_EQ(calls.contexts_reading({4100, 1}), Contexts{k_context}) << "it is being read";
    may_end.set_value();
    EXPECT_EQ(then.get_future().get(), Contexts{});
    calls.join();
}

TEST(HostCalls, A7_OnlySoMuchWaitsToBeRead) {
    constexpr uint64_t k_half = uint64_t{32} << 20;
    HostCalls calls([](uint64_t) {});
    const auto nothing = [](CUresult) {};
    const uint64_t first = calls.add_read({k_half, k_half}, k_half, nothing);
    EXPECT_NE(first, 0u);
    EXPECT_NE(calls.add_read({k_half, k_half}, k_half, nothing), 0u);
    EXPECT_EQ(calls.add_read({k_half, 4 * k_half}, 1, nothing), 0u);
    calls.forget(first);
    EXPECT_EQ(calls.add_read({k_half, 1}, k_half + 1, nothing), 0u);
    EXPECT_EQ(calls.add_read({k_half, 1}, UINT64_MAX, nothing), 0u);
    EXPECT_NE(calls.add_read({k_half, k_half}, k_half, nothing), 0u);
}

}  // namespace
}  // namespace warpline::client
