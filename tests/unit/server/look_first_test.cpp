// Asking whether the device is done before a thread sleeps for it.
#include "server/driver/look_first.h"

#include <gtest/gtest.h>

namespace warpline::server {
namespace {

constexpr std::chrono::microseconds k_long = std::chrono::hours(1);  // a test that takes that long has failed

bool enough_processors() { return false; }
bool scarce_processors() { return true; }

TEST(LookFirst, B2_AsksUntilTheDeviceIsDone) {
    LookFirst first(k_long, &enough_processors);
    int asked = 0;
    EXPECT_EQ(first.look([&] { return ++asked < 10 ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS; }), CUDA_SUCCESS);
    EXPECT_EQ(asked, 10);
}

TEST(LookFirst, B2_AnErrorEndsIt) {
    LookFirst first(k_long, &enough_processors);
    EXPECT_EQ(first.look([] { return CUDA_ERROR_ILLEGAL_ADDRESS; }), CUDA_ERROR_ILLEGAL_ADDRESS);
}

TEST(LookFirst, B2_AsksNothingWhereItIsSwitchedOffOrProcessorsAreScarce) {
    int asked = 0;
    const auto query = [&] { return ++asked, CUDA_SUCCESS; };
    EXPECT_EQ(LookFirst(std::chrono::microseconds(0), &enough_processors).look(query), CUDA_ERROR_NOT_READY);
    EXPECT_EQ(LookFirst(k_long, &scarce_processors).look(query), CUDA_ERROR_NOT_READY);
    EXPECT_EQ(asked, 0);
}

TEST(LookFirst, B2_LongWaitsAreLookedAtSeldom) {
    LookFirst first(std::chrono::microseconds(1), &enough_processors);
    int looks = 0;
    for (int wait = 0; wait < 1000; ++wait) {
        int asked = 0;
        EXPECT_EQ(first.look([&] { return ++asked, CUDA_ERROR_NOT_READY; }), CUDA_ERROR_NOT_READY);
        if (asked != 0) ++looks;
    }
    EXPECT_GE(looks, 2);
    EXPECT_LE(looks, 30);
}

}  // namespace
}  // namespace warpline::server
