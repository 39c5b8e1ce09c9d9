// Tests of images that are linked at run time.
#include "softgpu/driver/code/link_state.h"

#include <gtest/gtest.h>

#include <cstring>

namespace warpline::softgpu::driver {
namespace {

TEST(LinkStateTest, OneTextIsItsOwnImage) {
    Bytes image = make_linked_image({".version 8.0"});
    EXPECT_STREQ(reinterpret_cast<const char*>(image.data()), ".version 8.0");
    EXPECT_FALSE(read_linked_image(image.data()).has_value());
}

TEST(LinkStateTest, SeveralTextsComeBack) {
    std::vector<std::string> texts = {"first", std::string(100000, 'x'), ""};
    Bytes image = make_linked_image(texts);
    auto read = read_linked_image(image.data());
    ASSERT_TRUE(read.has_value());
    EXPECT_EQ(*read, texts);
}

TEST(LinkStateTest, LengthsThatDoNotFitAreRefused) {
    Bytes image = make_linked_image({"first", "second"});
    uint64_t huge = UINT64_MAX;
    std::memcpy(image.data() + 24, &huge, sizeof(huge));
    auto read = read_linked_image(image.data());
    ASSERT_TRUE(read.has_value());
    EXPECT_TRUE(read->empty());
}

}  // namespace
}  // namespace warpline::softgpu::driver
