// Which of several servers is tried, and in what order (B5).
#include "client/pool/candidates.h"

#include <gtest/gtest.h>

namespace warpline::client {
namespace {

size_t first_of(size_t) { return 0; }
size_t last_of(size_t bound) { return bound - 1; }

protocol::ServerStatus with(uint32_t sessions, uint32_t most = 64, bool draining = false) {
    protocol::ServerStatus status;
    status.sessions = sessions;
    status.max_sessions = most;
    status.draining = draining;
    return status;
}

std::vector<size_t> order_of(Candidates candidates) {
    std::vector<size_t> order;
    while (const auto best = candidates.best()) {
        order.push_back(*best);
        candidates.drop(*best);
    }
    return order;
}

using Order = std::vector<size_t>;

TEST(Candidates, FewestSessionsFirst_B5) {
    Candidates candidates(Policy::least_connections, 0, first_of);
    candidates.add(0, 1, with(5), 1);
    candidates.add(1, 1, with(2), 1);
    candidates.add(2, 9, with(9), 1);
    EXPECT_EQ(order_of(candidates), (Order{1, 0, 2})) << "weights are another policy's";
}

TEST(Candidates, TiesGoToTheNearestAndThenToChance_B5) {
    Candidates near(Policy::least_connections, 0, last_of);
    near.add(0, 1, with(1), 80);
    near.add(1, 1, with(1), 10);
    near.add(2, 1, with(3), 0.1);
    EXPECT_EQ(order_of(near), (Order{1, 0, 2}));
    for (const auto& [random, expected] : {std::pair{&first_of, 0u}, {&last_of, 2u}}) {
        Candidates equal(Policy::least_connections, 0, random);
        equal.add(2, 1, with(0), 0.9);
        equal.add(0, 1, with(0), 0.4);
        equal.add(1, 1, with(0), 0.2);
        EXPECT_EQ(equal.best(), expected) << "a millisecond is no distance";
    }
}

TEST(Candidates, WeightsAreShares_B5) {
    Candidates candidates(Policy::weighted, 0, first_of);
    Order chosen(2);
    candidates.add(0, 3, with(0), 1);
    candidates.add(1, 1, with(0), 1);
    for (int program = 0; program < 40; ++program) {
        const size_t best = *candidates.best();
        candidates.update(best, with(static_cast<uint32_t>(++chosen[best])));
    }
    EXPECT_EQ(chosen, (Order{30, 10}));
}

TEST(Candidates, RanksComeBeforePolicies_C4) {
    for (const Policy policy :
         {Policy::least_connections, Policy::weighted, Policy::round_robin, Policy::gpu_utilisation, Policy::in_order}) {
        Candidates candidates(policy, 0, first_of);
        candidates.add(0, 1, with(0), 1, 1);
        candidates.add(1, 1, with(9), 1, 0);
        candidates.add(2, 1, with(5), 1, 2);
        EXPECT_EQ(order_of(candidates), (Order{1, 0, 2})) << "policy " << static_cast<int>(policy);
    }
    Candidates candidates(Policy::least_connections, 0, first_of);
    candidates.add(0, 1, with(0), 1, 1);
    candidates.add(1, 1, with(9), 1, 0);
    EXPECT_GT(candidates.claim_below(1, true), 1000u) << "those of the next rank are no better choice";
}

TEST(Candidates, TakeTurnsInTheOrderOfTheList_B5) {
    for (uint64_t turn = 0; turn < 6; ++turn) {
        Candidates candidates(Policy::round_robin, turn, first_of);
        candidates.add(2, 1, with(0), 1);
        candidates.add(0, 1, with(9), 5);
        candidates.add(1, 1, with(3), 9);
        EXPECT_EQ(candidates.best(), turn % 3);
    }
}

TEST(Candidates, InOrderIsTheUsersOrder_B5) {
    Candidates candidates(Policy::in_order, 5, last_of);
    candidates.add(2, 1, with(0), 1);
    candidates.add(0, 1, with(60), 99);
    EXPECT_EQ(order_of(candidates), (Order{0, 2}));
}

TEST(Candidates, FullAndDrainingOnesArePassedOver_C4) {
    Candidates candidates(Policy::least_connections, 0, first_of);
    candidates.add(0, 1, with(2, 2), 1);
    candidates.add(1, 1, with(0, 64, true), 1);
    EXPECT_EQ(candidates.best(), std::nullopt);
    candidates.add(2, 1, with(63), 1);
    EXPECT_EQ(candidates.best(), 2u);
    candidates.update(2, with(64));
    EXPECT_EQ(candidates.best(), std::nullopt);
    EXPECT_NE(Candidates::why_not(with(2, 2)).find("full: 2 of 2"), std::string::npos);
    EXPECT_NE(Candidates::why_not(with(0, 64, true)).find("drained"), std::string::npos);
    EXPECT_EQ(Candidates::why_not(with(1, 2)), "");
}

TEST(Candidates, AreChosenAnewWhenOthersWereFaster_B5) {
    Candidates candidates(Policy::least_connections, 0, first_of);
    candidates.add(0, 1, with(0), 1);
    EXPECT_GT(candidates.claim_below(0, true), 1000u) << "there is no other";
    EXPECT_EQ(candidates.claim_below(0, false), 1u) << "another one may answer";
    candidates.add(1, 1, with(2), 1);
    EXPECT_EQ(candidates.best(), 0u);
    EXPECT_EQ(candidates.claim_below(0, true), 3u);
    candidates.update(0, with(4));
    EXPECT_EQ(candidates.best(), 1u);
    EXPECT_EQ(candidates.claim_below(1, true), 5u);
}

// Many programs that begin at once, each with what it was told at the start and since: whatever the order of their questions.
TEST(Candidates, ProgramsThatBeginAtOnceSpread_B5) {
    constexpr size_t k_servers = 3, k_programs = 30;
    for (unsigned seed = 1; seed <= 200; ++seed) {
        uint64_t state = seed;
        const auto random = [&](size_t bound) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            return static_cast<size_t>(state >> 33) % bound;
        };
        std::vector<uint32_t> sessions(k_servers);
        std::vector<Candidates> waiting;
        for (size_t i = 0; i < k_programs; ++i) {
            waiting.emplace_back(Policy::least_connections, 0, random);
            for (size_t server = 0; server < k_servers; ++server) waiting.back().add(server, 1, with(0), 1);
        }
        size_t questions = 0;
        while (!waiting.empty()) {
            const size_t who = random(waiting.size());
            const size_t best = *waiting[who].best();
            ++questions;
            if (sessions[best] < waiting[who].claim_below(best, true)) {
                ++sessions[best];
                waiting.erase(waiting.begin() + static_cast<std::ptrdiff_t>(who));
            } else {
                waiting[who].update(best, with(sessions[best]));
            }
        }
        for (uint32_t count : sessions) EXPECT_NEAR(count, 10, 2) << "seed " << seed;
        EXPECT_LT(questions, 20 * k_programs);
    }
}

/// A server whose devices are so busy, in percent (below 0: not known), with so many bytes free.
protocol::ServerStatus busy(uint32_t sessions, std::vector<std::pair<int, uint64_t>> devices) {
    protocol::ServerStatus status = with(sessions);
    for (const auto& [percent, free_bytes] : devices) {
        protocol::DeviceLoad load{std::nullopt, 1000, free_bytes};
        if (percent >= 0) load.utilisation_percent = static_cast<uint32_t>(percent);
        status.devices.push_back(load);
    }
    return status;
}

TEST(Candidates, TheLeastUtilisedGpuFirst_C4) {
    Candidates candidates(Policy::gpu_utilisation, 0, first_of);
    candidates.add(0, 1, busy(0, {{90, 1000}}), 0.1);
    candidates.add(1, 1, busy(9, {{100, 0}, {10, 100}}), 50);
    candidates.add(2, 1, busy(3, {{40, 1000}, {-1, 1000}}), 1);
    EXPECT_EQ(order_of(candidates), (Order{1, 2, 0})) << "of each server its idlest one counts";
}

TEST(Candidates, OfIdleGpusTheOneWithTheMostFreeMemory_C4) {
    Candidates candidates(Policy::gpu_utilisation, 0, first_of);
    candidates.add(0, 1, busy(0, {{0, 300}}), 1);
    candidates.add(1, 1, busy(5, {{5, 900}}), 1);
    candidates.add(2, 1, busy(0, {{6, 1000}}), 1);
    EXPECT_EQ(order_of(candidates), (Order{1, 0, 2})) << "five percent are no difference, six are";
}

TEST(Candidates, OfEqualGpusFewestSessionsThenTheNearest_C4) {
    Candidates candidates(Policy::gpu_utilisation, 0, first_of);
    candidates.add(0, 1, busy(2, {{0, 1000}}), 0.1);
    candidates.add(1, 1, busy(1, {{1, 990}}), 80);
    candidates.add(2, 1, busy(1, {{2, 900}}), 10);
    EXPECT_EQ(order_of(candidates), (Order{2, 1, 0}));
    EXPECT_EQ(candidates.claim_below(2, true), 2u) << "programs that begin at once spread over those that are equal";
    candidates.add(3, 1, busy(0, {{50, 1000}}), 0.1);
    EXPECT_EQ(candidates.claim_below(2, true), 2u) << "one that is busier is no better choice";
}

TEST(Candidates, WhoseLoadIsNotKnownComesLastBySessions_C4) {
    Candidates candidates(Policy::gpu_utilisation, 0, first_of);
    candidates.add(0, 1, with(4), 1);
    candidates.add(1, 1, busy(1, {{-1, 1000}}), 1);
    candidates.add(2, 1, busy(60, {{100, 0}}), 1);
    EXPECT_EQ(order_of(candidates), (Order{2, 1, 0}));
    Candidates unknown(Policy::gpu_utilisation, 0, first_of);
    unknown.add(0, 1, with(4), 1);
    unknown.add(1, 1, with(1), 1);
    EXPECT_EQ(order_of(unknown), (Order{1, 0}));
    EXPECT_EQ(unknown.claim_below(1, true), 5u);
}

TEST(Policy, IsReadAsUsersWriteIt_B5) {
    EXPECT_EQ(policy_of("weighted"), Policy::weighted);
    EXPECT_EQ(policy_of("gpu_utilisation"), Policy::gpu_utilisation);
    EXPECT_EQ(policy_of("best"), std::nullopt);
}

}  // namespace
}  // namespace warpline::client
