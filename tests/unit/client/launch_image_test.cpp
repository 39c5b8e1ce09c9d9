// Tests of messages of launches that are made once and patched.
#include "client/code/launch_image.h"

#include <gtest/gtest.h>

#include "protocol/schema/launch.capnp.h"

namespace warpline::client {
namespace {

constexpr uint64_t k_token = 0x0005000100000007;

// A function whose parameters have these sizes.
void describe(Function& function, const std::vector<uint32_t>& sizes) {
    for (const uint32_t size : sizes) {
        function.pieces.push_back({function.block_bytes, size});
        function.block_bytes += size;
    }
    function.sizes.resize(sizes.size() * sizeof(uint32_t));
    if (!sizes.empty()) std::memcpy(function.sizes.data(), sizes.data(), function.sizes.size());
}

// The message as the generated encoder makes it.
Bytes encoded(const protocol::CallHeader& header, const Function& function, const LaunchShape& shape, uint64_t stream,
              BytesView params) {
    protocol::CallImage image;
    const auto fill = [&](capnp::AnyPointer::Builder any) {
        auto args = any.initAs<wire::CuLaunchKernel>();
        args.setF(k_token);
        args.setGridX(shape.grid_x);
        args.setGridY(shape.grid_y);
        args.setGridZ(shape.grid_z);
        args.setBlockX(shape.block_x);
        args.setBlockY(shape.block_y);
        args.setBlockZ(shape.block_z);
        args.setSharedMemBytes(shape.shared_bytes);
        args.setHStream(stream);
        args.setParams(protocol::data_of(params));
        args.setSizes(protocol::data_of(function.sizes));
    };
    EXPECT_TRUE(image.build(header, 400, 0, fill).ok());
    return Bytes(image.message().begin(), image.message().end());
}

TEST(LaunchImage, IsWhatTheEncoderMakes_B6) {
    const std::vector<std::vector<uint32_t>> functions = {{}, {4}, {8, 8, 4, 4}, {1, 8, 2, 96}, {512}};
    for (const auto& sizes : functions) {
        Function function;
        describe(function, sizes);
        const auto image = LaunchImage::make(k_token, function);
        ASSERT_NE(image, nullptr);
        for (uint64_t i = 0; i < 3; ++i) {
            const auto n = static_cast<unsigned>(i * 77);
            const LaunchShape shape{n + 1, n + 2, n + 3, n + 4, n + 5, n + 6, n * 1000};
            const protocol::CallHeader header{static_cast<uint16_t>(cuda::CallId::cuLaunchKernel), false, n + 9, i + 1};
            Bytes params(function.block_bytes);
            for (size_t at = 0; at < params.size(); ++at) params[at] = static_cast<std::byte>(at * 31 + i);
            std::vector<void*> pointers;
            for (const Function::Piece& piece : function.pieces) pointers.push_back(params.data() + piece.offset_bytes);
            protocol::CallImage made;
            ASSERT_EQ(image->write(made, header, function, shape, i, pointers.data()), CUDA_SUCCESS);
            EXPECT_TRUE(Bytes(made.message().begin(), made.message().end()) == encoded(header, function, shape, i, params))
                << sizes.size() << " parameters, launch " << i;
        }
    }
}

TEST(LaunchImage, AMissingParameterIsInvalid_B6) {
    Function function;
    describe(function, {8, 4});
    const auto image = LaunchImage::make(k_token, function);
    ASSERT_NE(image, nullptr);
    uint64_t value = 1;
    void* pointers[] = {&value, nullptr};
    protocol::CallImage made;
    EXPECT_EQ(image->write(made, {}, function, {}, 0, pointers), CUDA_ERROR_INVALID_VALUE);
}

TEST(LaunchImage, IsNotMadeOfWhatIsLarge_B6) {
    Function function;
    describe(function, {4000});
    EXPECT_EQ(LaunchImage::make(k_token, function), nullptr);
}

}  // namespace
}  // namespace warpline::client
