// Who is woken when something has changed.
#include "common/base/wait_list.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace warpline {
namespace {

/// A count that threads wait for.
class Count {
public:
    /// @return how often a thread went through its loop: looked at what it waits for itself
    int wait_for(int wanted) {
        const auto waiting = std::this_thread::get_id();
        int looks = 0;
        MutexLock lock(m_mutex);
        m_list.wait(m_mutex, [&]() WL_NO_THREAD_SAFETY_ANALYSIS {
            if (std::this_thread::get_id() == waiting) ++looks;
            return m_count >= wanted;
        });
        return looks;
    }
    /// @return false if a millisecond passed before it was so
    bool wait_shortly_for(int wanted) {
        MutexLock lock(m_mutex);
        return m_list.wait_until(
            m_mutex, [&]() WL_NO_THREAD_SAFETY_ANALYSIS { return m_count >= wanted; },
            std::chrono::steady_clock::now() + std::chrono::milliseconds(1));
    }
    void raise() {
        MutexLock lock(m_mutex);
        ++m_count;
        m_list.tell();
    }
    bool nobody_waits() {
        MutexLock lock(m_mutex);
        return m_list.empty();
    }

private:
    Mutex m_mutex;
    WaitList m_list WL_GUARDED_BY(m_mutex);
    int m_count WL_GUARDED_BY(m_mutex) = 0;
};

TEST(WaitList, DoesNotWaitForWhatIsSo) {
    Count count;
    EXPECT_EQ(count.wait_for(0), 1);
    EXPECT_TRUE(count.nobody_waits());
}

TEST(WaitList, WakesWhoseWaitIsOverAndNobodyElse_B3) {
    constexpr int k_most = 200;
    Count count;
    int looks = 0, early_looks = 0;
    std::thread late([&] { looks = count.wait_for(k_most); });
    while (count.nobody_waits()) std::this_thread::yield();
    for (int i = 0; i < k_most - 1; ++i) count.raise();
    std::thread early([&] { early_looks = count.wait_for(k_most - 1); });
    early.join();
    EXPECT_EQ(early_looks, 1) << "it is so already";
    EXPECT_FALSE(count.nobody_waits());
    count.raise();
    late.join();
    EXPECT_EQ(looks, 2) << "before it slept, and when its wait was over";
    EXPECT_TRUE(count.nobody_waits());
}

TEST(WaitList, WaitsUntilAMomentAtMost_B7) {
    Count count;
    EXPECT_FALSE(count.wait_shortly_for(1));
    EXPECT_TRUE(count.nobody_waits());
    count.raise();
    EXPECT_TRUE(count.wait_shortly_for(1));
}

TEST(WaitList, ManyThreadsWaitEachForItsOwn_B3) {
    Count count;
    std::vector<std::thread> threads;
    for (int i = 1; i <= 8; ++i) threads.emplace_back([&count, i] { EXPECT_LE(count.wait_for(i * 100), 2); });
    for (int i = 0; i < 800; ++i) count.raise();
    for (std::thread& thread : threads) thread.join();
    EXPECT_TRUE(count.nobody_waits());
}

}  // namespace
}  // namespace warpline
