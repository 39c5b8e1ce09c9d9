// Tests of the options of compilations: what travels, and what stays.
#include "client/code/jit_options.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

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
    // Addresses do not: that a log is wanted, and how long it may be, does.
    const std::vector<uint64_t> travels = {32, 1, sizeof info, 80, 1, sizeof error};
    EXPECT_EQ(std::vector<uint64_t>(jit.values().begin(), jit.values().end()), travels);
    ASSERT_EQ(jit.options().size(), 6u);
    EXPECT_EQ(jit.options()[3], static_cast<uint64_t>(CU_JIT_TARGET));
    jit.outputs().write({"a long text of information", "short", 26, 5, 0});
    EXPECT_STREQ(info, "a long ");
    EXPECT_STREQ(error, "short");
    EXPECT_EQ(reinterpret_cast<uint64_t>(values[2]), sizeof info);
    EXPECT_EQ(reinterpret_cast<uint64_t>(values[5]), 5u);
}

TEST(JitOptions, the_time_is_a_float_in_place_of_the_value) {
    CUjit_option option = CU_JIT_WALL_TIME;
    void* value = number(0x1234567812345678);
    JitOptions jit;
    ASSERT_EQ(jit.read(1, &option, &value), CUDA_SUCCESS);
    EXPECT_EQ(jit.values()[0], 0u);
    jit.outputs().write({"", "", 0, 0, 2.5f});
    float ms = 0;
    std::memcpy(&ms, &value, sizeof ms);
    EXPECT_EQ(ms, 2.5f);
}

TEST(JitOptions, an_option_that_does_not_exist_is_refused) {
    auto option = static_cast<CUjit_option>(9999);
    void* value = nullptr;
    JitOptions jit;
    EXPECT_EQ(jit.read(1, &option, &value), CUDA_ERROR_INVALID_VALUE);
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
    jit.outputs().write({"text", "", 4, 0, 0});
    EXPECT_STREQ(info, "abc");
}

}  // namespace
}  // namespace warpline::client
