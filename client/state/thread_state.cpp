// Making and ending what each thread has, and adding up what they counted.
#include "client/state/thread_state.h"

#include <pthread.h>

#include <algorithm>

namespace warpline::client {

namespace {

struct Threads {
    Mutex mutex;  // protects the list and the sums of ended threads
    std::vector<ThreadState*> alive WL_GUARDED_BY(mutex);
    std::array<uint64_t, k_class_count> ended WL_GUARDED_BY(mutex){};
    uint32_t next_number WL_GUARDED_BY(mutex) = 1;
    std::atomic<void (*)(ThreadState&)> end_handler{nullptr};
    pthread_key_t key{};
};

void end_thread(void* pointer);

Threads& threads() {
    // Never destroyed: calls come after the end of main.
    static Threads* instance = [] {
        auto* made = new Threads;
        ::pthread_key_create(&made->key, end_thread);
        return made;
    }();
    return *instance;
}

// A plain pointer, so that reading it needs no guard; the key's destructor ends what it points at.
thread_local ThreadState* t_state = nullptr;

void end_thread(void* pointer) {
    auto* state = static_cast<ThreadState*>(pointer);
    Threads& all = threads();
    if (auto* handler = all.end_handler.load()) handler(*state);
    {
        MutexLock lock(all.mutex);
        for (size_t i = 0; i < k_class_count; ++i) all.ended[i] += state->calls[i].load(std::memory_order_relaxed);
        all.alive.erase(std::remove(all.alive.begin(), all.alive.end(), state), all.alive.end());
    }
    t_state = nullptr;
    delete state;
}

ThreadState* make_thread() {
    Threads& all = threads();
    auto* state = new ThreadState;
    {
        MutexLock lock(all.mutex);
        state->number = all.next_number++;
        all.alive.push_back(state);
    }
    ::pthread_setspecific(all.key, state);
    t_state = state;
    return state;
}

}  // namespace

ThreadState& this_thread() { return t_state ? *t_state : *make_thread(); }

std::array<uint64_t, k_class_count> calls_by_class() {
    Threads& all = threads();
    MutexLock lock(all.mutex);
    std::array<uint64_t, k_class_count> sums = all.ended;
    for (const ThreadState* state : all.alive) {
        for (size_t i = 0; i < k_class_count; ++i) sums[i] += state->calls[i].load(std::memory_order_relaxed);
    }
    return sums;
}

void set_thread_end_handler(void (*handler)(ThreadState&)) { threads().end_handler.store(handler); }

void forget_threads_after_fork() {
    threads().end_handler.store(nullptr);
    if (t_state) t_state->contexts.clear();
}

}  // namespace warpline::client
