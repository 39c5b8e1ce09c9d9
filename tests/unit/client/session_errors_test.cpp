// What goes wrong: refusals, errors that come later, and the end of the connection.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <future>
#include <string_view>
#include <thread>

#include "client/gen/context_calls.gen.h"
#include "client/gen/event_calls.gen.h"
#include "common/log/log.h"
#include "tests/unit/client/fake_server.h"

namespace warpline::client {
namespace {

using test::FakeServer;
using test::SeenCall;
using test::SessionFixture;

Error connect_error(FakeServer& server, std::string& why) {
    auto made = Session::connect(
        server.settings(), [](CUresult) {}, why);
    EXPECT_FALSE(made.ok());
    return made.ok() ? Error{Code::ok} : made.error();
}

TEST(SessionErrors, d3_a_server_that_does_not_keep_to_the_limit_of_memory_is_left) {
    constexpr uint64_t k_limit = 8 << 20;
    for (const uint64_t told : {uint64_t{0}, k_limit / 2, k_limit, 2 * k_limit}) {
        FakeServer server;
        server.memory_limit = told;
        ConnectionSettings settings = server.settings();
        settings.memory_bytes = k_limit;
        std::string why;
        const auto made = Session::connect(
            settings, [](CUresult) {}, why);
        const bool keeps_to_it = told != 0 && told <= k_limit;
        ASSERT_EQ(made.ok(), keeps_to_it) << told << ": " << why;
        if (keeps_to_it) {
            EXPECT_EQ((*made)->info().memory_limit_bytes, told);
            (*made)->finish();
        } else {
            EXPECT_EQ(made.error().code, Code::version_mismatch);
            EXPECT_NE(why.find("WARPLINE_MEMORY=8388608"), std::string::npos) << why;
        }
    }
}

TEST(SessionErrors, a_refusal_is_told_in_the_servers_words) {
    FakeServer server;
    server.refusal = "no more sessions today";
    std::string why;
    testing::internal::CaptureStderr();
    EXPECT_EQ(connect_error(server, why).code, Code::denied);
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "") << "the caller tells the reason, once";
    EXPECT_NE(why.find("no more sessions today"), std::string::npos) << why;
}

TEST(SessionErrors, another_version_is_a_driver_mismatch) {
    FakeServer server;
    server.refusal = "this server speaks versions 7 to 9";
    server.refusal_code = Code::version_mismatch;
    std::string why;
    EXPECT_EQ(to_cu_result(connect_error(server, why).code), CUDA_ERROR_SYSTEM_DRIVER_MISMATCH);
}

TEST(SessionErrors, a_server_that_hangs_up_is_not_waited_for) {
    FakeServer server;
    server.hang_up = true;
    std::string why;
    connect_error(server, why);
    EXPECT_NE(why.find("127.0.0.1"), std::string::npos) << why;
}

TEST(SessionErrors, an_end_right_after_the_welcome_is_told_once) {
    // It races with the end of connect(): the caller gets the reason, or a line has been written and the session has ended.
    for (int round = 0; round < 20; ++round) {
        FakeServer server;
        server.farewell = "going down for repairs";
        std::string told;
        std::promise<CUresult> ended;
        testing::internal::CaptureStderr();
        auto made = Session::connect(
            server.settings(), [&](CUresult result) { ended.set_value(result); }, told);
        if (made.ok()) {
            EXPECT_EQ(ended.get_future().get(), CUDA_ERROR_DEVICE_UNAVAILABLE);
        } else {
            EXPECT_EQ(made.error().code, Code::shutting_down);
        }
        told += testing::internal::GetCapturedStderr();
        size_t first = told.find(server.farewell);
        ASSERT_NE(first, std::string::npos) << told;
        EXPECT_EQ(told.find(server.farewell, first + 1), std::string::npos) << told;
    }
}

TEST(SessionErrors, nobody_there) {
    std::string why;
    ConnectionSettings settings;
    {
        FakeServer server;
        settings = server.settings();
    }
    auto made = Session::connect(
        settings, [](CUresult) {}, why);
    ASSERT_FALSE(made.ok());
    EXPECT_EQ(to_cu_result(made.error().code), CUDA_ERROR_NO_DEVICE);
    EXPECT_FALSE(why.empty());
}

TEST(SessionErrors, an_unknown_server_is_not_believed) {
    FakeServer server, other;
    ConnectionSettings settings = server.settings();
    settings.identity = other.settings().identity;
    std::string why;
    auto made = Session::connect(
        settings, [](CUresult) {}, why);
    ASSERT_FALSE(made.ok());
    EXPECT_EQ(made.error().code, Code::auth_failed) << why;
}

TEST(SessionErrors, a_deferred_error_is_delivered_once) {
    FakeServer server;
    server.on_call = [&](const SeenCall& seen) {
        if (seen.header.wants_reply) return server.reply(seen.number, CUDA_SUCCESS);
        server.async_error(seen.number, CUDA_ERROR_INVALID_VALUE);
    };
    SessionFixture client(server);
    Call call = client.call();
    EXPECT_EQ(gen::issue_cuEventRecord(call, 5, 0), CUDA_SUCCESS);
    CUresult result = gen::request_cuCtxSynchronize(call);
    EXPECT_EQ(client.session->deliver(result), CUDA_ERROR_INVALID_VALUE);
    result = gen::request_cuCtxSynchronize(call);
    EXPECT_EQ(client.session->deliver(result), CUDA_SUCCESS) << "the same error is not news";
    EXPECT_EQ(client.session->sticky_error(), CUDA_SUCCESS);
}

TEST(SessionErrors, an_error_of_an_overtaken_call_is_told_too) {
    FakeServer server;
    std::vector<uint64_t> queued;
    unsigned waits = 0;
    server.on_call = [&](const SeenCall& seen) {
        if (!seen.header.wants_reply) return queued.push_back(seen.number);
        // The newer one fails first.
        if (waits++ == 0)
            server.async_error(queued[1], CUDA_ERROR_INVALID_VALUE);
        else
            server.async_error(queued[0], CUDA_ERROR_INVALID_HANDLE);
        server.reply(seen.number, CUDA_SUCCESS);
    };
    SessionFixture client(server);
    Call call = client.call();
    EXPECT_EQ(gen::issue_cuEventRecord(call, 5, 0), CUDA_SUCCESS);
    EXPECT_EQ(gen::issue_cuEventRecord(call, 6, 0), CUDA_SUCCESS);
    CUresult result = gen::request_cuCtxSynchronize(call);
    EXPECT_EQ(client.session->deliver(result), CUDA_ERROR_INVALID_VALUE);
    result = gen::request_cuCtxSynchronize(call);
    EXPECT_EQ(client.session->deliver(result), CUDA_ERROR_INVALID_HANDLE);
}

TEST(SessionErrors, a_calls_own_error_goes_before_a_deferred_one) {
    FakeServer server;
    SessionFixture client(server);
    client.session->defer(CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(client.session->deliver(CUDA_ERROR_NOT_READY), CUDA_ERROR_NOT_READY);
    EXPECT_EQ(client.session->deliver(CUDA_SUCCESS), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(client.session->deliver(CUDA_SUCCESS), CUDA_SUCCESS);
}

TEST(SessionErrors, a_kernels_failure_stays) {
    FakeServer server;
    server.on_call = [&](const SeenCall& seen) { server.reply(seen.number, CUDA_ERROR_ILLEGAL_ADDRESS); };
    SessionFixture client(server);
    Call call = client.call();
    EXPECT_EQ(gen::request_cuCtxSynchronize(call), CUDA_ERROR_ILLEGAL_ADDRESS);
    EXPECT_EQ(client.session->sticky_error(), CUDA_ERROR_ILLEGAL_ADDRESS);
    for (int i = 0; i < 3; ++i) EXPECT_EQ(client.session->deliver(CUDA_SUCCESS), CUDA_ERROR_ILLEGAL_ADDRESS);
    client.session->defer(CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(client.session->deliver(CUDA_SUCCESS), CUDA_ERROR_ILLEGAL_ADDRESS) << "the first one";
    client.session->forget_deferred();
    EXPECT_EQ(client.session->deliver(CUDA_SUCCESS), CUDA_SUCCESS) << "a reset of the device ends it";
}

TEST(SessionErrors, an_earlier_failure_is_told_before_one_that_stays) {
    FakeServer server;
    SessionFixture client(server);
    client.session->defer(CUDA_ERROR_OUT_OF_MEMORY);
    client.session->defer(CUDA_ERROR_LAUNCH_FAILED);
    EXPECT_EQ(client.session->deliver(CUDA_ERROR_LAUNCH_FAILED), CUDA_ERROR_OUT_OF_MEMORY) << "also if the call has the other";
    EXPECT_EQ(client.session->deliver(CUDA_SUCCESS), CUDA_ERROR_LAUNCH_FAILED);
    EXPECT_EQ(client.session->deliver(CUDA_SUCCESS), CUDA_ERROR_LAUNCH_FAILED);
}

TEST(SessionErrors, a_lost_connection_wakes_everybody_with_46) {
    FakeServer server;
    server.on_call = [](const SeenCall&) {};
    SessionFixture client(server);
    std::vector<std::thread> threads;
    std::atomic<int> lost{0};
    for (int i = 0; i < 3; ++i) {
        threads.emplace_back([&] {
            ThreadState own;
            Call call{cuda::CallId::cuCtxSynchronize, own, *client.session, client.state};
            if (gen::request_cuCtxSynchronize(call) == CUDA_ERROR_DEVICE_UNAVAILABLE) ++lost;
        });
    }
    server.wait_for_calls(3);
    server.drop();
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(lost.load(), 3);
    EXPECT_EQ(client.ended.load(), CUDA_ERROR_DEVICE_UNAVAILABLE);
    Call call = client.call();
    EXPECT_EQ(gen::request_cuCtxSynchronize(call), CUDA_ERROR_DEVICE_UNAVAILABLE);
    EXPECT_EQ(gen::issue_cuEventRecord(call, 1, 0), CUDA_ERROR_DEVICE_UNAVAILABLE);
    EXPECT_EQ(client.session->deliver(CUDA_SUCCESS), CUDA_ERROR_DEVICE_UNAVAILABLE);
}

TEST(SessionErrors, c3_the_log_says_that_the_session_is_lost_before_any_call_fails) {
    std::array<int, 2> pipe{};
    ASSERT_EQ(::pipe2(pipe.data(), O_CLOEXEC | O_NONBLOCK), 0);
    for (int round = 0; round < 20; ++round) {
        FakeServer server;
        SessionFixture client(server);
        Call call = client.call();
        log::set_output(pipe[1]);
        if (round % 2 == 0)
            server.drop();
        else
            server.close(Code::shutting_down, "the server is going down");
        // A program may end with the first error that it sees, and the log's line must be written by then.
        while (gen::issue_cuEventRecord(call, 1, 0) == CUDA_SUCCESS) {
        }
        std::array<char, 1024> said{};
        const ssize_t count = ::read(pipe[0], said.data(), said.size());
        log::set_output(STDERR_FILENO);
        ASSERT_GT(count, 0) << "round " << round;
        EXPECT_NE(std::string_view(said.data(), static_cast<size_t>(count)).find("lost the session with"),
                  std::string_view::npos);
    }
    ::close(pipe[0]);
    ::close(pipe[1]);
}

TEST(SessionErrors, no_call_succeeds_behind_one_that_could_not_be_sent) {
    FakeServer server;
    SessionFixture client(server);
    // As when the server says goodbye, before the thread that heard it has told anybody.
    client.session->calls().outbox().close(Error{Code::shutting_down, "the server is going down"}, false);
    Call call = client.call();
    EXPECT_EQ(gen::issue_cuEventRecord(call, 1, 0), CUDA_ERROR_DEVICE_UNAVAILABLE);
    EXPECT_EQ(client.session->deliver(CUDA_SUCCESS), CUDA_ERROR_DEVICE_UNAVAILABLE) << "one that is answered here";
}

TEST(SessionErrors, the_servers_goodbye_ends_the_session) {
    FakeServer server;
    server.on_call = [&](const SeenCall&) { server.close(Code::shutting_down, "the server is going down"); };
    SessionFixture client(server);
    Call call = client.call();
    EXPECT_EQ(gen::request_cuCtxSynchronize(call), CUDA_ERROR_DEVICE_UNAVAILABLE);
}

TEST(SessionErrors, a_reply_to_nobody_ends_the_session) {
    FakeServer server;
    server.on_call = [&](const SeenCall&) { server.reply(4711, CUDA_SUCCESS); };
    SessionFixture client(server);
    Call call = client.call();
    EXPECT_EQ(gen::request_cuCtxSynchronize(call), CUDA_ERROR_DEVICE_UNAVAILABLE);
}

TEST(SessionErrors, C1_corruption_is_a_lost_connection_to_every_call) {
    FakeServer server;
    server.on_call = [&](const SeenCall&) { server.garble(); };
    SessionFixture client(server);
    Call call = client.call();
    EXPECT_EQ(gen::request_cuCtxSynchronize(call), CUDA_ERROR_DEVICE_UNAVAILABLE);
    // What was wrong with the connection is no error of calls that are too late for it.
    EXPECT_EQ(gen::request_cuCtxSynchronize(call), CUDA_ERROR_DEVICE_UNAVAILABLE);
    EXPECT_EQ(gen::issue_cuEventRecord(call, 1, 0), CUDA_ERROR_DEVICE_UNAVAILABLE);
}

}  // namespace
}  // namespace warpline::client
