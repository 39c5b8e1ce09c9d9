// Tests of the order in which calls are executed.
#include "server/session/executor.h"

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

namespace warpline::server {

namespace {

/// A number of steps, each a function.
class Steps final : public OrderedWork {
public:
    explicit Steps(std::vector<std::function<void()>> steps) : m_steps(std::move(steps)) {}
    bool step() override {
        if (m_next == m_steps.size()) return false;
        m_steps[m_next++]();
        return true;
    }

private:
    std::vector<std::function<void()>> m_steps;
    size_t m_next = 0;
};

/// Something to wait for, with a bound. To be made before the executor whose threads raise it.
class Flag {
public:
    void raise() {
        std::lock_guard lock(m_mutex);
        m_up = true;
        m_changed.notify_all();
    }
    bool wait() {
        std::unique_lock lock(m_mutex);
        return m_changed.wait_for(lock, std::chrono::seconds(60), [this] { return m_up; });
    }

private:
    std::mutex m_mutex;
    std::condition_variable m_changed;
    bool m_up = false;
};

std::shared_ptr<Steps> one(std::function<void()> step) {
    return std::make_shared<Steps>(std::vector<std::function<void()>>{std::move(step)});
}

TEST(Executor, RunsStepsInOrder) {
    std::vector<int> seen;
    Flag done;
    Executor executor({});
    for (int batch = 0; batch < 100; ++batch) {
        std::vector<std::function<void()>> steps;
        for (int i = 0; i < 10; ++i) steps.push_back([&seen, n = batch * 10 + i] { seen.push_back(n); });
        ASSERT_TRUE(executor.push(std::make_shared<Steps>(std::move(steps))));
    }
    executor.push(one([&] { done.raise(); }));
    ASSERT_TRUE(done.wait());
    ASSERT_EQ(seen.size(), 1000u);
    for (int i = 0; i < 1000; ++i) EXPECT_EQ(seen[static_cast<size_t>(i)], i);
}

TEST(Executor, AWaitingStepLetsTheNextBegin) {
    Flag opened;
    Flag finished;
    bool waited = false;
    Executor executor({});
    std::vector<std::function<void()>> steps;
    steps.push_back([&] {
        executor.release_order();
        waited = opened.wait();
        finished.raise();
    });
    steps.push_back([&] { opened.raise(); });  // in the same batch
    executor.push(std::make_shared<Steps>(std::move(steps)));
    EXPECT_TRUE(finished.wait());
    EXPECT_TRUE(waited);
}

// What a step that was overtaken calls at its end, and a step behind it that ends it.
class Overtaken final : public OrderedWork {
public:
    Overtaken(Executor& executor, Flag& opened, Flag& told) : m_executor(executor), m_opened(opened), m_told(told) {}
    bool step() override {
        if (m_steps++ != 0) return false;
        m_executor.allow_overtaking();
        m_waited = m_opened.wait();
        return true;
    }
    std::function<void()> overtaken() override {
        return [this] {
            if (m_waited) m_told.raise();
        };
    }

private:
    Executor& m_executor;
    Flag& m_opened;
    Flag& m_told;
    std::atomic<int> m_steps{0};
    bool m_waited = false;
};

TEST(Executor, AStepThatSaysSoIsOvertakenWhenItTakesLong) {
    Flag opened;
    Flag told;
    Executor executor({});
    executor.push(std::make_shared<Overtaken>(executor, opened, told));
    executor.push(one([&] { opened.raise(); }));
    EXPECT_TRUE(told.wait());
}

TEST(Executor, AStepThatIsOvertakenDoesNotGiveTheOrderFreeTwice) {
    std::atomic<int> inside{0};
    std::atomic<int> most{0};
    Flag late;
    Flag opened;
    Flag done;
    Executor executor({});
    executor.push(one([&] {
        executor.allow_overtaking();
        opened.wait();
        executor.release_order();  // somebody else's by now
        late.raise();
    }));
    executor.push(one([&] {
        most = std::max(most.load(), ++inside);
        opened.raise();
        late.wait();
        --inside;
    }));
    executor.push(one([&] {
        most = std::max(most.load(), ++inside);
        --inside;
        done.raise();
    }));
    EXPECT_TRUE(done.wait());
    EXPECT_EQ(most.load(), 1);
}

TEST(Executor, WhatIsResumedComesBeforeWhatHasNotBegun) {
    std::vector<int> seen;
    Flag queued;
    Flag done;
    Executor executor({});
    executor.push(one([&] {
        queued.wait();
        executor.resume({one([&] { seen.push_back(1); }), one([&] { seen.push_back(2); })});
    }));
    executor.push(one([&] { seen.push_back(3), done.raise(); }));
    queued.raise();
    EXPECT_TRUE(done.wait());
    EXPECT_EQ(seen, (std::vector<int>{1, 2, 3}));
}

TEST(Executor, ManyStepsMayWaitAtOnceAndOneRunsAtATime) {
    constexpr int k_waiters = 12;
    std::atomic<int> inside{0};
    std::atomic<int> most{0};
    std::atomic<int> ended{0};
    Flag opened;
    Flag done;
    Executor executor({});
    for (int i = 0; i < k_waiters; ++i) {
        executor.push(one([&] {
            most = std::max(most.load(), ++inside);
            --inside;
            executor.release_order();
            executor.release_order();  // once is enough, twice does no harm
            opened.wait();
            if (++ended == k_waiters) done.raise();
        }));
    }
    executor.push(one([&] { opened.raise(); }));
    EXPECT_TRUE(done.wait());
    EXPECT_EQ(most.load(), 1);
}

TEST(Executor, ThreadsAreBoundedAndComeBack) {
    Flag first;
    Flag second;
    Flag done;
    Executor executor({.name = "bounded", .max_threads = 2, .max_queued = 100});
    executor.push(one([&] { executor.release_order(), first.wait(); }));
    executor.push(one([&] { executor.release_order(), second.wait(); }));
    executor.push(one([&] { done.raise(); }));
    first.raise();  // its thread takes the order again
    EXPECT_TRUE(done.wait());
    second.raise();
}

TEST(Executor, TheQueueIsBounded) {
    Flag opened;
    Executor executor({.name = "bounded", .max_threads = 1, .max_queued = 3});
    EXPECT_TRUE(executor.push(one([&] { opened.wait(); })));
    EXPECT_TRUE(executor.push(one([] {})));
    EXPECT_TRUE(executor.push(one([] {})));
    EXPECT_FALSE(executor.push(one([] {})));
    opened.raise();
}

TEST(Executor, StopEndsBetweenSteps) {
    Flag started;
    Flag opened;
    bool ran = false;
    Executor executor({});
    executor.push(one([&] { started.raise(), opened.wait(); }));
    executor.push(one([&] { ran = true; }));
    ASSERT_TRUE(started.wait());
    std::thread stopper([&] { executor.stop(); });
    while (executor.push(one([] {}))) std::this_thread::yield();  // until stop() has begun
    opened.raise();
    stopper.join();
    EXPECT_FALSE(ran);
}

/// Work that comes to whoever reads: one piece at a time, each pushed by the thread that has read it.
class Letters final : public WorkSource {
public:
    bool begin_reading() override {
        std::lock_guard lock(m_mutex);
        if (m_reader != std::thread::id()) return false;
        m_reader = std::this_thread::get_id();
        return true;
    }
    bool read_until(FunctionRef<bool()> enough) override {
        std::unique_lock lock(m_mutex);
        if (m_reader != std::this_thread::get_id()) return false;
        while (!enough()) {
            if (m_letters.empty()) {
                m_changed.wait(lock);
                continue;
            }
            const auto letter = m_letters.front();
            m_letters.pop_front();
            lock.unlock();
            letter();
            lock.lock();
        }
        return true;
    }
    void end_reading() override {
        std::lock_guard lock(m_mutex);
        m_reader = {};
        ++m_ends;
    }
    void wake_reader() override {
        std::lock_guard lock(m_mutex);
        m_changed.notify_all();
    }
    void send(std::function<void()> letter) {
        std::lock_guard lock(m_mutex);
        m_letters.push_back(std::move(letter));
        m_changed.notify_all();
    }
    int ends() {
        std::lock_guard lock(m_mutex);
        return m_ends;
    }

private:
    std::mutex m_mutex;
    std::condition_variable m_changed;
    std::thread::id m_reader;
    std::deque<std::function<void()>> m_letters;
    int m_ends = 0;
};

TEST(Executor, AThreadWithoutWorkReadsItAndDoesIt_B2) {
    Letters source;
    std::vector<std::thread::id> seen;
    Flag done;
    Executor executor({.source = &source});
    executor.push(one([] {}));  // somebody is there now, and reads when this is done
    for (int i = 0; i < 50; ++i) {
        source.send([&, i] {
            const auto reader = std::this_thread::get_id();
            executor.push(one([&, i, reader] {
                EXPECT_EQ(std::this_thread::get_id(), reader);
                seen.push_back(reader);
                if (i == 49) done.raise();
            }));
        });
    }
    ASSERT_TRUE(done.wait());
    EXPECT_EQ(seen.size(), 50u);
    EXPECT_EQ(source.ends(), 0);
}

TEST(Executor, WhoWaitsDoesNotKeepOthersFromReading_B2) {
    Letters source;
    Flag opened;
    Flag done;
    Executor executor({.source = &source});
    executor.push(one([] {}));
    source.send([&] {
        executor.push(one([&] {
            executor.release_order();
            if (opened.wait()) done.raise();
        }));
    });
    // What is pushed meanwhile finds another thread.
    while (source.ends() == 0) std::this_thread::yield();
    executor.push(one([&] { opened.raise(); }));
    EXPECT_TRUE(done.wait());
}

/// Two threads that come for the reading at the same time: one that has begun with its reply, and one that finds it taken.
class Contested final : public WorkSource {
public:
    bool begin_reading() override {
        m_asked.raise();
        m_ended.wait();
        return false;
    }
    bool read_until(FunctionRef<bool()>) override { return false; }
    void end_reading() override {
        if (m_taken) m_ended.raise();
    }
    void wake_reader() override {}
    /// The calling thread reads from now on, while another one asks for it.
    bool take() {
        const bool asked = m_asked.wait();
        m_taken = true;
        return asked;
    }
    bool given_up() { return m_ended.wait(); }

private:
    Flag m_asked;
    Flag m_ended;
    std::atomic<bool> m_taken{false};
};

TEST(Executor, WhoSleepsGivesTheReadingUp_B2) {
    Contested source;
    Executor executor({.source = &source});
    executor.push(one([&] {
        executor.release_order();
        executor.push(one([] {}));  // of another thread, which then asks to read
        EXPECT_TRUE(source.take());
    }));
    EXPECT_TRUE(source.given_up());
}

}  // namespace
}  // namespace warpline::server
