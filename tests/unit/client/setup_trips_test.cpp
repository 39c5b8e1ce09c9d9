// What a program sets up before each launch, and asks about: how often the server is asked.
#include <gtest/gtest.h>

#include "client/code/functions.h"
#include "client/gen/function_calls.gen.h"
#include "tests/unit/client/fake_server.h"

namespace warpline::client {
namespace {

using cuda::CallId;
using test::FakeServer;
using test::SeenCall;
using test::SessionFixture;

constexpr int k_shared_bytes = CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
constexpr int k_limit = 227 << 10, k_refused = 100000;

/// A kernel that is set up, and asked about as attention kernels do.
struct SetupTrips : testing::Test {
    SetupTrips() {
        device.attributes[CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN] = k_limit;
        auto image = cuda::image::Image::from_pointer(".version 8.0\n.target sm_80\n.address_size 64\n");
        EXPECT_TRUE(image.ok());
        function->code = std::make_shared<CodeImage>(std::move(*image));
        function->kernel = &kernel;
        function->context = context;
        function->announced.store(true);
        server.on_call = [this](const SeenCall& seen) {
            if (seen.header.id == static_cast<uint16_t>(CallId::cuFuncSetAttribute) && refuses) {
                server.async_error(seen.number, CUDA_ERROR_INVALID_VALUE);
            } else if (seen.header.wants_reply) {
                server.reply(seen.number, CUDA_SUCCESS);
            }
        };
    }
    Call call() {
        Call made = client.call();
        made.context = context;
        return made;
    }
    void set(int value) {
        Call setting = call();
        EXPECT_EQ(set_up_function(setting, *function, device, k_shared_bytes, value,
                                  [&] { return gen::issue_cuFuncSetAttribute(setting, token, k_shared_bytes, value); }),
                  CUDA_SUCCESS);
    }
    void ask() {
        Call asking = call();
        int blocks = 0;
        EXPECT_EQ(ask_blocks(asking, &blocks, to_handle<CUfunction>(token), 128, 4096, 0), CUDA_SUCCESS);
    }
    uint64_t trips() const { return client.session->stats().blocking_round_trips; }

    FakeServer server;
    SessionFixture client{server};
    std::atomic<bool> refuses{false};
    Device device;
    cuda::image::Kernel kernel;
    uint64_t context = client.state.contexts.make().token;
    TokenTable<Function, HandleKind::function>::Entry entry = client.state.functions.make();
    Function* function = entry.object;
    uint64_t token = entry.token;
};

TEST_F(SetupTrips, b2_occupancy_is_asked_for_once_for_each_value_that_is_set) {
    for (int i = 0; i < 100; ++i) {
        set(65536);
        ask();
    }
    EXPECT_EQ(trips(), 1u);
    for (int i = 0; i < 100; ++i) {
        set(i % 2 != 0 ? 65536 : 32768);
        ask();
    }
    EXPECT_EQ(trips(), 2u);
}

TEST_F(SetupTrips, b2_what_the_driver_has_refused_is_asked_for_each_time) {
    set(4096);
    ask();
    ASSERT_EQ(trips(), 1u);
    for (uint64_t i = 0; i < 3; ++i) {
        refuses.store(true);
        set(k_refused);
        ask();  // after it, so that the refusal is known
        EXPECT_EQ(client.session->failures(), i + 1);
        refuses.store(false);
        const uint64_t before = trips();
        set(4096);
        ask();
        EXPECT_EQ(trips(), before + 1) << "after a refusal nothing is known";
    }
    set(k_refused);  // taken now: what was answered when it was refused is not told
    const uint64_t before = trips();
    ask();
    EXPECT_EQ(trips(), before + 1);
}

TEST_F(SetupTrips, b2_a_setup_for_each_launch_does_not_fill_memory_for_good) {
    for (int i = 0; i < static_cast<int>(Answers<uint64_t>::k_most) + 10; ++i) {
        set(i);
        ask();
    }
    const uint64_t before = trips();
    for (int i = 0; i < 10; ++i) {
        set(0);
        ask();
    }
    EXPECT_EQ(trips(), before + 1);
}

}  // namespace
}  // namespace warpline::client
