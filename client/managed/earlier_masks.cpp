// Finding threads with SIGSEGV blocked, and handlers that would run with it.
#include "client/managed/earlier_masks.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

#include "client/managed/held_signals.h"
#include "client/managed/signal_actions.h"
#include "client/managed/signal_mask.h"

namespace warpline::client::earlier_masks {

namespace {

std::array<std::atomic<pid_t>, 1024> g_threads;
std::atomic<size_t> g_count{0};

pid_t own_thread() { return static_cast<pid_t>(::syscall(SYS_gettid)); }

std::atomic<pid_t>* find(pid_t thread) {
    if (g_count.load(std::memory_order_acquire) == 0) return nullptr;
    for (std::atomic<pid_t>& one : g_threads)
        if (one.load(std::memory_order_relaxed) == thread) return &one;
    return nullptr;
}

void add(pid_t thread) {
    if (find(thread)) return;
    for (std::atomic<pid_t>& one : g_threads) {
        pid_t free = 0;
        if (!one.compare_exchange_strong(free, thread)) continue;
        g_count.fetch_add(1, std::memory_order_release);
        return;
    }
}

/// @param from_before  what is the note may have been blocked as what it is
void settle_mask(bool from_before) {
    sigset_t mask;
    if (::pthread_sigmask(SIG_SETMASK, nullptr, &mask) != 0) return;
    const bool blocked = signal_mask::has(mask, SIGSEGV);
    if (!blocked && !(from_before && signal_mask::has(mask, signal_mask::k_note))) return;
    mask = signal_mask::to_thread(mask);
    ::pthread_sigmask(SIG_SETMASK, &mask, nullptr);
}

/// Of a thread of the program's: ours touch none of the program's memory.
bool blocks(uint64_t any_of, const std::string& status) {
    constexpr char k_ours[] = "Name:\twl-", k_blocked[] = "SigBlk:\t";
    const size_t at = status.find(k_blocked);
    if (status.starts_with(k_ours) || at == std::string::npos) return false;
    return (std::strtoull(status.c_str() + at + sizeof k_blocked - 1, nullptr, 16) & any_of) != 0;
}

std::string read_status(const char* thread) {
    std::string text(4096, '\0');
    const int file = ::open(("/proc/self/task/" + std::string(thread) + "/status").c_str(), O_RDONLY | O_CLOEXEC);
    const ssize_t size = file < 0 ? 0 : ::read(file, text.data(), text.size());
    if (file >= 0) ::close(file);
    text.resize(size < 0 ? 0 : static_cast<size_t>(size));
    return text;
}

void look_at_threads(bool first) {
    const std::unique_ptr<DIR, decltype([](DIR* open) { ::closedir(open); })> folder(::opendir("/proc/self/task"));
    const pid_t own = own_thread();
    // Later on what looks like the note is one.
    const uint64_t any_of = signal_mask::bit_of(SIGSEGV) | (first ? signal_mask::bit_of(signal_mask::k_note) : 0);
    for (const dirent* entry = nullptr; folder && (entry = ::readdir(folder.get()));) {
        const auto thread = static_cast<pid_t>(std::atoi(entry->d_name));
        if (thread > 0 && thread != own && blocks(any_of, read_status(entry->d_name))) add(thread);
    }
}

bool same(const struct sigaction& a, const struct sigaction& b) {
    return a.sa_sigaction == b.sa_sigaction && a.sa_flags == b.sa_flags &&
           std::memcmp(&a.sa_mask, &b.sa_mask, sizeof(uint64_t)) == 0;
}

/// Handlers that the program has installed itself: with SIGSEGV in their mask, or so that they would run amid calls.
void look_at_handlers(bool first) {
    for (int signal = 1; signal < NSIG; ++signal) {
        if (signal == SIGSEGV || signal == SIGKILL || signal == SIGSTOP) continue;
        struct sigaction now {
        }, was{};
        if (::sigaction(signal, nullptr, &now) != 0) continue;
        // Whoever installs another one meanwhile is not undone.
        for (int i = 0; i < 3; ++i) {
            const bool foreign_note = first && signal_mask::has(now.sa_mask, signal_mask::k_note);
            struct sigaction noted = now;
            noted.sa_mask = signal_mask::to_thread(now.sa_mask);
            const auto of_program = signal_actions::Action::of(noted);
            const bool becomes_ours = held_signals::make_ours(signal, noted);
            if (!signal_mask::has(now.sa_mask, SIGSEGV) && !foreign_note && !becomes_ours) break;
            if (becomes_ours) signal_actions::of(signal).exchange(of_program);
            if (::sigaction(signal, &noted, &was) != 0 || same(was, now)) break;
            now = was;
        }
    }
}

}  // namespace

void look() {
    const int error = errno;
    static std::atomic<bool> looked{false};
    const bool first = !looked.exchange(true);
    look_at_threads(first);
    look_at_handlers(first);
    settle_mask(first);
    errno = error;
}

void settle() {
    std::atomic<pid_t>* const found = g_count.load(std::memory_order_acquire) == 0 ? nullptr : find(own_thread());
    if (!found) return;
    settle_mask(true);
    found->store(0, std::memory_order_relaxed);
    g_count.fetch_sub(1, std::memory_order_release);
}

bool is_from_before() { return g_count.load(std::memory_order_acquire) != 0 && find(own_thread()) != nullptr; }

}  // namespace warpline::client::earlier_masks
