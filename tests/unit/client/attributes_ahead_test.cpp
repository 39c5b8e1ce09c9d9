// Which kernels are asked about together, and what of the answers is used.
#include "client/state/attributes_ahead.h"

#include <gtest/gtest.h>

namespace warpline::client {
namespace {

struct AttributesAheadTest : testing::Test {
    static constexpr AttributesAhead::Place k_place{7, 0}, k_other_device{7, 1}, k_other_owner{8, 0};

    AttributesAheadTest() {
        for (int i = 0; i < 1000; ++i) kernels.emplace_back().name = "kernel_" + std::to_string(i);
    }
    std::vector<std::string_view> next(size_t kernel, AttributesAhead::Place place = k_place) {
        return ahead.next(place, kernels, kernels[kernel]);
    }
    const std::string& name(size_t kernel) const { return kernels[kernel].name; }

    std::vector<cuda::image::Kernel> kernels;
    AttributesAhead ahead;
};

TEST_F(AttributesAheadTest, a2_all_kernels_of_an_image_take_few_questions) {
    size_t questions = 0;
    for (size_t i = 0; i < kernels.size(); ++i) {
        if (ahead.take(k_place, name(i))) continue;
        ++questions;
        for (std::string_view other : next(i)) ahead.keep(k_place, other, {{1, 0}});
    }
    EXPECT_EQ(questions, 8u) << "8, 16, 32, 64, 128 and 256 three times";
}

TEST_F(AttributesAheadTest, a2_a_single_question_is_about_few) {
    const auto others = next(998);
    ASSERT_EQ(others.size(), AttributesAhead::k_first - 1);
    EXPECT_EQ(others[0], name(999));
    EXPECT_EQ(others[1], name(0)) << "from the first on behind the last";
    EXPECT_EQ(next(0, k_other_device).size(), AttributesAhead::k_first - 1) << "each device has its own";
    kernels.resize(3);
    EXPECT_EQ(next(1, k_other_owner), (std::vector<std::string_view>{name(2), name(0)}));
    EXPECT_TRUE(next(1, k_other_owner).empty()) << "nobody is asked about twice";
}

TEST_F(AttributesAheadTest, a2_answers_are_of_one_place_and_taken_once) {
    ahead.keep(k_place, name(1), {{41, 0}, {0, 1}});
    EXPECT_FALSE(ahead.take(k_other_device, name(1)));
    EXPECT_FALSE(ahead.take(k_other_owner, name(1)));
    EXPECT_FALSE(ahead.take(k_place, name(2)));
    const auto taken = ahead.take(k_place, name(1));
    ASSERT_TRUE(taken && taken->size() == 2);
    EXPECT_EQ((*taken)[0].value, 41);
    EXPECT_EQ((*taken)[1].result, 1);
    EXPECT_FALSE(ahead.take(k_place, name(1)));
}

TEST_F(AttributesAheadTest, a2_what_the_program_sets_up_is_not_known_ahead) {
    ahead.keep(k_place, name(1), {{1, 0}});
    ahead.keep(k_other_device, name(1), {{2, 0}});
    ahead.set_up(k_place.device, name(1));
    EXPECT_FALSE(ahead.take(k_place, name(1)));
    EXPECT_TRUE(ahead.take(k_other_device, name(1)));
    ahead.keep(k_place, name(1), {{1, 0}});
    EXPECT_FALSE(ahead.take(k_place, name(1))) << "an answer to what was asked before";
    const auto others = next(0);
    EXPECT_EQ(std::count(others.begin(), others.end(), name(1)), 0);
}

}  // namespace
}  // namespace warpline::client
