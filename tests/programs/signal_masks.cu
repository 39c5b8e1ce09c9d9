// Programs that block SIGSEGV, or have handlers of their own for it, and use memory that program and device share: what they
// block, install and ask for is as it is without such memory (A7).
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <thread>

#include "check.h"

// Since glibc 2.32; the program is to run where there is an older one, too.
extern "C" int pthread_attr_setsigmask_np(pthread_attr_t*, const sigset_t*) __attribute__((weak));
extern "C" int pthread_attr_getsigmask_np(const pthread_attr_t*, sigset_t*) __attribute__((weak));

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"  // sighold() and its like: programs have them

__global__ void add(int* data, int n, int what) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) data[i] += what;
}

static const int k_few = 100000;  // more than comes back without an access
static int *g_managed, *g_mapped;

static void allocate() {
    CHECK(cudaMallocManaged(&g_managed, k_few * sizeof(int)));
    CHECK(cudaHostAlloc(&g_mapped, k_few * sizeof(int), cudaHostAllocMapped));
    memset(g_managed, 0, k_few * sizeof(int));
    memset(g_mapped, 0, k_few * sizeof(int));
}

// The device has it all, and rests. @returns what is everywhere then
static int use() {
    static int value = 0;
    for (int* data : {g_managed, g_mapped}) add<<<1, 256>>>(data, k_few, 1);
    CHECK(cudaDeviceSynchronize());
    return ++value;
}
static void look(int value) {
    for (int i = k_few - 1; i >= 0; i -= 1024) {
        EXPECT_EQ(g_managed[i], value);
        EXPECT_EQ(g_mapped[i], value);
    }
}

static bool counts(int signal) { return signal != SIGKILL && signal != SIGSTOP && (signal <= SIGSYS || signal >= SIGRTMIN); }
static void expect_same(const sigset_t& got, const sigset_t& wanted) {
    for (int signal = 1; signal <= SIGRTMAX; ++signal)
        if (counts(signal) && sigismember(&got, signal) != sigismember(&wanted, signal)) {
            fprintf(stderr, "signal %d is %sblocked\n", signal, sigismember(&got, signal) ? "" : "not ");
            fail();
        }
}
static sigset_t all_but(int signal) {
    sigset_t set;
    sigfillset(&set);
    if (signal != 0) sigdelset(&set, signal);
    return set;
}
static sigset_t only(int signal) {
    sigset_t set;
    sigemptyset(&set);
    if (signal != 0) sigaddset(&set, signal);
    return set;
}
static void expect_blocked(const sigset_t& wanted) {
    sigset_t got, again;
    EXPECT_EQ(pthread_sigmask(SIG_SETMASK, nullptr, &got), 0);
    EXPECT_EQ(sigprocmask(SIG_BLOCK, nullptr, &again), 0);
    expect_same(got, wanted);
    expect_same(again, wanted);
}

// Of a thread that blocks everything from its start on, in all ways.
static void blocked() {
    const sigset_t all = all_but(0), none = only(0), segv = only(SIGSEGV);
    EXPECT_EQ(pthread_sigmask(SIG_SETMASK, &all, nullptr), 0);
    allocate();
    look(use());
    expect_blocked(all);
    sigset_t before;
    EXPECT_EQ(sigprocmask(SIG_SETMASK, &none, &before), 0);
    expect_same(before, all);
    expect_blocked(none);
    for (const sigset_t& set : {all, all_but(SIGSEGV), segv}) {
        EXPECT_EQ(sigprocmask(SIG_BLOCK, &set, &before), 0);
        expect_same(before, none);
        look(use());
        expect_blocked(set);
        EXPECT_EQ(pthread_sigmask(SIG_UNBLOCK, &set, &before), 0);
        expect_same(before, set);
        expect_blocked(none);
    }
    EXPECT_EQ(sighold(SIGSEGV), 0);
    look(use());
    expect_blocked(segv);
    EXPECT_EQ(sigrelse(SIGSEGV), 0);
    expect_blocked(none);
    // A jump takes the mask along.
    sigjmp_buf back;
    sigset_t set = all;
    EXPECT_EQ(sigprocmask(SIG_SETMASK, &set, nullptr), 0);
    if (sigsetjmp(back, 1) == 0) {
        EXPECT_EQ(sigprocmask(SIG_SETMASK, &none, nullptr), 0);
        siglongjmp(back, 1);
    }
    look(use());
    expect_blocked(all);
}

static void* look_in_thread(void* blocked) {
    expect_blocked(*static_cast<const sigset_t*>(blocked));
    look(g_managed[0]);
    return nullptr;
}

// Threads from before the first such memory, and threads that are made later, which have their maker's mask or one of their own.
static void threads() {
    const sigset_t all = all_but(0), none = only(0);
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&mutex);
    EXPECT_EQ(pthread_sigmask(SIG_SETMASK, &all, nullptr), 0);
    int value = 0;
    const auto early = [&](bool makes_another) {
        pthread_mutex_lock(&mutex);
        pthread_mutex_unlock(&mutex);
        if (makes_another)
            std::thread([&] { expect_blocked(all), look(value); }).join();
        else
            CHECK(cudaDeviceSynchronize());
        expect_blocked(all);
        look(value);
    };
    std::thread first(early, false), second(early, true);
    EXPECT_EQ(pthread_sigmask(SIG_SETMASK, &none, nullptr), 0);
    allocate();
    value = use();
    pthread_mutex_unlock(&mutex);
    first.join();
    second.join();

    EXPECT_EQ(pthread_sigmask(SIG_SETMASK, &all, nullptr), 0);
    value = use();
    std::thread([&] { expect_blocked(all), look(value); }).join();
    EXPECT_EQ(pthread_sigmask(SIG_SETMASK, &none, nullptr), 0);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    if (pthread_attr_setsigmask_np && pthread_attr_getsigmask_np) {
        sigset_t got;
        EXPECT_EQ(pthread_attr_setsigmask_np(&attributes, &all), 0);
        EXPECT_EQ(pthread_attr_getsigmask_np(&attributes, &got), 0);
        expect_same(got, all);
        use();
        pthread_t thread;
        EXPECT_EQ(pthread_create(&thread, &attributes, look_in_thread, const_cast<sigset_t*>(&all)), 0);
        pthread_join(thread, nullptr);
    }
    pthread_attr_destroy(&attributes);
    expect_blocked(none);
}

static volatile int g_value, g_calls;
static void on_signal(int) {
    sigset_t got;
    pthread_sigmask(SIG_SETMASK, nullptr, &got);
    expect_same(got, all_but(0));
    look(g_value);
    g_calls = g_calls + 1;
}

// Handlers that block everything, from before the first such memory and from after, and waits in which they run.
static void handlers() {
    struct sigaction action {}, found {};
    action.sa_handler = on_signal;
    sigfillset(&action.sa_mask);
    EXPECT_EQ(sigaction(SIGUSR1, &action, nullptr), 0);
    allocate();
    g_value = use();
    raise(SIGUSR1);
    EXPECT_EQ(g_calls, 1);
    EXPECT_EQ(sigaction(SIGUSR1, nullptr, &found), 0);
    EXPECT(found.sa_handler == on_signal);
    expect_same(found.sa_mask, all_but(0));
    EXPECT_EQ(sigaction(SIGUSR2, &action, &found), 0);
    EXPECT(found.sa_handler == SIG_DFL);
    expect_same(found.sa_mask, only(0));
    g_value = use();
    raise(SIGUSR2);
    EXPECT_EQ(g_calls, 2);
    expect_blocked(only(0));

    // A signal that is let in by a wait alone.
    const sigset_t usr1 = only(SIGUSR1), but_usr1 = all_but(SIGUSR1);
    for (const bool polls : {false, true}) {
        EXPECT_EQ(sigprocmask(SIG_BLOCK, &usr1, nullptr), 0);
        g_value = use();
        raise(SIGUSR1);
        errno = 0;
        EXPECT_EQ(polls ? ppoll(nullptr, 0, nullptr, &but_usr1) : sigsuspend(&but_usr1), -1);
        EXPECT_EQ(errno, EINTR);
        EXPECT_EQ(g_calls, polls ? 4 : 3);
        expect_blocked(usr1);
    }
}

static sigjmp_buf g_back;
static volatile int g_faults;
static void* volatile g_where;
static sigset_t g_mask;
static void on_fault(int signal, siginfo_t* info, void*) {
    EXPECT_EQ(signal, SIGSEGV);
    g_where = info->si_addr;
    g_faults = g_faults + 1;
    pthread_sigmask(SIG_SETMASK, nullptr, &g_mask);
    if (g_value != 0) look(g_value);  // what the device has comes here, too
    siglongjmp(g_back, 1);
}
static void plain(int) { siglongjmp(g_back, 1); }

// What is no memory: asks the program's handler once, with this blocked.
static void fault(const sigset_t& blocked, bool is_handled = true) {
    const int before = g_faults;
    if (sigsetjmp(g_back, 1) == 0) {
        *reinterpret_cast<volatile int*>(16) = 1;
        EXPECT(!"a store to address 16 went through");
    }
    EXPECT_EQ(g_faults, before + is_handled);
    if (!is_handled) return;
    EXPECT(g_where == reinterpret_cast<void*>(16));
    expect_same(g_mask, blocked);
}

// A handler that comes between a launch and an access is not asked about the access, and is what sigaction() tells.
static void installed() {
    struct sigaction action {}, found {};
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO;
    sigaddset(&action.sa_mask, SIGUSR1);
    allocate();
    int value = use();
    EXPECT_EQ(sigaction(SIGSEGV, &action, &found), 0);
    EXPECT(found.sa_handler == SIG_DFL && (found.sa_flags & SA_SIGINFO) == 0);
    look(value);
    EXPECT_EQ(g_faults, 0);
    sigset_t both = only(SIGSEGV);
    sigaddset(&both, SIGUSR1);
    fault(both);
    EXPECT_EQ(sigaction(SIGSEGV, nullptr, &found), 0);
    EXPECT(found.sa_sigaction == on_fault && (found.sa_flags & SA_SIGINFO) != 0);
    expect_same(found.sa_mask, only(SIGUSR1));
    // The next launch changes nothing, and a handler may come to what the device has.
    g_value = use();
    fault(both);
    g_value = 0;
    expect_blocked(only(0));

    action.sa_flags = SA_SIGINFO | SA_NODEFER;
    EXPECT_EQ(sigaction(SIGSEGV, &action, nullptr), 0);
    value = use();
    fault(only(SIGUSR1));
    look(value);
    action.sa_flags = static_cast<int>(SA_SIGINFO | SA_RESETHAND);
    EXPECT_EQ(sigaction(SIGSEGV, &action, nullptr), 0);
    value = use();
    look(value);
    fault(both);
    EXPECT_EQ(sigaction(SIGSEGV, nullptr, &found), 0);
    EXPECT(found.sa_handler == SIG_DFL);

    EXPECT(signal(SIGSEGV, plain) == SIG_DFL);
    value = use();
    look(value);
    fault(only(0), false);
    EXPECT_EQ(sigaction(SIGSEGV, nullptr, &found), 0);
    EXPECT(found.sa_handler == plain && (found.sa_flags & SA_RESTART) != 0);
    EXPECT(signal(SIGSEGV, SIG_DFL) == plain);
    EXPECT(sigset(SIGSEGV, plain) == SIG_DFL);
    EXPECT(sigset(SIGSEGV, SIG_HOLD) == plain);
    expect_blocked(only(SIGSEGV));
    EXPECT(sigset(SIGSEGV, SIG_DFL) == SIG_HOLD);
    expect_blocked(only(0));
    // Somebody sends it.
    EXPECT_EQ(sigaction(SIGSEGV, &action, nullptr), 0);
    if (sigsetjmp(g_back, 1) == 0) raise(SIGSEGV);
    EXPECT(g_where != reinterpret_cast<void*>(16));
    EXPECT(signal(SIGSEGV, SIG_IGN) == SIG_DFL);
    raise(SIGSEGV);
    look(use());
}

template <typename What>
static void expect_end(What what, int wanted_signal) {
    const pid_t child = fork();
    if (child == 0) {
        const rlimit none{};
        setrlimit(RLIMIT_CORE, &none);
        what();
        _exit(0);
    }
    int status = -1;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(WIFSIGNALED(status) ? WTERMSIG(status) : 0, wanted_signal);
}
static void leave(int) { _exit(3); }
static void fails_again(int) { *reinterpret_cast<volatile int*>(16) = 1; }

// What ends a process ends it still. (In children, which have no memory of the device's.)
static void ends() {
    allocate();
    look(use());
    const auto store = [] { *reinterpret_cast<volatile int*>(16) = 1; };
    const sigset_t segv = only(SIGSEGV);
    expect_end([] {}, 0);
    expect_end(store, SIGSEGV);
    expect_end([&] { signal(SIGSEGV, leave), sigprocmask(SIG_BLOCK, &segv, nullptr), store(); }, SIGSEGV);
    expect_end([&] { signal(SIGSEGV, SIG_IGN), store(); }, SIGSEGV);
    expect_end([&] { signal(SIGSEGV, fails_again), store(); }, SIGSEGV);
    expect_end([] { raise(SIGSEGV); }, SIGSEGV);
    expect_end([] { signal(SIGSEGV, SIG_IGN), raise(SIGSEGV); }, 0);
    expect_end([] { signal(SIGSEGV, leave), signal(SIGSEGV, SIG_DFL), kill(getpid(), SIGSEGV), pause(); }, SIGSEGV);
    expect_end(
        [&] {
            struct sigaction action {};
            action.sa_handler = fails_again;
            action.sa_flags = static_cast<int>(SA_RESETHAND | SA_NODEFER);
            sigaction(SIGSEGV, &action, nullptr), store();
        },
        SIGSEGV);
    look(use());
}

int main(int argc, char** argv) {
    const std::string what = argc > 1 ? argv[1] : "";
    signal(SIGSEGV, SIG_DFL);  // a sanitizer's handler, say
    if (what == "blocked")
        blocked();
    else if (what == "threads")
        threads();
    else if (what == "handlers")
        handlers();
    else if (what == "installed")
        installed();
    else if (what == "ends")
        ends();
    else
        return 2;
    return passed(what.c_str());
}
