// What a launch sends, and what it refuses, without a server.
#include <gtest/gtest.h>

#include <cstring>

#include "client/code/launch_params.h"

namespace warpline::client {
namespace {

struct LaunchTest : testing::Test {
    cuda::image::Kernel kernel;
    Function function;
    Device device;

    void SetUp() override {
        function.kernel = &kernel;
        function.code = nullptr;
        auto set = [&](CUdevice_attribute id, int value) { device.attributes[id] = value; };
        set(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, 2147483647);
        set(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, 65535);
        set(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, 65535);
        set(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, 1024);
        set(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, 1024);
        set(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, 64);
        set(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1024);
        set(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK, 65536);
        set(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, 49152);
    }
    void set_params(const std::vector<uint32_t>& sizes) {
        for (uint32_t size : sizes) {
            function.pieces.push_back({function.block_bytes, size});
            function.block_bytes += size;
        }
        BytesView view = as_bytes(sizes.data(), sizes.size() * sizeof(uint32_t));
        function.sizes.assign(view.begin(), view.end());
        kernel.param_bytes = function.block_bytes;
    }
    CUresult check(LaunchShape shape) {
        if (!function.code) {
            auto image = cuda::image::Image::from_pointer(".version 8.0\n.target sm_80\n.address_size 64\n");
            EXPECT_TRUE(image.ok());
            function.code = std::make_shared<CodeImage>(std::move(*image));
            function.code->library = library;
        }
        return check_shape(device, function, shape);
    }
    bool library = false;
};

TEST_F(LaunchTest, parameters_travel_back_to_back) {
    set_params({4, 8, 1});
    int a = 0x01020304;
    double b = 2.5;
    char c = 'x';
    void* pointers[] = {&a, &b, &c};
    LaunchParams params;
    ASSERT_EQ(params.read(function, pointers, nullptr), CUDA_SUCCESS);
    ASSERT_EQ(params.params().size(), 13u);
    EXPECT_EQ(std::memcmp(params.params().data(), &a, 4), 0);
    EXPECT_EQ(std::memcmp(params.params().data() + 4, &b, 8), 0);
    EXPECT_EQ(std::memcmp(params.params().data() + 12, &c, 1), 0);
    EXPECT_EQ(params.sizes().size(), 12u);
}

TEST_F(LaunchTest, large_parameters_travel_too) {
    set_params({20000, 4});
    std::vector<char> large(20000, 'q');
    int last = 5;
    void* pointers[] = {large.data(), &last};
    LaunchParams params;
    ASSERT_EQ(params.read(function, pointers, nullptr), CUDA_SUCCESS);
    ASSERT_EQ(params.params().size(), 20004u);
    EXPECT_EQ(std::memcmp(params.params().data() + 20000, &last, 4), 0);
}

TEST_F(LaunchTest, missing_parameters_are_refused) {
    set_params({4, 8});
    int a = 0;
    void* pointers[] = {&a, nullptr};
    EXPECT_EQ(LaunchParams().read(function, nullptr, nullptr), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(LaunchParams().read(function, pointers, nullptr), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(LaunchTest, the_extra_form_is_a_buffer) {
    set_params({4, 8});
    char buffer[16] = "parameters";
    size_t size = 12;
    void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, buffer, CU_LAUNCH_PARAM_BUFFER_SIZE, &size, CU_LAUNCH_PARAM_END};
    LaunchParams params;
    ASSERT_EQ(params.read(function, nullptr, extra), CUDA_SUCCESS);
    EXPECT_EQ(params.params().size(), 12u);
    EXPECT_TRUE(params.sizes().empty());
    void* pointers[] = {buffer, buffer};
    EXPECT_EQ(LaunchParams().read(function, pointers, extra), CUDA_ERROR_INVALID_VALUE) << "both forms";
    void* no_buffer[] = {CU_LAUNCH_PARAM_BUFFER_SIZE, &size, CU_LAUNCH_PARAM_END};
    EXPECT_EQ(LaunchParams().read(function, nullptr, no_buffer), CUDA_ERROR_INVALID_VALUE);
    size = 4;
    ASSERT_EQ(params.read(function, nullptr, extra), CUDA_SUCCESS) << "the end may be left out (DB-36)";
    EXPECT_EQ(params.params().size(), 4u);
    size = 0;
    EXPECT_EQ(LaunchParams().read(function, nullptr, extra), CUDA_ERROR_INVALID_VALUE);
    size = 13;
    EXPECT_EQ(LaunchParams().read(function, nullptr, extra), CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES) << "DB-36";
    size = 40000;
    EXPECT_EQ(LaunchParams().read(function, nullptr, extra), CUDA_ERROR_INVALID_VALUE) << "more than CUDA allows";
    void* unknown[] = {reinterpret_cast<void*>(77), buffer, CU_LAUNCH_PARAM_END};
    EXPECT_EQ(LaunchParams().read(function, nullptr, unknown), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(LaunchTest, shapes_are_checked_against_the_device) {
    EXPECT_EQ(check({1, 1, 1, 1024, 1, 1, 0}), CUDA_SUCCESS);
    EXPECT_EQ(check({2147483647, 65535, 65535, 1, 1, 64, 0}), CUDA_SUCCESS);
    EXPECT_EQ(check({0, 1, 1, 1, 1, 1, 0}), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(check({1, 1, 1, 0, 1, 1, 0}), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(check({1, 65536, 1, 1, 1, 1, 0}), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(check({1, 1, 1, 1, 1, 65, 0}), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(check({1, 1, 1, 32, 33, 1, 0}), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(check({1, 1, 1, 4294967295u, 4294967295u, 4294967295u, 0}), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(LaunchTest, kernels_of_libraries_are_checked_alike_DB_37) {
    library = true;
    EXPECT_EQ(check({1, 1, 1, 2048, 1, 1, 0}), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(LaunchTest, shapes_are_checked_against_the_function) {
    function.max_threads = 128;
    EXPECT_EQ(check({1, 1, 1, 128, 1, 1, 0}), CUDA_SUCCESS);
    EXPECT_EQ(check({1, 1, 1, 129, 1, 1, 0}), CUDA_ERROR_INVALID_VALUE) << "DB-38";
    function.max_threads = 0;
    function.registers = 255;
    EXPECT_EQ(check({1, 1, 1, 256, 1, 1, 0}), CUDA_SUCCESS);
    EXPECT_EQ(check({1, 1, 1, 257, 1, 1, 0}), CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
    function.registers = 0;
    kernel.required_threads = {8, 4, 0};
    EXPECT_EQ(check({1, 1, 1, 8, 4, 1, 0}), CUDA_SUCCESS);
    EXPECT_EQ(check({1, 1, 1, 4, 8, 1, 0}), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(LaunchTest, dynamic_shared_memory_has_a_limit_that_can_be_raised) {
    function.static_shared_bytes = 1024;
    EXPECT_EQ(check({1, 1, 1, 1, 1, 1, 49152 - 1024}), CUDA_SUCCESS);
    EXPECT_EQ(check({1, 1, 1, 1, 1, 1, 49152 - 1023}), CUDA_ERROR_INVALID_VALUE);
    function.shared_limits = std::vector<std::atomic<int>>(2);
    function.shared_limits[0].store(90000);
    function.shared_limits[1].store(-1);
    EXPECT_EQ(check({1, 1, 1, 1, 1, 1, 90000}), CUDA_SUCCESS);
    EXPECT_EQ(check({1, 1, 1, 1, 1, 1, 90001}), CUDA_ERROR_INVALID_VALUE);
    device.ordinal = 1;
    EXPECT_EQ(check({1, 1, 1, 1, 1, 1, 49152 - 1023}), CUDA_ERROR_INVALID_VALUE) << "of each device by itself";
}

}  // namespace
}  // namespace warpline::client
