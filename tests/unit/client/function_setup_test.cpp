// Which answers about a kernel hold again when it is set up as it was before.
#include "client/state/function_setup.h"

#include <gtest/gtest.h>

namespace warpline::client {
namespace {

constexpr int k_what = 8, k_other = FunctionSetup::k_cache_config;

struct FunctionSetupTest : testing::Test {
    void set(int what, int value, bool is_recalled = true) {
        setup.begin(failures);
        setup.sent(what, value, ++number, is_recalled);
    }
    /// A question that is answered with nothing between. True if the answer may be kept.
    bool ask() {
        const auto moment = setup.now(failures);
        key = moment.key;
        return setup.holds(moment, failures);
    }

    FunctionSetup setup;
    uint64_t failures = 3, number = 0;
    Bytes key;
};

TEST_F(FunctionSetupTest, b2_the_same_values_are_the_same_setup) {
    ASSERT_TRUE(ask());
    const Bytes at_first = key;
    set(k_what, 1);
    ASSERT_TRUE(ask());
    const Bytes one = key;
    EXPECT_NE(one, at_first);
    set(k_what, 2);
    ASSERT_TRUE(ask());
    EXPECT_NE(key, one);
    set(k_what, 1);
    ASSERT_TRUE(ask());
    EXPECT_EQ(key, one);
    set(k_other, 1);
    ASSERT_TRUE(ask());
    EXPECT_NE(key, one);
}

TEST_F(FunctionSetupTest, b2_what_is_not_recalled_is_another_setup_each_time_that_it_changes) {
    set(k_what, 1, false);
    ASSERT_TRUE(ask());
    const Bytes one = key;
    set(k_what, 1, false);
    ASSERT_TRUE(ask());
    EXPECT_EQ(key, one);
    set(k_what, 2, false);
    set(k_what, 1, false);
    ASSERT_TRUE(ask());
    EXPECT_NE(key, one);
}

TEST_F(FunctionSetupTest, b2_what_was_refused_is_not_how_it_is_set_up) {
    set(k_what, 1);
    ASSERT_TRUE(ask());
    const Bytes one = key;
    setup.attributes.emplace();
    set(k_what, 2);
    const auto moment = setup.now(failures);
    ++failures;  // told before the answer
    EXPECT_FALSE(setup.holds(moment, failures));
    EXPECT_FALSE(setup.attributes);
    EXPECT_TRUE(ask()) << "nothing was set since";
    EXPECT_NE(key, one);
    EXPECT_NE(key, moment.key);
    set(k_what, 2);
    ++failures;  // told before the question
    EXPECT_TRUE(ask());
    EXPECT_NE(key, moment.key);
}

TEST_F(FunctionSetupTest, b2_a_failure_of_something_else_changes_nothing_once_what_was_set_is_confirmed) {
    set(k_what, 1);
    ASSERT_TRUE(ask());
    const Bytes one = key;
    ++failures;
    ASSERT_TRUE(ask());
    EXPECT_EQ(key, one);
}

TEST_F(FunctionSetupTest, b2_an_answer_is_not_kept_if_another_thread_was_setting_something_up) {
    setup.begin(failures);
    const auto between = setup.now(failures);
    setup.sent(k_what, 1, 1, true);
    EXPECT_FALSE(setup.holds(between, failures)) << "asked before the call was known to be sent";
    const auto before = setup.now(failures);
    setup.begin(failures);
    EXPECT_FALSE(setup.holds(before, failures)) << "it may have been sent before the question";
    setup.not_sent();
    EXPECT_TRUE(ask());
}

TEST_F(FunctionSetupTest, b2_the_later_call_of_two_threads_counts) {
    set(k_what, 2);
    ASSERT_TRUE(ask());
    const Bytes two = key;
    setup.begin(failures);
    setup.begin(failures);
    EXPECT_TRUE(setup.sent(k_what, 2, 11, true));
    EXPECT_FALSE(setup.sent(k_what, 1, 10, true));
    ASSERT_TRUE(ask());
    EXPECT_EQ(key, two);
}

}  // namespace
}  // namespace warpline::client
