// The one trace of the process, and each thread's part in it.
#include "client/trace/trace.h"

#include <pthread.h>

#include <vector>

#include "client/trace/recorder.h"

namespace warpline::client::trace {

std::atomic<bool> g_on{false};

namespace {

// Never deleted while threads may note something: calls come until the process is gone.
std::atomic<Recorder*> g_recorder{nullptr};

thread_local Ring* t_ring = nullptr;
thread_local Recorder* t_recorder = nullptr;  // whose ring that is
thread_local CallScope* t_call = nullptr;
thread_local bool t_ended = false;  // what comes after the thread's end is not noted

/// Recorders that are finished stay: a thread may be about to note something.
void keep(Recorder* finished) {
    static auto* const kept = new std::vector<Recorder*>;
    kept->push_back(finished);
}

/// A key whose destructor tells the recorder that the thread has ended.
pthread_key_t thread_key() {
    static const pthread_key_t key = [] {
        pthread_key_t made{};
        ::pthread_key_create(&made, [](void* ring) {
            t_ring = nullptr;
            t_recorder = nullptr;
            t_ended = true;
            static_cast<Ring*>(ring)->ended.store(true, std::memory_order_release);
        });
        return made;
    }();
    return key;
}

Ring* ring_of_this_thread(Recorder& recorder) {
    if (t_recorder != &recorder && !t_ended) {
        t_ring = recorder.add_ring();
        t_recorder = &recorder;
        if (t_ring != nullptr) ::pthread_setspecific(thread_key(), t_ring);
    }
    return t_ring;
}

}  // namespace

bool start(const std::string& path, uint64_t limit_bytes, std::string& problem) {
    static_cast<void>(thread_key());
    auto recorder = Recorder::open(path, limit_bytes, problem);
    if (!recorder) return false;
    g_recorder.store(recorder.release());
    g_on.store(true);
    return true;
}

void describe(const std::string& server, const std::string& address) {
    if (Recorder* const recorder = g_recorder.load()) recorder->describe(server, address);
}

void finish() noexcept {
    Recorder* const recorder = g_recorder.exchange(nullptr);
    if (recorder == nullptr) return;
    g_on.store(false);
    try {
        keep(recorder);
        recorder->finish();
    } catch (...) {
        return;
    }
}

void forget_after_fork() noexcept {
    g_on.store(false);
    if (const auto recorder = g_recorder.exchange(nullptr)) recorder->close_in_child();
    if (t_ring != nullptr) ::pthread_setspecific(thread_key(), nullptr);
    t_ring = nullptr;
    t_recorder = nullptr;
    t_call = nullptr;
}

unsigned threads() { return g_recorder.load() != nullptr ? 1 : 0; }

void note(Event event) noexcept {
    Recorder* const recorder = g_recorder.load(std::memory_order_acquire);
    if (recorder == nullptr || !is_on()) return;
    try {
        Ring* const ring = ring_of_this_thread(*recorder);
        if (ring == nullptr) return;
        if (event.track == 0) event.track = ring->track();
        recorder->note(*ring, event);
    } catch (...) {
        return;  // no memory for it
    }
}

void note_dropped(uint64_t calls) noexcept {
    if (Recorder* const recorder = g_recorder.load()) recorder->note_dropped(calls);
}

void note_number(uint64_t number) noexcept {
    CallScope* const call = t_call;
    if (call == nullptr) return;
    if (call->m_count == 0) call->m_first = number;
    // Numbers that other threads took in between count as this call's: so it is one number less for each event.
    call->m_count = static_cast<uint32_t>(number - call->m_first + 1);
}

void note_answer(uint64_t number) noexcept {
    if (t_call != nullptr && t_call->m_count == 0) t_call->m_first = number;
}

void CallScope::begin(const char* name) noexcept {
    m_name = name;
    m_first = 0;
    m_count = 0;
    m_around = t_call;
    t_call = this;
    m_begin_ns = now_ns();
}

void CallScope::end() noexcept {
    t_call = m_around;
    Event event;
    event.kind = EventKind::call;
    event.name = m_name;
    event.begin_ns = m_begin_ns;
    event.end_ns = now_ns();
    event.first = m_first;
    event.count = m_count;
    event.result = m_result;
    note(event);
}

}  // namespace warpline::client::trace
