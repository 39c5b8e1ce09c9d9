// Tests of the client's objects by token, also from many threads.
#include "client/state/token_table.h"

#include <gtest/gtest.h>

#include <set>
#include <thread>
#include <vector>

namespace warpline::client {
namespace {

struct Thing {
    int value = 0;
};
using Things = TokenTable<Thing, HandleKind::event>;

TEST(TokenTable, finds_what_it_made_and_nothing_else) {
    auto table = std::make_unique<Things>();
    auto made = table->make();
    made.object->value = 7;
    EXPECT_EQ(token_kind(made.token), HandleKind::event);
    EXPECT_GT(made.token, 2u);  // never one of the special streams
    ASSERT_EQ(table->find(made.token), made.object);
    EXPECT_EQ(table->find(made.token)->value, 7);
    EXPECT_EQ(table->find(0), nullptr);
    // Programs keep marks of their own in the last bits of handles, as they can in those of pointers.
    EXPECT_EQ(made.token % 16, 0u);
    EXPECT_EQ(table->make().token % 16, 0u);
    for (uint64_t mark = 1; mark < 16; ++mark) EXPECT_EQ(table->find(made.token + mark), nullptr);
    EXPECT_EQ(table->find(make_token(HandleKind::stream, 1, 0)), nullptr);  // the same place, another kind
    EXPECT_EQ(table->find(make_token(HandleKind::event, 2, 0)), nullptr);   // the same place, another generation
    EXPECT_EQ(table->find(UINT64_MAX), nullptr);
    EXPECT_EQ(table->find(make_token(HandleKind::event, 1, UINT32_MAX)), nullptr);
}

TEST(TokenTable, a_removed_token_is_never_found_again) {
    auto table = std::make_unique<Things>();
    std::set<uint64_t> dead;
    for (int i = 0; i < 1000; ++i) {
        auto made = table->make();
        EXPECT_FALSE(dead.contains(made.token));
        EXPECT_EQ(made.object->value, 0) << "a slot that is used again starts anew";
        made.object->value = i + 1;
        EXPECT_TRUE(table->remove(made.token));
        EXPECT_FALSE(table->remove(made.token));
        EXPECT_EQ(table->find(made.token), nullptr);
        dead.insert(made.token);
    }
    EXPECT_EQ(table->count(), 0u);
    std::set<uint32_t> places;
    for (uint64_t token : dead) places.insert(token_index(token));
    EXPECT_LT(places.size(), 100u) << "places are used again";
}

TEST(TokenTable, visits_what_is_alive) {
    auto table = std::make_unique<Things>();
    std::vector<uint64_t> tokens;
    for (int i = 0; i < 600; ++i) tokens.push_back(table->make().token);
    for (size_t i = 0; i < tokens.size(); i += 2) table->remove(tokens[i]);
    std::set<uint64_t> seen;
    table->for_each([&](uint64_t token, Thing&) { seen.insert(token); });
    EXPECT_EQ(seen.size(), 300u);
    for (size_t i = 1; i < tokens.size(); i += 2) EXPECT_TRUE(seen.contains(tokens[i]));
}

TEST(TokenTable, threads_make_and_find_at_the_same_time) {
    auto table = std::make_unique<Things>();
    std::vector<std::thread> threads;
    std::atomic<int> wrong{0};
    for (int t = 0; t < 4; ++t) {
        threads.emplace_back([&, t] {
            for (int i = 0; i < 2000; ++i) {
                auto made = table->make();
                made.object->value = t * 10000 + i;
                Thing* found = table->find(made.token);
                if (!found || found->value != t * 10000 + i) ++wrong;
                if (i % 3 == 0) table->remove(made.token);
            }
        });
    }
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(wrong.load(), 0);
}

}  // namespace
}  // namespace warpline::client
