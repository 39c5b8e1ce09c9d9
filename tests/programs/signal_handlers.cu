// Handlers of signals that use memory which program and device share, while their thread is in CUDA's calls (A7): they find what
// the device has, nothing hangs, and each runs as often as it should, with what belongs to it.
//   signal_handlers before|behind|values|actions|waits
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <string>
#include <thread>

#include "check.h"

__global__ void bump(int* data) { data[threadIdx.x]++; }
__global__ void wait_for(volatile int* word) {
    while (*word == 0) {
    }
}

static int* g_memory;
static volatile sig_atomic_t g_ticks;
static const int k_counted = 1000;  // the handler's word, which no kernel uses

static void count_there(int) {
    g_ticks = g_ticks + 1;
    g_memory[k_counted]++;
}

static void start_timer(int microseconds) {
    itimerval every{{0, microseconds}, {0, microseconds}};
    EXPECT_EQ(setitimer(ITIMER_REAL, &every, nullptr), 0);
}

static void install(int signal, void (*handler)(int), int flags) {
    struct sigaction action {};
    action.sa_handler = handler;
    action.sa_flags = flags;
    EXPECT_EQ(sigaction(signal, &action, nullptr), 0);
}

// A timer goes off in the middle of calls of all kinds.
static void beside_calls() {
    const int n = 300;
    for (int i = 0; i < n; ++i) {
        bump<<<1, 32>>>(g_memory);
        CHECK(cudaGetLastError());
        if (i % 3 != 0) CHECK(cudaDeviceSynchronize());
    }
    CHECK(cudaDeviceSynchronize());
    start_timer(0);
    CHECK(cudaDeviceSynchronize());
    EXPECT_EQ(g_memory[0], n);
    EXPECT_EQ(g_memory[k_counted], static_cast<int>(g_ticks));
    EXPECT(g_ticks > 0);
}

static void mapped(bool handler_first) {
    CHECK(cudaHostAlloc(&g_memory, 2 * 4096, cudaHostAllocMapped));
    std::memset(g_memory, 0, 2 * 4096);
    if (!handler_first) {
        bump<<<1, 32>>>(g_memory);
        CHECK(cudaDeviceSynchronize());
        g_memory[0] = 0;
    }
    install(SIGALRM, count_there, SA_RESTART);
    start_timer(2000);
    beside_calls();
    CHECK(cudaFreeHost(g_memory));
}

// What is told with a signal arrives with it, as often as it was sent.
static volatile int g_sum;
static void add_value(int, siginfo_t* info, void*) {
    g_sum = g_sum + info->si_value.sival_int;
    g_memory[k_counted] += info->si_value.sival_int;
}

static void call_until(const std::atomic<bool>& done) {
    while (!done.load()) {
        bump<<<1, 32>>>(g_memory);
        CHECK(cudaDeviceSynchronize());
    }
}

static void values() {
    struct sigaction action {};
    action.sa_sigaction = add_value;
    action.sa_flags = SA_SIGINFO;
    EXPECT_EQ(sigaction(SIGRTMIN, &action, nullptr), 0);
    const pthread_t self = pthread_self();
    std::atomic<bool> done{false};
    int sent = 0;
    std::thread sender([&] {
        for (int i = 1; i <= 200; ++i) {
            sigval value{};
            value.sival_int = i;
            while (pthread_sigqueue(self, SIGRTMIN, value) == EAGAIN) sched_yield();
            sent += i;
            usleep(300);  // spreads them over many calls
        }
        done = true;
    });
    call_until(done);
    sender.join();
    EXPECT_EQ(g_sum, sent);
    EXPECT_EQ(g_memory[k_counted], sent);
}

// What is installed is told as it was installed, and SA_RESETHAND is for one signal.
static void actions() {
    struct sigaction told {};
    install(SIGUSR1, count_there, SA_RESETHAND | SA_RESTART);
    EXPECT_EQ(sigaction(SIGUSR1, nullptr, &told), 0);
    EXPECT(told.sa_handler == count_there);
    EXPECT_EQ(told.sa_flags & (SA_SIGINFO | SA_RESTART), SA_RESTART);
    EXPECT((told.sa_flags & SA_RESETHAND) != 0);
    std::atomic<bool> done{false};
    const pthread_t self = pthread_self();
    const int before = g_ticks, counted = g_memory[k_counted];
    std::thread sender([&] {
        EXPECT_EQ(pthread_kill(self, SIGUSR1), 0);
        while (g_ticks == before) sched_yield();
        done = true;
    });
    call_until(done);
    sender.join();
    EXPECT_EQ(g_ticks, before + 1);
    EXPECT_EQ(g_memory[k_counted], counted + 1);
    EXPECT_EQ(sigaction(SIGUSR1, nullptr, &told), 0);
    EXPECT(told.sa_handler == SIG_DFL);
    EXPECT(signal(SIGUSR2, count_there) == SIG_DFL);
    EXPECT(signal(SIGUSR2, SIG_IGN) == count_there);
    EXPECT(signal(SIGUSR2, SIG_DFL) == SIG_IGN);
}

// A handler runs while its thread waits, and ends the wait.
static void release(int) { g_memory[0] = 1; }
static void waits() {
    g_memory[0] = 0;
    install(SIGALRM, release, SA_RESTART);
    itimerval once{{0, 0}, {0, 50000}};
    wait_for<<<1, 1>>>(g_memory);
    CHECK(cudaGetLastError());
    EXPECT_EQ(setitimer(ITIMER_REAL, &once, nullptr), 0);
    CHECK(cudaDeviceSynchronize());
    EXPECT_EQ(g_memory[0], 1);
}

int main(int argc, char** argv) {
    const std::string what = argc > 1 ? argv[1] : "";
    if (what == "before" || what == "behind") {
        mapped(what == "before");
        return passed("handlers beside calls");
    }
    CHECK(cudaHostAlloc(&g_memory, 2 * 4096, cudaHostAllocMapped));
    std::memset(g_memory, 0, 2 * 4096);
    bump<<<1, 32>>>(g_memory);
    CHECK(cudaDeviceSynchronize());
    if (what == "values") values();
    if (what == "actions") actions();
    if (what == "waits") waits();
    CHECK(cudaFreeHost(g_memory));
    return passed("handlers beside calls");
}
