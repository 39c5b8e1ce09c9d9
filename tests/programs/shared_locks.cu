// Locks in memory that kernels use all the time, which threads of the program wait for (A7). Each kind is asked for what it is
// there to do; kernels that write on the same page are launched in between, so that the lock is the device's again and again.
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "check.h"

__global__ void count(long* word) { *word += 1; }

// All on one page.
struct Shared {
    long launches, beside, sum;
    std::mutex mutex;
    std::condition_variable condition;
    pthread_mutex_t of_owner;
    pthread_cond_t by_steady_clock;
    pthread_rwlock_t both;
    pthread_barrier_t barrier;
    sem_t items, room;
    std::atomic<int> turn;
};

static constexpr int k_threads = 4, k_rounds = 60;

static void launch(Shared& shared) {
    count<<<1, 1, 0, cudaStreamPerThread>>>(&shared.launches);
    CHECK(cudaStreamSynchronize(cudaStreamPerThread));
}

// Another one launches all the time, so that the page goes between any two looks at it.
template <typename Body>
static void in_threads(Shared& shared, Body body) {
    std::atomic<bool> is_over{false};
    std::thread launches([&] {
        while (!is_over) {
            count<<<1, 1, 0, cudaStreamPerThread>>>(&shared.beside);
            CHECK(cudaStreamSynchronize(cudaStreamPerThread));
        }
    });
    std::vector<std::thread> threads;
    for (int i = 0; i < k_threads; ++i) threads.emplace_back([=] { body(i); });
    for (std::thread& one : threads) one.join();
    is_over = true;
    launches.join();
}

static timespec from_now(clockid_t clock, long milliseconds) {
    timespec time{};
    clock_gettime(clock, &time);
    time.tv_nsec += milliseconds * 1000000;
    time.tv_sec += time.tv_nsec / 1000000000;
    time.tv_nsec %= 1000000000;
    return time;
}

// Each adds with the lock, behind a kernel that adds as well.
static void mutexes(Shared& shared) {
    in_threads(shared, [&](int) {
        for (int i = 0; i < k_rounds; ++i) {
            const std::lock_guard lock(shared.mutex);
            launch(shared);
            shared.sum += 1;
        }
    });
    EXPECT_EQ(shared.sum, k_threads * k_rounds);
    EXPECT_EQ(shared.launches, k_threads * k_rounds);

    // One that says whose it is, and one that its owner may have twice.
    for (const int type : {PTHREAD_MUTEX_ERRORCHECK, PTHREAD_MUTEX_RECURSIVE}) {
        pthread_mutexattr_t attributes;
        pthread_mutexattr_init(&attributes);
        pthread_mutexattr_settype(&attributes, type);
        EXPECT_EQ(pthread_mutex_init(&shared.of_owner, &attributes), 0);
        EXPECT_EQ(pthread_mutex_lock(&shared.of_owner), 0);
        launch(shared);
        EXPECT_EQ(pthread_mutex_lock(&shared.of_owner), type == PTHREAD_MUTEX_RECURSIVE ? 0 : EDEADLK);
        std::thread([&] {
            EXPECT_EQ(pthread_mutex_unlock(&shared.of_owner), EPERM);
            const timespec soon = from_now(CLOCK_REALTIME, 20), never{0, 1000000000};
            EXPECT_EQ(pthread_mutex_timedlock(&shared.of_owner, &soon), ETIMEDOUT);
            EXPECT_EQ(pthread_mutex_timedlock(&shared.of_owner, &never), EINVAL);
        }).join();
        if (type == PTHREAD_MUTEX_RECURSIVE) EXPECT_EQ(pthread_mutex_unlock(&shared.of_owner), 0);
        EXPECT_EQ(pthread_mutex_unlock(&shared.of_owner), 0);
        EXPECT_EQ(pthread_mutex_destroy(&shared.of_owner), 0);
    }
}

// Threads take turns; the others sleep while the one whose turn it is launches.
static void conditions(Shared& shared, std::mutex& mutex) {
    shared.sum = 0;
    in_threads(shared, [&](int own) {
        for (int i = 0; i < k_rounds; ++i) {
            std::unique_lock lock(mutex);
            shared.condition.wait(lock, [&] { return shared.sum % k_threads == own; });
            launch(shared);
            shared.sum += 1;
            shared.condition.notify_all();
        }
    });
    EXPECT_EQ(shared.sum, k_threads * k_rounds);
}

static void times(Shared& shared) {
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    EXPECT_EQ(pthread_cond_init(&shared.by_steady_clock, &attributes), 0);
    pthread_mutex_t& mutex = *shared.mutex.native_handle();
    launch(shared);
    EXPECT_EQ(pthread_mutex_lock(&mutex), 0);
    // A time of the other clock would be years away.
    const timespec soon = from_now(CLOCK_MONOTONIC, 20), never{0, -1};
    EXPECT_EQ(pthread_cond_timedwait(&shared.by_steady_clock, &mutex, &never), EINVAL);
    int said = 0;
    while (said == 0) said = pthread_cond_timedwait(&shared.by_steady_clock, &mutex, &soon);
    EXPECT_EQ(said, ETIMEDOUT);
    const timespec now = from_now(CLOCK_MONOTONIC, 0);
    EXPECT(now.tv_sec > soon.tv_sec || (now.tv_sec == soon.tv_sec && now.tv_nsec >= soon.tv_nsec));
    EXPECT_EQ(pthread_mutex_trylock(&mutex), EBUSY);
    EXPECT_EQ(pthread_mutex_unlock(&mutex), 0);
    EXPECT_EQ(pthread_cond_destroy(&shared.by_steady_clock), 0);
}

// A thread that is cancelled while it waits has the mutex.
static void cancelled(Shared& shared) {
    shared.sum = 0;
    const auto wait = [](void* argument) -> void* {
        Shared& shared = *static_cast<Shared*>(argument);
        pthread_mutex_lock(&shared.of_owner);
        shared.sum = 1;
        for (;;) pthread_cond_wait(shared.condition.native_handle(), &shared.of_owner);
    };
    EXPECT_EQ(pthread_mutex_init(&shared.of_owner, nullptr), 0);
    pthread_t thread;
    EXPECT_EQ(pthread_create(&thread, nullptr, wait, &shared), 0);
    for (bool waits = false; !waits;) {
        EXPECT_EQ(pthread_mutex_lock(&shared.of_owner), 0);
        waits = shared.sum == 1;
        launch(shared);
        EXPECT_EQ(pthread_mutex_unlock(&shared.of_owner), 0);
    }
    EXPECT_EQ(pthread_cancel(thread), 0);
    void* result = nullptr;
    EXPECT_EQ(pthread_join(thread, &result), 0);
    EXPECT(result == PTHREAD_CANCELED);
    EXPECT_EQ(pthread_mutex_trylock(&shared.of_owner), EBUSY);
    EXPECT_EQ(pthread_mutex_init(&shared.of_owner, nullptr), 0);
    EXPECT_EQ(pthread_mutex_trylock(&shared.of_owner), 0);
    EXPECT_EQ(pthread_mutex_unlock(&shared.of_owner), 0);
}

// A producer and consumers, with room for two.
static void semaphores(Shared& shared) {
    EXPECT_EQ(sem_init(&shared.items, 0, 0), 0);
    EXPECT_EQ(sem_init(&shared.room, 0, 2), 0);
    std::atomic<int> taken{0};
    std::thread producer([&] {
        for (int i = 0; i < k_threads * k_rounds; ++i) {
            EXPECT_EQ(sem_wait(&shared.room), 0);
            launch(shared);
            EXPECT_EQ(sem_post(&shared.items), 0);
        }
    });
    in_threads(shared, [&](int) {
        for (int i = 0; i < k_rounds; ++i) {
            EXPECT_EQ(sem_wait(&shared.items), 0);
            ++taken;
            EXPECT_EQ(sem_post(&shared.room), 0);
        }
    });
    producer.join();
    EXPECT_EQ(taken.load(), k_threads * k_rounds);
    launch(shared);
    const timespec soon = from_now(CLOCK_REALTIME, 20);
    EXPECT_EQ(sem_timedwait(&shared.items, &soon), -1);
    EXPECT_EQ(errno, ETIMEDOUT);
    // A signal ends the wait of who has asked for that.
    struct sigaction action {};
    action.sa_handler = [](int) {};
    sigaction(SIGUSR1, &action, nullptr);
    std::atomic<bool> is_over{false};
    std::thread waits([&] {
        launch(shared);
        EXPECT_EQ(sem_wait(&shared.items), -1);
        EXPECT_EQ(errno, EINTR);
        is_over = true;
    });
    for (; !is_over; usleep(1000)) pthread_kill(waits.native_handle(), SIGUSR1);
    waits.join();
}

static void readers_and_writers(Shared& shared) {
    EXPECT_EQ(pthread_rwlock_init(&shared.both, nullptr), 0);
    shared.sum = 0;
    in_threads(shared, [&](int own) {
        for (int i = 0; i < k_rounds; ++i) {
            if ((i + own) % 3 == 0) {
                EXPECT_EQ(pthread_rwlock_wrlock(&shared.both), 0);
                const long before = shared.sum;
                launch(shared);
                shared.sum = before + 1;
            } else {
                EXPECT_EQ(pthread_rwlock_rdlock(&shared.both), 0);
                const long before = shared.sum;
                if (i % 5 == 0) launch(shared);
                EXPECT_EQ(shared.sum, before);
            }
            EXPECT_EQ(pthread_rwlock_unlock(&shared.both), 0);
        }
    });
    EXPECT_EQ(shared.sum, k_threads * k_rounds / 3);
    EXPECT_EQ(pthread_rwlock_wrlock(&shared.both), 0);
    EXPECT_EQ(pthread_rwlock_rdlock(&shared.both), EDEADLK);
    std::thread([&] {
        const timespec soon = from_now(CLOCK_REALTIME, 20);
        EXPECT_EQ(pthread_rwlock_timedrdlock(&shared.both, &soon), ETIMEDOUT);
    }).join();
    EXPECT_EQ(pthread_rwlock_unlock(&shared.both), 0);
}

// Nobody is ahead of the others by more than a round.
static void barriers(Shared& shared) {
    EXPECT_EQ(pthread_barrier_init(&shared.barrier, nullptr, k_threads), 0);
    std::vector<std::atomic<int>> rounds(k_threads);
    std::atomic<int> serial{0};
    in_threads(shared, [&](int own) {
        for (int i = 0; i < k_rounds; ++i) {
            if ((i + own) % k_threads == 0) launch(shared);
            ++rounds[own];
            const int said = pthread_barrier_wait(&shared.barrier);
            EXPECT(said == 0 || said == PTHREAD_BARRIER_SERIAL_THREAD);
            if (said != 0) ++serial;
            for (const auto& other : rounds) EXPECT(other == i + 1 || other == i + 2);
        }
    });
    EXPECT_EQ(serial.load(), k_rounds);
    EXPECT_EQ(pthread_barrier_destroy(&shared.barrier), 0);
}

// std::atomic::wait() asks the kernel by itself.
static void atomics(Shared& shared) {
    shared.turn = 0;
    in_threads(shared, [&](int own) {
        for (int i = 0; i < k_rounds; ++i) {
            for (int turn = shared.turn; turn % k_threads != own; turn = shared.turn) shared.turn.wait(turn);
            launch(shared);
            ++shared.turn;
            shared.turn.notify_all();
        }
    });
    EXPECT_EQ(shared.turn.load(), k_threads * k_rounds);
}

int main(int, char** argv) {
    const std::string memory = argv[1], what = argv[2];
    void* place = nullptr;
    if (memory == "managed")
        CHECK(cudaMallocManaged(&place, sizeof(Shared)));
    else
        CHECK(cudaHostAlloc(&place, sizeof(Shared), cudaHostAllocMapped));
    Shared& shared = *new (place) Shared{};
    std::mutex own;
    if (what == "mutexes") mutexes(shared);
    if (what == "conditions") conditions(shared, shared.mutex), conditions(shared, own), times(shared), cancelled(shared);
    if (what == "semaphores") semaphores(shared);
    if (what == "readers") readers_and_writers(shared);
    if (what == "barriers") barriers(shared);
    if (what == "atomics") atomics(shared);
    shared.~Shared();
    CHECK(memory == "managed" ? cudaFree(place) : cudaFreeHost(place));
    return passed((memory + " " + what).c_str());
}
