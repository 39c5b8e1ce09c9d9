// Which calls have to wait for one that was overtaken, and which need not.
#include "server/session/call_order.h"

#include <gtest/gtest.h>

#include "cuda/gen/call_id.gen.h"

namespace warpline::server {

namespace {

/// Work that is never run: the tests look at which is free.
class Nothing final : public OrderedWork {
public:
    bool step() override { return false; }
};

constexpr uint64_t k_first = 0x1001;
constexpr uint64_t k_second = 0x1002;
constexpr uint64_t k_function = 0x2001;
constexpr uint64_t k_event = 0x3001;
constexpr uint64_t k_context = 0x4001;

/// A call in a stream, as Session::place_streams() describes it.
Footprint in_stream(uint64_t stream, bool blocking = true) {
    Footprint footprint;
    footprint.touches.push_back({stream, false, true, false});
    if (blocking) footprint.use(legacy_key(k_context));
    return footprint;
}
Footprint in_legacy_stream() {
    Footprint footprint;
    footprint.make(legacy_key(k_context));
    return footprint;
}
Footprint using_object(Footprint footprint, uint64_t token) {
    footprint.use(token);
    return footprint;
}
Footprint making(Footprint footprint, uint64_t token) {
    footprint.make(token);
    return footprint;
}

class CallOrderTest : public testing::Test {
protected:
    bool held(const Footprint& footprint) {
        m_works.push_back(std::make_shared<Nothing>());
        return m_order.hold(footprint, m_works.back(), m_last);
    }
    CallOrder m_order;
    std::vector<std::shared_ptr<OrderedWork>> m_works;
    uint64_t m_last = 0;
};

TEST_F(CallOrderTest, AStreamKeepsItsOrderAndOthersGoOn) {
    EXPECT_FALSE(m_order.any());
    const uint64_t launch = m_order.overtaken(in_stream(k_first));
    EXPECT_TRUE(m_order.any());
    EXPECT_TRUE(held(in_stream(k_first)));
    const uint64_t next = m_last;
    EXPECT_TRUE(held(in_stream(k_first)));
    EXPECT_FALSE(held(in_stream(k_second)));
    EXPECT_EQ(m_order.ended(launch), (std::vector{m_works[0]}));
    EXPECT_EQ(m_order.ended(next), (std::vector{m_works[1]}));
    EXPECT_TRUE(m_order.ended(m_last).empty());
    EXPECT_FALSE(m_order.any());
    EXPECT_FALSE(held(in_stream(k_first)));
}

TEST_F(CallOrderTest, TheLegacyStreamAndBlockingStreamsWaitForOneAnother) {
    const uint64_t launch = m_order.overtaken(in_stream(k_first));
    EXPECT_TRUE(held(in_legacy_stream()));
    EXPECT_TRUE(held(in_stream(k_second))) << "behind the call in the legacy stream";
    EXPECT_FALSE(held(in_stream(k_function, false)));
    EXPECT_EQ(m_order.ended(launch), (std::vector{m_works[0]}));
}

TEST_F(CallOrderTest, ANonBlockingStreamHasNothingToDoWithTheLegacyOne) {
    m_order.overtaken(in_stream(k_first, false));
    EXPECT_FALSE(held(in_legacy_stream()));
}

TEST_F(CallOrderTest, WhatIsMadeIsWaitedForByThoseWhoNeedIt) {
    const uint64_t load = m_order.overtaken(making({}, k_function));
    EXPECT_TRUE(held(using_object(in_stream(k_first), k_function)));
    EXPECT_TRUE(held(in_stream(k_first))) << "behind the launch";
    EXPECT_FALSE(held(in_stream(k_second)));
    EXPECT_EQ(m_order.ended(load), (std::vector{m_works[0]}));
}

TEST_F(CallOrderTest, TwoLaunchesOfOneFunctionDoNotDependOnOneAnother) {
    m_order.overtaken(using_object(in_stream(k_first), k_function));
    EXPECT_FALSE(held(using_object(in_stream(k_second), k_function)));
    EXPECT_TRUE(held(making({}, k_function))) << "an attribute is set once the launch is over";
}

TEST_F(CallOrderTest, AnEventIsRecordedAnewOnceItsWaitsHaveBeenQueued) {
    m_order.overtaken(in_stream(k_first));
    EXPECT_TRUE(held(making(in_stream(k_first), k_event)));
    EXPECT_TRUE(held(using_object(in_stream(k_second), k_event)));
    EXPECT_TRUE(held(making(in_stream(k_function), k_event)));
}

TEST_F(CallOrderTest, WhoWaitsForAReplyKeepsNobody) {
    const uint64_t launch = m_order.overtaken(in_stream(k_first));
    Footprint synchronise = in_stream(k_first);
    synchronise.client_waits = true;
    EXPECT_TRUE(held(synchronise));
    Footprint all;
    all.after_all = all.client_waits = true;
    EXPECT_TRUE(held(all));
    EXPECT_FALSE(held(in_stream(k_second)));
    EXPECT_EQ(m_order.ended(launch).size(), 2u);
}

TEST_F(CallOrderTest, AQuestionAboutUnfinishedWorkHasItsAnswer) {
    Footprint question = in_stream(k_first, false);
    question.client_waits = question.only_asks = true;
    EXPECT_FALSE(m_order.is_unfinished(question));
    const uint64_t launch = m_order.overtaken(in_stream(k_first));
    EXPECT_TRUE(m_order.is_unfinished(question));
    Footprint everything;
    everything.before_all = true;
    EXPECT_TRUE(held(everything));
    EXPECT_FALSE(m_order.is_unfinished(question)) << "the barrier may change what the stream is";
    EXPECT_TRUE(held(question));
    m_order.ended(launch);
    EXPECT_FALSE(m_order.is_unfinished(question));
}

TEST_F(CallOrderTest, ABarrierWaitsForAllAndAllForIt) {
    const uint64_t launch = m_order.overtaken(in_stream(k_first));
    Footprint everything;
    everything.before_all = true;
    EXPECT_TRUE(held(everything));
    const uint64_t barrier = m_last;
    EXPECT_TRUE(held(in_stream(k_second)));
    EXPECT_EQ(m_order.ended(launch).size(), 1u);
    EXPECT_EQ(m_order.ended(barrier).size(), 1u);
}

}  // namespace
}  // namespace warpline::server
