#include "client/hooks/jit_options.h"

#include <gtest/gtest.h>

#include <cstring>

namespace warpline::client {
namespace {

void* number(uint64_t value) { return reinterpret_cast<void*>(value); }

TEST(JitOptions, numbers_travel_and_logs_stay) {
    char info[8], error[64];
    CUjit_option options[] = {CU_JIT_MAX_REGISTERS, CU_JIT_INFO_LOG_BUFFER,  CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES,
                              CU_JIT_TARGET,        CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void* values[] = {number(32), info, number(sizeof info), number(80), error, number(sizeof error)};
    JitOptions jit;
    ASSERT_EQ(jit.read(6, options, values), CUDA_SUCCESS);
    ASSERT_EQ(jit.options().size(), 2u);
    EXPECT_EQ(jit.options()[0], static_cast<uint64_t>(CU_JIT_MAX_REGISTERS));
    EXPECT_EQ(jit.values()[0], 32u);
    EXPECT_EQ(jit.values()[1], 80u);
    jit.write_logs("a long text of information", "short", options, values, 6);
    EXPECT_STREQ(info, "a long ");
    EXPECT_STREQ(error, "short");
    EXPECT_EQ(reinterpret_cast<uint64_t>(values[2]), sizeof info);
    EXPECT_EQ(reinterpret_cast<uint64_t>(values[5]), 5u);
}

TEST(JitOptions, refuses_null_arrays) {
    JitOptions jit;
    EXPECT_EQ(jit.read(0, nullptr, nullptr), CUDA_SUCCESS);
    EXPECT_EQ(jit.read(1, nullptr, nullptr), CUDA_ERROR_INVALID_VALUE);
}

TEST(JitOptions, a_buffer_without_a_size_is_not_written) {
    char info[4] = "abc";
    CUjit_option options[] = {CU_JIT_INFO_LOG_BUFFER};
    void* values[] = {info};
    JitOptions jit;
    ASSERT_EQ(jit.read(1, options, values), CUDA_SUCCESS);
    jit.write_logs("text", "", options, values, 1);
    EXPECT_STREQ(info, "abc");
}

}  // namespace
}  // namespace warpline::client
