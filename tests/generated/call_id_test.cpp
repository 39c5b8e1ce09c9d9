// Numbers, names and classes of calls, as generated.
#include <gtest/gtest.h>

#include <cstring>

#include "cuda/gen/call_id.gen.h"

namespace warpline::cuda {
namespace {

TEST(CallId, B1_every_number_leads_to_its_call_and_back) {
    CallId last = CallId::none;
    for (const CallInfo& info : all_calls()) {
        EXPECT_LT(last, info.id);
        EXPECT_EQ(call_info(info.id), &info);
        EXPECT_STREQ(call_name(info.id), info.name);
        last = info.id;
    }
}

TEST(CallId, F1_a_number_that_is_none_of_ours_is_nothing) {
    EXPECT_EQ(call_info(CallId::none), nullptr);
    EXPECT_EQ(call_info(static_cast<CallId>(0xffff)), nullptr);
    EXPECT_STREQ(call_name(static_cast<CallId>(0xffff)), "?");
}

TEST(CallId, B1_numbers_on_the_wire_do_not_change) {
    EXPECT_EQ(static_cast<int>(CallId::cuStreamCreate), 0x0401);
    EXPECT_EQ(static_cast<int>(HandleKind::stream), 1);
    EXPECT_EQ(static_cast<int>(HandleKind::function), 5);
}

TEST(CallId, D1_what_the_classes_promise) {
    const CallInfo* launch = call_info(CallId::cuLaunchKernel);
    ASSERT_NE(launch, nullptr);
    EXPECT_EQ(launch->call_class, CallClass::ordered);
    EXPECT_TRUE(launch->travels);
    EXPECT_FALSE(launch->waits);
    const CallInfo* synchronise = call_info(CallId::cuCtxSynchronize);
    ASSERT_NE(synchronise, nullptr);
    EXPECT_TRUE(synchronise->waits);
    EXPECT_TRUE(synchronise->parks);
    for (const CallInfo& info : all_calls()) {
        bool stays = info.call_class == CallClass::local || info.call_class == CallClass::unsupported;
        EXPECT_FALSE(stays && info.travels) << info.name;
        bool goes_ahead = info.call_class == CallClass::ordered || info.call_class == CallClass::create;
        EXPECT_FALSE(goes_ahead && info.waits) << info.name;
    }
}

}  // namespace
}  // namespace warpline::cuda
