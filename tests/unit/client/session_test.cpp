// A session against a server that does what the test says: what waits, what does not, and where bytes go.
#include <gtest/gtest.h>

#include <cstring>
#include <thread>
#include <utility>

#include "client/copy/copy_plan.h"
#include "client/gen/context_calls.gen.h"
#include "client/gen/copy_calls.gen.h"
#include "client/gen/event_calls.gen.h"
#include "client/gen/graph_exec_calls.gen.h"
#include "client/gen/launch_calls.gen.h"
#include "client/gen/memory_calls.gen.h"
#include "client/gen/memset_calls.gen.h"
#include "tests/unit/client/fake_server.h"

namespace warpline::client {
namespace {

using test::FakeServer;
using test::SeenCall;
using test::SessionFixture;

TEST(Session, hello_brings_the_devices) {
    FakeServer server;
    SessionFixture client(server);
    const ServerInfo& info = client.session->info();
    ASSERT_EQ(info.devices.size(), 1u);
    EXPECT_EQ(info.name, "fake");
    EXPECT_EQ(info.driver_kind, DriverKind::software);
    EXPECT_EQ(info.devices[0].name, "fake device");
    EXPECT_EQ(info.devices[0].attribute(CU_DEVICE_ATTRIBUTE_WARP_SIZE), 32);
    EXPECT_EQ(info.devices[0].attribute(CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS), 0) << "not ours to promise";
    EXPECT_EQ(info.devices[0].attribute(CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING), 1);
    EXPECT_EQ(client.session->stats().blocking_round_trips, 0u);
}

// B2: nothing here may wait, as the server never answers anything.
TEST(Session, ordered_calls_do_not_wait) {
    FakeServer server;
    server.on_call = [](const SeenCall&) {};
    SessionFixture client(server);
    Call call = client.call();
    std::vector<std::byte> bytes(1000, std::byte{7});
    const uint32_t size = 4;
    for (int i = 0; i < 5000; ++i) {
        ASSERT_EQ(gen::issue_cuLaunchKernel(call, 1, 1, 1, 1, 1, 1, 1, 0, 0, as_bytes(&i, 4), as_bytes(&size, 4)),
                  CUDA_SUCCESS);
    }
    ASSERT_EQ(gen::issue_cuEventRecord(call, 5, 0), CUDA_SUCCESS);
    ASSERT_EQ(gen::issue_cuMemcpyHtoD_v2(call, 0x300000000000, bytes.size(), bytes), CUDA_SUCCESS);
    std::fill(bytes.begin(), bytes.end(), std::byte{9});  // the call has taken them
    server.wait_for_calls(5002);
    auto calls = server.calls();
    for (size_t i = 0; i < calls.size(); ++i) ASSERT_EQ(calls[i].number, i + 1);
    EXPECT_EQ(calls.back().payload, Bytes(1000, std::byte{7}));
    EXPECT_EQ(client.session->stats().blocking_round_trips, 0u);
    EXPECT_LT(client.session->stats().batches, 5000u) << "what queues up meanwhile goes out as one";
}

TEST(Session, blocking_calls_get_their_own_result) {
    FakeServer server;
    server.on_call = [&](const SeenCall& seen) {
        if (seen.header.wants_reply) server.reply(seen.number, seen.number % 2 ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY);
    };
    SessionFixture client(server);
    Call call = client.call();
    EXPECT_EQ(gen::request_cuEventQuery(call, 5), CUDA_SUCCESS);
    EXPECT_EQ(gen::request_cuEventQuery(call, 5), CUDA_ERROR_NOT_READY);
    EXPECT_EQ(client.session->stats().blocking_round_trips, 2u);
}

TEST(Session, replies_may_come_in_any_order) {
    FakeServer server;
    std::vector<uint64_t> waiting;
    server.on_call = [&](const SeenCall& seen) {
        waiting.push_back(seen.number);
        if (waiting.size() < 4) return;
        for (auto it = waiting.rbegin(); it != waiting.rend(); ++it) server.reply(*it, static_cast<CUresult>(100 + *it));
    };
    SessionFixture client(server);
    std::vector<std::thread> threads;
    std::atomic<int> right{0};
    for (int i = 0; i < 4; ++i) {
        threads.emplace_back([&] {
            ThreadState own;
            Call call{cuda::CallId::cuEventQuery, own, *client.session, client.state};
            CUresult result = gen::request_cuEventQuery(call, 1);
            if (static_cast<uint64_t>(result) == 100 + call.number) ++right;
        });
    }
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(right.load(), 4);
}

TEST(Session, payload_of_a_reply_goes_where_it_was_asked_for) {
    FakeServer server;
    const std::string text = "from the device";
    server.on_call = [&](const SeenCall& seen) { server.reply(seen.number, CUDA_SUCCESS, as_bytes(text)); };
    SessionFixture client(server);
    Call call = client.call();
    std::string out(text.size(), ' ');
    EXPECT_EQ(gen::request_cuMemcpyDtoH_v2(call, 0x300000000000, out.size(), CopyTarget::linear(out.data(), out.size())),
              CUDA_SUCCESS);
    EXPECT_EQ(out, text);
    std::string small(3, ' ');
    EXPECT_EQ(gen::request_cuMemcpyDtoH_v2(call, 0x300000000000, 3, CopyTarget::linear(small.data(), 3)), CUDA_ERROR_UNKNOWN)
        << "more came than was asked for";
    EXPECT_EQ(small, "   ");
}

// docs/session.md, Order: the bytes of a finished copy are there before a later reply is.
TEST(Session, asynchronous_copies_arrive_before_the_synchronisation) {
    FakeServer server;
    const std::string text = "asynchronous";
    uint64_t copy = 0;
    server.on_call = [&](const SeenCall& seen) {
        if (!seen.header.wants_reply) {
            copy = seen.number;
            return;
        }
        server.copy_done(copy, as_bytes(text));
        server.reply(seen.number, CUDA_SUCCESS);
    };
    SessionFixture client(server);
    Call call = client.call();
    std::string out(text.size(), ' ');
    CopyTarget target = CopyTarget::linear(out.data(), out.size());
    call.copy_to = &target;
    ASSERT_EQ(gen::issue_cuMemcpyDtoHAsync_v2(call, 0x300000000000, out.size(), 0), CUDA_SUCCESS);
    call.copy_to = nullptr;
    auto address = reinterpret_cast<uint64_t>(out.data());
    EXPECT_TRUE(client.session->copy_pending(address, 1));
    EXPECT_FALSE(client.session->copy_pending(address + out.size(), 1));
    ASSERT_EQ(gen::request_cuCtxSynchronize(call), CUDA_SUCCESS);
    EXPECT_EQ(out, text);
    EXPECT_FALSE(client.session->copy_pending(address, 1));
}

TEST(Session, copies_in_graphs_arrive_again_and_again) {
    FakeServer server;
    uint64_t copy = 0, launch = 0;
    int round = 0;
    server.on_call = [&](const SeenCall& seen) {
        if (!seen.header.wants_reply) {
            (copy == 0 ? copy : launch) = seen.number;
            return;
        }
        ++round;
        server.copy_done(copy, as_bytes(&round, sizeof round));
        server.copy_done(launch, {});
        server.reply(seen.number, CUDA_SUCCESS);
    };
    SessionFixture client(server);
    Call call = client.call();
    int out = 0;
    CopyTarget target = CopyTarget::linear(&out, sizeof out);
    call.copy_to = &target;
    call.copy_repeats = true;
    ASSERT_EQ(gen::issue_cuMemcpyDtoHAsync_v2(call, 0x300000000000, sizeof out, 0), CUDA_SUCCESS);
    call.copy_to = nullptr;
    call.copy_repeats = false;
    for (int i = 1; i <= 3; ++i) {
        GraphLaunch launched{{1}, false, nullptr};
        call.graph_launch = &launched;
        ASSERT_EQ(gen::issue_cuGraphLaunch(call, 1, 0, {}, false, {}), CUDA_SUCCESS);
        call.graph_launch = nullptr;
        ASSERT_EQ(gen::request_cuCtxSynchronize(call), CUDA_SUCCESS);
        EXPECT_EQ(out, i);
    }
    // C5: nothing is launched that would write there: the program may have given the memory to something else.
    ASSERT_EQ(gen::request_cuCtxSynchronize(call), CUDA_SUCCESS);
    EXPECT_EQ(out, 3);
    EXPECT_EQ(round, 4);
}

TEST(Session, C5_a_success_without_its_bytes_is_none) {
    FakeServer server;
    std::string answer;
    uint64_t copy = 0;
    server.on_call = [&](const SeenCall& seen) {
        if (!seen.header.wants_reply) {
            copy = seen.number;
            return;
        }
        if (copy != 0) server.copy_done(std::exchange(copy, 0), as_bytes(answer));
        server.reply(seen.number, CUDA_SUCCESS, as_bytes(answer));
    };
    SessionFixture client(server);
    Call call = client.call();
    for (const char* bytes : {"", "abc", "abcde"}) {
        SCOPED_TRACE(bytes);
        answer = bytes;
        char out[6] = "12345";
        EXPECT_EQ(gen::request_cuMemcpyDtoH_v2(call, 0x300000000000, 4, CopyTarget::linear(out, 4)), CUDA_ERROR_UNKNOWN);
        EXPECT_STREQ(out + 4, "5");
    }
    // The same of a copy that nobody waits for: the next call that may tell of it does.
    answer = "";
    char out[5] = "1234";
    CopyTarget target = CopyTarget::linear(out, 4);
    call.copy_to = &target;
    ASSERT_EQ(gen::issue_cuMemcpyDtoHAsync_v2(call, 0x300000000000, 4, 0), CUDA_SUCCESS);
    call.copy_to = nullptr;
    ASSERT_EQ(gen::request_cuCtxSynchronize(call), CUDA_SUCCESS);
    EXPECT_EQ(client.session->deliver(CUDA_SUCCESS), CUDA_ERROR_UNKNOWN);
}

TEST(Session, B3_a_copy_that_fails_in_the_middle_is_told_and_leaves_nothing_behind) {
    FakeServer server;
    uint64_t failing = 0;
    server.on_call = [&](const SeenCall& seen) {
        if (seen.header.wants_reply) return server.reply(seen.number, CUDA_SUCCESS);
        server.bulk(seen.number, 0, 6, as_bytes("ab"));
        if (failing == 0) {
            failing = seen.number;
            // The driver has refused the last part; what it had taken before comes all the same.
            server.async_error(seen.number, CUDA_ERROR_INVALID_VALUE);
            server.bulk(seen.number, 2, 6, as_bytes("cd"));
        } else {
            server.bulk(seen.number, 2, 6, as_bytes("cdef"));
            server.copy_done(seen.number, {});
        }
    };
    SessionFixture client(server);
    Call call = client.call();
    char out[7] = "123456";
    const CopyTarget target{reinterpret_cast<std::byte*>(out), 6, 1, 6, 1, 6};
    const auto copy = [&] {
        call.copy_to = &target;
        EXPECT_EQ(gen::issue_cuMemcpyDtoHAsync_v2(call, 0x300000000000, 6, 0), CUDA_SUCCESS);
        call.copy_to = nullptr;
        return client.session->deliver(gen::request_cuCtxSynchronize(call));
    };
    EXPECT_EQ(copy(), CUDA_ERROR_INVALID_VALUE);
    EXPECT_STREQ(out, "ab3456") << "nothing is written once the program may have been told";
    EXPECT_FALSE(client.session->copy_pending(reinterpret_cast<uint64_t>(out), sizeof out));
    EXPECT_EQ(copy(), CUDA_SUCCESS);
    EXPECT_STREQ(out, "abcdef");
}

TEST(Session, B3_parts_of_a_payload_come_in_any_order) {
    FakeServer server;
    server.on_call = [&](const SeenCall& seen) {
        server.bulk(seen.number, 2, 4, as_bytes("cd"));
        server.bulk(seen.number, 0, 4, as_bytes("ab"));
        server.reply(seen.number, CUDA_SUCCESS);
    };
    SessionFixture client(server);
    Call call = client.call();
    char out[9] = "........";
    EXPECT_EQ(gen::request_cuMemcpyDtoH_v2(call, 0x300000000000, 4, CopyTarget::linear(out, 4)), CUDA_SUCCESS);
    EXPECT_STREQ(out, "abcd....");
}

TEST(Session, C5_parts_of_a_payload_lie_within_it) {
    for (const auto& [offset, total] : {std::pair<uint64_t, uint64_t>{3, 4}, {0, 1}, {UINT64_MAX - 1, UINT64_MAX}}) {
        FakeServer server;
        server.on_call = [&, offset = offset, total = total](const SeenCall& seen) {
            server.bulk(seen.number, offset, total, as_bytes("ab"));
            server.reply(seen.number, CUDA_SUCCESS);
        };
        SessionFixture client(server);
        Call call = client.call();
        char out[9] = "........";
        EXPECT_EQ(gen::request_cuMemcpyDtoH_v2(call, 0x300000000000, 4, CopyTarget::linear(out, 4)),
                  CUDA_ERROR_DEVICE_UNAVAILABLE);
        EXPECT_STREQ(out + 4, "....");
    }
}

TEST(Session, what_a_launched_graph_writes_is_pending_until_its_end_is_told) {
    FakeServer server;
    uint64_t launched = 0;
    server.on_call = [&](const SeenCall& seen) {
        if (!seen.header.wants_reply) {
            launched = seen.number;
            return;
        }
        server.copy_done(launched, {});
        server.reply(seen.number, CUDA_SUCCESS);
    };
    SessionFixture client(server);
    Call call = client.call();
    int out = 0;
    const auto address = reinterpret_cast<uint64_t>(&out);
    CopyTarget target = CopyTarget::linear(&out, sizeof out);
    client.session->note_copy(77, target, true, 0);
    EXPECT_FALSE(client.session->copy_pending(address, sizeof out));
    int ended = 0;
    {
        auto references = std::make_shared<UserReferences>();
        references->add(std::make_shared<UserObject>(1, [&] { ++ended; }), 1);
        GraphLaunch launch{{77}, true, std::move(references)};
        call.graph_launch = &launch;
        ASSERT_EQ(gen::issue_cuGraphLaunch(call, 1, 0, {}, true, {}), CUDA_SUCCESS);
        call.graph_launch = nullptr;
    }
    EXPECT_EQ(ended, 0);  // the launch holds it
    EXPECT_TRUE(client.session->copy_pending(address, 1));
    EXPECT_FALSE(client.session->copy_pending(address + sizeof out, 1));
    EXPECT_TRUE(client.session->graph_functions_pending());
    ASSERT_EQ(gen::request_cuCtxSynchronize(call), CUDA_SUCCESS);
    EXPECT_FALSE(client.session->copy_pending(address, 1));
    EXPECT_FALSE(client.session->graph_functions_pending());
    EXPECT_EQ(ended, 1);
}

TEST(Session, a_copy_that_was_given_up_does_no_harm) {
    FakeServer server;
    server.on_call = [&](const SeenCall& seen) {
        if (!seen.header.wants_reply) return;
        server.copy_done(1, as_bytes("late"));
        server.reply(seen.number, CUDA_SUCCESS);
    };
    SessionFixture client(server);
    Call call = client.call();
    char out[5] = "none";
    CopyTarget target = CopyTarget::linear(out, 4);
    call.copy_to = &target;
    ASSERT_EQ(gen::issue_cuMemcpyDtoHAsync_v2(call, 0x300000000000, 4, 0), CUDA_SUCCESS);
    call.copy_to = nullptr;
    client.session->copies_settled(0, reinterpret_cast<uint64_t>(out), 4, 0);
    EXPECT_EQ(gen::request_cuCtxSynchronize(call), CUDA_SUCCESS);
    EXPECT_STREQ(out, "none");
}

TEST(Session, a_wait_for_one_context_gives_up_no_other_ones_copies) {
    FakeServer server;
    SessionFixture client(server);
    int one = 0, other = 0, of_graph = 0;
    const auto address = [](const int& place) { return reinterpret_cast<uint64_t>(&place); };
    client.session->note_copy(101, CopyTarget::linear(&one, sizeof one), false, 1);
    client.session->note_copy(102, CopyTarget::linear(&other, sizeof other), false, 2);
    client.session->note_copy(77, CopyTarget::linear(&of_graph, sizeof of_graph), true, 0);
    client.session->note_graph_launch(103, GraphLaunch{{77}, false, nullptr, 1});
    client.session->note_graph_launch(104, GraphLaunch{{77}, true, nullptr, 2});
    EXPECT_EQ(client.session->contexts_copying(address(of_graph), 4), (std::vector<uint64_t>{1, 2}));
    client.session->copies_settled(1, address(other), sizeof other, 104);
    EXPECT_TRUE(client.session->copy_pending(address(one), sizeof one)) << "of the same context, elsewhere";
    EXPECT_TRUE(client.session->copy_pending(address(other), sizeof other)) << "of another context";
    EXPECT_EQ(client.session->contexts_copying(address(of_graph), 4), std::vector<uint64_t>{2});
    EXPECT_TRUE(client.session->graph_functions_pending());
    client.session->copies_settled(2, address(other), sizeof other, 104);
    EXPECT_FALSE(client.session->copy_pending(address(other), sizeof other));
    EXPECT_FALSE(client.session->copy_pending(address(of_graph), sizeof of_graph));
    EXPECT_FALSE(client.session->graph_functions_pending());
}

TEST(Session, long_payloads_are_streamed) {
    FakeServer server;
    SessionFixture client(server);
    Call call = client.call();
    Bytes bytes(3 * ConnectionToServer::k_chunk_bytes + 17, std::byte{3});
    ASSERT_EQ(gen::issue_cuMemcpyHtoD_v2(call, 0x300000000000, bytes.size(), bytes), CUDA_SUCCESS);
    ASSERT_EQ(gen::request_cuCtxSynchronize(call), CUDA_SUCCESS);
    auto calls = server.calls();
    ASSERT_EQ(calls.size(), 2u);
    EXPECT_EQ(calls[0].streamed_bytes, bytes.size());
}

TEST(Session, device_output_is_written_before_the_synchronisation_returns) {
    FakeServer server;
    server.on_call = [&](const SeenCall& seen) {
        server.output("hello from the device\n");
        server.reply(seen.number, CUDA_SUCCESS);
    };
    SessionFixture client(server);
    Call call = client.call();
    testing::internal::CaptureStdout();
    EXPECT_EQ(gen::request_cuCtxSynchronize(call), CUDA_SUCCESS);
    EXPECT_EQ(testing::internal::GetCapturedStdout(), "hello from the device\n");
}

// C16: the server does nothing else while such a copy waits for the device, unless the program waits, too. There are other
// threads here: the server's.
TEST(Session, a_copy_to_the_device_is_waited_for_only_behind_work) {
    FakeServer server;
    server.on_call = [&](const SeenCall& seen) {
        if (seen.header.wants_reply) server.reply(seen.number, CUDA_SUCCESS);
    };
    SessionFixture client(server);
    Call call = client.call();
    client.state.memory.set_window(0x300000000000, 64 << 20);
    DeviceRange range;
    range.base = 0x300000000000;
    range.size_bytes = 4096;
    client.state.memory.register_range(range);
    const std::vector<std::byte> bytes(1000, std::byte{7});
    const auto copy = [&] { return copy_to_device(call, range.base, bytes.data(), bytes.size()); };
    ASSERT_EQ(copy(), CUDA_SUCCESS);
    ASSERT_EQ(copy(), CUDA_SUCCESS);
    EXPECT_EQ(client.session->stats().blocking_round_trips, 0u) << "nothing can be in front of them";
    const uint32_t size = 4;
    ASSERT_EQ(gen::issue_cuLaunchKernel(call, 1, 1, 1, 1, 1, 1, 1, 0, 0, as_bytes(&size, 4), as_bytes(&size, 4)), CUDA_SUCCESS);
    ASSERT_EQ(copy(), CUDA_SUCCESS);
    EXPECT_EQ(client.session->stats().blocking_round_trips, 1u);
}

TEST(Session, memory_credit_comes_with_hello) {
    FakeServer server;
    SessionFixture client(server);
    MemoryCredit& credit = client.session->memory_credit();
    MutexLock lock(credit.order);
    EXPECT_TRUE(credit.take(0, 60 << 20));
    EXPECT_FALSE(credit.take(0, 8 << 20));
    EXPECT_FALSE(credit.take(1, 1)) << "each device has its own";
    EXPECT_TRUE(credit.take(0, 4 << 20));
    EXPECT_FALSE(credit.take(0, 1));
    EXPECT_FALSE(credit.take(0, UINT64_MAX));
    credit.grant(0, 5);
    EXPECT_TRUE(credit.take(0, 5));
}

// A4: what was granted before the server decides is about memory that the decision may give away.
TEST(MemoryCredit, a_decision_replaces_what_was_granted_before) {
    MemoryCredit credit;
    credit.grant(0, 100);
    MutexLock lock(credit.order);
    credit.give_up(0);
    EXPECT_FALSE(credit.take(0, 1)) << "given up";
    credit.grant(0, 50);  // sent before the server has decided
    EXPECT_FALSE(credit.take(0, 1));
    credit.answered(0, 7, 20);
    EXPECT_FALSE(credit.take(0, 21));
    EXPECT_TRUE(credit.take(0, 20));
}

TEST(MemoryCredit, of_several_decisions_the_last_one_counts) {
    MemoryCredit credit;
    MutexLock lock(credit.order);
    credit.give_up(0);
    credit.give_up(0);
    credit.answered(0, 9, 10);  // the threads wake in any order
    EXPECT_FALSE(credit.take(0, 1)) << "another answer is on its way";
    credit.answered(0, 8, 1000);
    EXPECT_FALSE(credit.take(0, 11));
    EXPECT_TRUE(credit.take(0, 10));
}

TEST(Session, says_goodbye) {
    FakeServer server;
    {
        SessionFixture client(server);
        Call call = client.call();
        EXPECT_EQ(gen::issue_cuEventRecord(call, 5, 0), CUDA_SUCCESS);
    }
    server.wait_for_close();
    EXPECT_EQ(server.calls().size(), 1u) << "what was queued is sent before";
}

}  // namespace
}  // namespace warpline::client
