// The handler of SIGSEGV. Everything that it calls is a system call or an atomic.
#include "client/managed/faults.h"

#include <linux/futex.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstring>
#include <ctime>

#include "client/managed/program_handler.h"
#include "common/base/sanitizers.h"

namespace warpline::client::faults {

namespace {

struct Watched {
    std::atomic<uint64_t> base{0}, size_bytes{0};
};
std::array<Watched, 1024> g_watched;
std::atomic<size_t> g_watched_count{0};
std::atomic<bool> g_forgotten{false};
std::atomic<PageFault*> g_faults{nullptr};
std::atomic<uint32_t> g_signal{0};
std::atomic<unsigned> g_threads{0};

void futex_wait(std::atomic<uint32_t>& word, uint32_t value, const timespec* timeout) {
    ::syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAIT_PRIVATE, value, timeout, nullptr, 0);
}
void futex_wake(std::atomic<uint32_t>& word) {
    ::syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

/// Where the processor does not say, it is a read: if it was a write, there is another fault.
bool writes(const void* context) {
#if defined(__x86_64__)
    constexpr greg_t k_write = 2;
    return (static_cast<const ucontext_t*>(context)->uc_mcontext.gregs[REG_ERR] & k_write) != 0;
#else
    (void)context;
    return false;
#endif
}

FaultAnswer ask(PageFault& fault) {
    fault.thread = static_cast<pid_t>(::syscall(SYS_gettid));
    PageFault* first = g_faults.load(std::memory_order_relaxed);
    do {
        fault.next = first;
    } while (!g_faults.compare_exchange_weak(first, &fault, std::memory_order_release, std::memory_order_relaxed));
    wake();
    for (;;) {
        const uint32_t answer = fault.answer.load(std::memory_order_acquire);
        if (answer != 0) return static_cast<FaultAnswer>(answer);
        futex_wait(fault.answer, 0, nullptr);
    }
}

/// A look at memory that may be gone, and where it goes on then.
struct Look {
    sigjmp_buf instead;
    uint64_t base = 0, size_bytes = 0;
    sigset_t mask;  // of the thread
};
thread_local constinit Look* volatile t_look __attribute__((tls_model("initial-exec"))) = nullptr;

void handle(int signal, siginfo_t* info, void* context) {
    const int error = errno;
    const auto address = reinterpret_cast<uint64_t>(info->si_addr);
    // Only what the kernel has found at an instruction: a signal that somebody sends has no address.
    const bool is_access = info->si_code == SEGV_ACCERR || info->si_code == SEGV_MAPERR;
    if (Look* const look = t_look; look && is_access && address - look->base < look->size_bytes) {
        // The kernel's part of it, which is all that there is.
        std::memcpy(&look->mask, &static_cast<const ucontext_t*>(context)->uc_sigmask, sizeof(uint64_t));
        siglongjmp(look->instead, 1);
    }
    const bool ours = is_access && is_watched(address);
    PageFault fault;
    fault.address = address;
    fault.writes = writes(context);
    const bool served = ours && ask(fault) == FaultAnswer::again;
    errno = error;
    if (!served) program_handler::pass_on(signal, info, context);
}

/// Where the sanitizer's memcmp would end the program for memory that it has freed, and that can be read all the same.
__attribute__((no_sanitize("address"))) bool is_same_unchecked(const std::byte* a, const std::byte* b, uint64_t size_bytes) {
    for (uint64_t i = 0; i < size_bytes; ++i)
        if (a[i] != b[i]) return false;
    return true;
}

}  // namespace

constinit Bounds g_bounds;

bool is_same(const std::byte* program, const std::byte* other, uint64_t size_bytes) {
    Look look;
    look.base = reinterpret_cast<uint64_t>(program);
    look.size_bytes = size_bytes;
    sigemptyset(&look.mask);
    // The mask is restored only where it has to be: that is a system call.
    if (sigsetjmp(look.instead, 0) != 0) {
        t_look = nullptr;
        ::pthread_sigmask(SIG_SETMASK, &look.mask, nullptr);
        return false;
    }
    t_look = &look;
    std::atomic_signal_fence(std::memory_order_seq_cst);
    const bool same =
        k_has_address_sanitizer ? is_same_unchecked(program, other, size_bytes) : std::memcmp(program, other, size_bytes) == 0;
    std::atomic_signal_fence(std::memory_order_seq_cst);
    t_look = nullptr;
    return same;
}

bool is_among_watched(uint64_t address) {
    if (g_forgotten.load(std::memory_order_acquire)) return false;
    const size_t count = g_watched_count.load(std::memory_order_acquire);
    for (size_t i = 0; i < count && i < g_watched.size(); ++i) {
        const uint64_t base = g_watched[i].base.load(std::memory_order_relaxed);
        if (address - base < g_watched[i].size_bytes.load(std::memory_order_relaxed)) return true;
    }
    return false;
}

void watch(uint64_t base, uint64_t size_bytes) {
    if (size_bytes == 0 || (is_watched(base) && is_watched(base + size_bytes - 1))) return;
    const size_t place = g_watched_count.load(std::memory_order_relaxed);
    if (place == g_watched.size()) return;
    g_watched[place].base.store(base, std::memory_order_relaxed);
    g_watched[place].size_bytes.store(size_bytes, std::memory_order_relaxed);
    g_watched_count.store(place + 1, std::memory_order_release);
    g_bounds.begin.store(std::min(g_bounds.begin.load(std::memory_order_relaxed), base), std::memory_order_release);
    g_bounds.end.store(std::max(g_bounds.end.load(std::memory_order_relaxed), base + size_bytes), std::memory_order_release);
}

void install() {
    const auto is_ours = [](const struct sigaction& one) {
        return (one.sa_flags & SA_SIGINFO) != 0 && one.sa_sigaction == handle;
    };
    struct sigaction now {};
    if (::sigaction(SIGSEGV, nullptr, &now) != 0 || is_ours(now)) return;
    const uint32_t known = program_handler::number();
    struct sigaction ours {};
    ours.sa_sigaction = handle;
    ours.sa_flags = SA_SIGINFO | SA_ONSTACK;
    // Nothing of the program's runs on top of it: natively it would not be interrupted either.
    sigfillset(&ours.sa_mask);
    if (::sigaction(SIGSEGV, &ours, &now) == 0 && !is_ours(now)) program_handler::found(now, known);
}

void recall(Wish wish) {
    PageFault fault;
    fault.wish = wish;
    if (!g_forgotten.load(std::memory_order_acquire)) ask(fault);
}

void bring(uint64_t address, uint64_t size_bytes, bool writes) {
    PageFault fault;
    fault.wish = Wish::bring;
    fault.address = address;
    fault.size_bytes = size_bytes;
    fault.writes = writes;
    if (!g_forgotten.load(std::memory_order_acquire)) ask(fault);
}

// A parent that had nothing to answer may have children that do.
void forget() {
    if (threads() != 0) g_forgotten.store(true, std::memory_order_release);
}

void add_thread() { g_threads.fetch_add(1, std::memory_order_relaxed); }
unsigned threads() { return g_threads.load(std::memory_order_relaxed); }

PageFault* take() { return g_faults.exchange(nullptr, std::memory_order_acquire); }

void answer(PageFault& fault, FaultAnswer answer) {
    // Behind the store the fault may be gone; waking an address that nobody waits at is harmless.
    std::atomic<uint32_t>& word = fault.answer;
    word.store(static_cast<uint32_t>(answer), std::memory_order_release);
    futex_wake(word);
}

void wait(uint32_t& seen, int milliseconds) {
    timespec timeout{milliseconds / 1000, milliseconds % 1000 * 1000000L};
    if (g_signal.load(std::memory_order_acquire) == seen) futex_wait(g_signal, seen, milliseconds < 0 ? nullptr : &timeout);
    seen = g_signal.load(std::memory_order_acquire);
}

void wake() {
    g_signal.fetch_add(1, std::memory_order_release);
    futex_wake(g_signal);
}

}  // namespace warpline::client::faults
