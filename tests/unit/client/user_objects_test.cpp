// Tests of references to the program's objects, as graphs hold them.
#include "client/state/user_objects.h"

#include <gtest/gtest.h>

#include <thread>

namespace warpline::client {
namespace {

struct Counted {
    std::atomic<int> ended{0};
    UserObjectPtr object;
    explicit Counted(uint32_t references = 1) : object(std::make_shared<UserObject>(references, [this] { ++ended; })) {}
};

TEST(UserObjectsTest, TheLastReferenceEndsIt) {
    Counted counted(2);
    counted.object->retain(1);
    EXPECT_FALSE(counted.object->release(4));
    EXPECT_TRUE(counted.object->release(2));
    EXPECT_EQ(counted.ended, 0);
    EXPECT_TRUE(counted.object->release(1));
    EXPECT_EQ(counted.ended, 1);
}

TEST(UserObjectsTest, GraphsAndTheirCopiesCountForThemselves) {
    Counted counted(3);
    UserReferences graph;
    EXPECT_TRUE(graph.empty());
    graph.add(counted.object, 3);
    EXPECT_FALSE(graph.remove(counted.object, 4));
    EXPECT_TRUE(graph.remove(counted.object, 1));
    auto copy = graph.clone();
    graph.clear();
    EXPECT_TRUE(graph.empty());
    EXPECT_EQ(counted.ended, 0);
    EXPECT_TRUE(copy->remove(counted.object, 1));
    copy = nullptr;
    EXPECT_EQ(counted.ended, 1);
}

TEST(UserObjectsTest, GraphsInsideAreCopiedExchangedAndEndWithTheirGraph) {
    Counted inside, other;
    auto child = std::make_shared<UserReferences>();
    child->add(inside.object, 1);
    UserReferences parent;
    parent.add_inner(child);
    EXPECT_FALSE(parent.empty());
    auto copy = parent.clone();
    parent.clear();
    EXPECT_TRUE(child->empty());
    EXPECT_EQ(inside.ended, 0);
    auto replacement = std::make_shared<UserReferences>();
    replacement->add(other.object, 1);
    auto changed = copy->clone();
    changed->replace_inner(*child, replacement);
    replacement = nullptr;
    EXPECT_EQ(inside.ended, 0);  // the first copy is as it was
    copy = nullptr;
    EXPECT_EQ(inside.ended, 1);
    EXPECT_EQ(other.ended, 0);
    auto again = std::make_shared<UserReferences>();
    changed->replace_inner(*child, again);
    EXPECT_EQ(other.ended, 1);
    EXPECT_TRUE(changed->empty());
}

TEST(UserObjectsTest, ThreadsGiveThemUpOnce) {
    constexpr int k_threads = 4, k_each = 500;
    Counted counted(k_threads * k_each);
    std::vector<std::thread> threads;
    for (int i = 0; i < k_threads; ++i) {
        threads.emplace_back([&] {
            for (int k = 0; k < k_each; ++k) {
                UserReferences mine;
                mine.add(counted.object, 1);
                auto copy = mine.clone();
            }
        });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(counted.ended, 1);
}

}  // namespace
}  // namespace warpline::client
