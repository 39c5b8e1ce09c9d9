// Tests of queues and of the threads that execute work.
#include "softgpu/driver/context/scheduler.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <thread>

namespace warpline::softgpu::driver {
namespace {

class SchedulerTest : public testing::Test {
protected:
    QueuePtr queue(QueueKind kind, int priority = 0) { return m_scheduler.create_queue(m_group, kind, priority); }

    Scheduler& m_scheduler = Scheduler::instance();
    std::shared_ptr<QueueGroup> m_group = std::make_shared<QueueGroup>();
};

/// Work that does not end before it is allowed to.
class Gate {
public:
    std::function<void()> work() {
        return [future = m_future] { future.wait(); };
    }
    void open() { m_promise.set_value(); }

private:
    std::promise<void> m_promise;
    std::shared_future<void> m_future = m_promise.get_future().share();
};

TEST_F(SchedulerTest, QueueKeepsItsOrder) {
    QueuePtr q = queue(QueueKind::non_blocking);
    std::vector<int> order;
    FencePtr last;
    for (int i = 0; i < 1000; ++i) last = m_scheduler.submit(q, [&order, i] { order.push_back(i); });
    last->wait();
    ASSERT_EQ(order.size(), 1000u);
    for (int i = 0; i < 1000; ++i) EXPECT_EQ(order[static_cast<size_t>(i)], i);
}

TEST_F(SchedulerTest, QueuesDoNotWaitForEachOther) {
    Gate gate;
    QueuePtr a = queue(QueueKind::blocking), b = queue(QueueKind::blocking);
    FencePtr held = m_scheduler.submit(a, gate.work());
    m_scheduler.submit(b, [] {})->wait();
    EXPECT_FALSE(held->done());
    gate.open();
    held->wait();
}

TEST_F(SchedulerTest, ManyBlockedQueuesLeaveRoomForOneMore) {
    Gate gate;
    std::vector<FencePtr> held;
    for (int i = 0; i < 40; ++i) held.push_back(m_scheduler.submit(queue(QueueKind::non_blocking), gate.work()));
    m_scheduler.submit(queue(QueueKind::non_blocking), [] {})->wait();
    gate.open();
    for (const FencePtr& fence : held) fence->wait();
}

TEST_F(SchedulerTest, WorkWaitsForFencesOfOtherQueues) {
    Gate gate;
    std::atomic<int> step{0};
    QueuePtr a = queue(QueueKind::non_blocking), b = queue(QueueKind::non_blocking);
    std::vector<FencePtr> after = {m_scheduler.submit(a, [&, work = gate.work()] {
        work();
        step = 1;
    })};
    int seen = -1;
    FencePtr end = m_scheduler.submit(
        b, [&] { seen = step; }, after);
    EXPECT_FALSE(end->done());
    gate.open();
    end->wait();
    EXPECT_EQ(seen, 1);
}

TEST_F(SchedulerTest, LegacyWaitsForBlockingAndBlockingForLegacy) {
    Gate first, second;
    QueuePtr legacy = queue(QueueKind::legacy), blocking = queue(QueueKind::blocking), other = queue(QueueKind::blocking);
    QueuePtr free = queue(QueueKind::non_blocking);
    FencePtr a = m_scheduler.submit(blocking, first.work());
    FencePtr b = m_scheduler.submit(legacy, second.work());
    FencePtr c = m_scheduler.submit(other, [] {});
    m_scheduler.submit(free, [] {})->wait();  // takes no part
    EXPECT_FALSE(a->done());
    EXPECT_FALSE(b->done());
    EXPECT_FALSE(c->done());
    first.open();
    a->wait();
    EXPECT_FALSE(c->done());
    second.open();
    c->wait();
    EXPECT_TRUE(b->done());
}

TEST_F(SchedulerTest, LegacyQueuesOfOtherScopesTakeNoPart) {
    Gate gate;
    constexpr uint64_t k_green = 7;
    QueuePtr legacy = queue(QueueKind::legacy), blocking = queue(QueueKind::blocking);
    QueuePtr of_green = m_scheduler.create_queue(m_group, QueueKind::legacy, 0, k_green);
    QueuePtr beside = m_scheduler.create_queue(m_group, QueueKind::blocking, 0, k_green);
    FencePtr held = m_scheduler.submit(of_green, gate.work());
    FencePtr behind = m_scheduler.submit(beside, [] {});
    m_scheduler.submit(blocking, [] {})->wait();
    m_scheduler.submit(legacy, [] {})->wait();
    EXPECT_TRUE(m_scheduler.pending(legacy).empty());
    EXPECT_FALSE(behind->done());
    EXPECT_EQ(m_scheduler.pending(*m_group).size(), 2u) << "of all that the context has";
    gate.open();
    behind->wait();
    EXPECT_TRUE(held->done());
}

TEST_F(SchedulerTest, RetiredQueuesCountForTheLegacyOne) {
    Gate gate;
    QueuePtr legacy = queue(QueueKind::legacy), blocking = queue(QueueKind::blocking);
    m_scheduler.submit(blocking, gate.work());
    m_scheduler.retire(blocking);
    FencePtr after = m_scheduler.submit(legacy, [] {});
    EXPECT_FALSE(after->done());
    gate.open();
    after->wait();
}

TEST_F(SchedulerTest, WaitingRunsOnTheCallingThreadWhenNothingIsBefore) {
    QueuePtr q = queue(QueueKind::legacy);
    std::thread::id ran_on;
    m_scheduler.submit_and_wait(q, [&] { ran_on = std::this_thread::get_id(); });
    EXPECT_EQ(ran_on, std::this_thread::get_id());
}

TEST_F(SchedulerTest, WaitingKeepsTheOrderWhenSomethingIsBefore) {
    Gate gate;
    QueuePtr q = queue(QueueKind::blocking);
    std::atomic<bool> first{false};
    m_scheduler.submit(q, [&, work = gate.work()] {
        work();
        first = true;
    });
    std::thread opener([&] { gate.open(); });
    bool seen = false;
    m_scheduler.submit_and_wait(q, [&] { seen = first; });
    opener.join();
    EXPECT_TRUE(seen);
}

TEST_F(SchedulerTest, MarkersEndInOrderWithoutThread) {
    Gate gate;
    QueuePtr q = queue(QueueKind::non_blocking);
    FencePtr held = m_scheduler.submit(q, gate.work());
    FencePtr marker = m_scheduler.submit(q, {});
    EXPECT_FALSE(marker->done());
    gate.open();
    marker->wait();
    EXPECT_TRUE(held->done());
    EXPECT_GE(marker->finished_at(), held->finished_at());
    EXPECT_TRUE(m_scheduler.submit(q, {})->done());
}

TEST_F(SchedulerTest, FreeWorkFollowsItsGraph) {
    std::atomic<int> ended{0};
    std::vector<FencePtr> layer;
    for (int i = 0; i < 8; ++i) layer.push_back(m_scheduler.submit_free([&] { ++ended; }, {}, 0));
    int seen = 0;
    FencePtr join = m_scheduler.submit_free([&] { seen = ended; }, layer, 0);
    std::vector<FencePtr> after = {join};
    FencePtr marker = m_scheduler.submit_free({}, after, 0);
    marker->wait();
    EXPECT_EQ(seen, 8);
}

TEST_F(SchedulerTest, LongChainsOfMarkersDoNotRecurse) {
    Gate gate;
    std::vector<FencePtr> last = {m_scheduler.submit_free(gate.work(), {}, 0)};
    for (int i = 0; i < 200000; ++i) last[0] = m_scheduler.submit_free({}, last, 0);
    gate.open();
    last[0]->wait();
}

TEST_F(SchedulerTest, PendingListsWhatIsNotDone) {
    Gate gate;
    QueuePtr legacy = queue(QueueKind::legacy), blocking = queue(QueueKind::blocking), free = queue(QueueKind::non_blocking);
    m_scheduler.submit(blocking, gate.work());
    m_scheduler.submit(free, gate.work());
    EXPECT_EQ(m_scheduler.pending(legacy).size(), 1u);
    EXPECT_EQ(m_scheduler.pending(blocking).size(), 1u);
    EXPECT_EQ(m_scheduler.pending(*m_group).size(), 2u);
    gate.open();
    for (const FencePtr& fence : m_scheduler.pending(*m_group)) fence->wait();
    EXPECT_TRUE(m_scheduler.pending(*m_group).empty());
}

TEST_F(SchedulerTest, ManyThreadsSubmitAtTheSameTime) {
    std::atomic<int> ran{0};
    QueuePtr shared = queue(QueueKind::blocking), legacy = queue(QueueKind::legacy);
    std::vector<std::thread> threads;
    for (int t = 0; t < 8; ++t) {
        threads.emplace_back([&] {
            QueuePtr own = queue(QueueKind::blocking);
            for (int i = 0; i < 200; ++i) {
                m_scheduler.submit(own, [&] { ++ran; });
                m_scheduler.submit(shared, [&] { ++ran; });
                if (i % 50 == 0) m_scheduler.submit_and_wait(legacy, [&] { ++ran; });
            }
            m_scheduler.submit(own, {})->wait();
        });
    }
    for (std::thread& thread : threads) thread.join();
    for (const FencePtr& fence : m_scheduler.pending(*m_group)) fence->wait();
    EXPECT_EQ(ran, 8 * (200 * 2 + 4));
}

}  // namespace
}  // namespace warpline::softgpu::driver
