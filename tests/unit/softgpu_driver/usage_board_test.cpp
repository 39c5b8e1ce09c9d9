// What processes note of their work, and what a monitor reads of it (A5).
#include "softgpu/driver/share/usage_board.h"

#include <gtest/gtest.h>

#include <memory>

namespace warpline::softgpu::driver {
namespace {

constexpr uint64_t k_ms = 1'000, k_bucket = BusyMeter::k_bucket_us;
/// Some time of a machine's clock, at the beginning of a bucket.
constexpr uint64_t k_start = 1'000'000 * k_bucket;

class BusyMeterTest : public testing::Test {
protected:
    uint64_t busy_at(uint64_t now) {
        uint64_t window = 0;
        const uint64_t busy = meter->busy_us(now, window);
        EXPECT_GE(window, 7 * k_bucket);
        EXPECT_LE(window, 8 * k_bucket);
        return busy;
    }
    std::unique_ptr<BusyMeter> meter = std::make_unique<BusyMeter>();
};

TEST_F(BusyMeterTest, CountsWhatHasEnded_A5) {
    EXPECT_EQ(busy_at(k_start), 0u);
    meter->begin(k_start);
    meter->end(k_start + 30 * k_ms);
    meter->begin(k_start + 60 * k_ms);
    meter->end(k_start + 65 * k_ms);
    EXPECT_EQ(busy_at(k_start + 100 * k_ms), 35 * k_ms);
    EXPECT_EQ(busy_at(k_start + 7 * k_bucket), 35 * k_ms);
    EXPECT_EQ(busy_at(k_start + 8 * k_bucket), 0u) << "a second later it is forgotten";
    EXPECT_EQ(busy_at(k_start + 100 * k_bucket), 0u);
}

TEST_F(BusyMeterTest, CountsWhatGoesOn_A5) {
    meter->begin(k_start);
    EXPECT_EQ(busy_at(k_start + 20 * k_ms), 20 * k_ms);
    meter->begin(k_start + 50 * k_ms);
    meter->end(k_start + 60 * k_ms);
    EXPECT_EQ(busy_at(k_start + 80 * k_ms), 80 * k_ms) << "two at a time count once";
    uint64_t window = 0;
    const uint64_t busy = meter->busy_us(k_start + 50 * k_bucket + k_ms, window);
    EXPECT_EQ(busy, window) << "longer than the window is all of it";
    meter->end(k_start + 50 * k_bucket + 2 * k_ms);
    EXPECT_EQ(busy_at(k_start + 50 * k_bucket + 2 * k_ms), 7 * k_bucket + 2 * k_ms);
    EXPECT_EQ(busy_at(k_start + 51 * k_bucket), 6 * k_bucket + 2 * k_ms) << "the present bucket counts as one of the window's";
}

TEST_F(BusyMeterTest, ManyShortOnesAddUp_A5) {
    for (uint64_t i = 0; i < 1'000; ++i) {
        meter->begin(k_start + i * k_ms);
        meter->end(k_start + i * k_ms + k_ms / 4);
    }
    uint64_t window = 0;
    const uint64_t now = k_start + 1'000 * k_ms, busy = meter->busy_us(now, window);
    EXPECT_NEAR(static_cast<double>(busy) / static_cast<double>(window), 0.25, 0.01);
}

}  // namespace
}  // namespace warpline::softgpu::driver
