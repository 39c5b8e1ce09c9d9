// What the driver is told of a link's inputs.
#include <gtest/gtest.h>

#include "protocol/schema/link.capnp.h"
#include "tests/unit/server/program.h"

namespace warpline::server::test {

namespace {

TEST(LinkTest, InputsHaveOptionsOfTheirOwn) {
    ServerProcess server;
    ASSERT_TRUE(server.ready());
    const auto client = server.client();
    ASSERT_NE(client, nullptr);
    const uint64_t link = make_token(HandleKind::link, 1, 0);
    client->send<wire::CuLinkCreateV2>(CallId::cuLinkCreate_v2, [&](auto b) { b.setStateOut(link); });
    const auto add = [&](uint64_t first, uint64_t second) {
        return client
            ->call<wire::CuLinkAddDataV2>(
                CallId::cuLinkAddData_v2,
                [&](auto b) {
                    b.setState(link), b.setType(CU_JIT_INPUT_PTX);
                    auto options = b.initOptions(2);
                    auto values = b.initValues(2);
                    options.set(0, first), values.set(0, 32);
                    options.set(1, second), values.set(1, 2);
                },
                as_bytes(std::string_view(".version 8.0\n")))
            .result;
    };
    EXPECT_EQ(add(CU_JIT_MAX_REGISTERS, CU_JIT_MIN_CTA_PER_SM), CUDA_SUCCESS);
    EXPECT_EQ(add(CU_JIT_MAX_REGISTERS, CU_JIT_OPTIMIZATION_LEVEL), CUDA_ERROR_INVALID_PTX);
    for (const CUjit_option whole : {CU_JIT_WALL_TIME, CU_JIT_INFO_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
                                     CU_JIT_TARGET, CU_JIT_TARGET_FROM_CUCONTEXT})
        EXPECT_EQ(add(CU_JIT_MAX_REGISTERS, whole), CUDA_ERROR_INVALID_VALUE);
}

}  // namespace

}  // namespace warpline::server::test
