// One thread asks, the others wait for it; nobody holds the mutex meanwhile.
#include "client/nvml/library.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

#include "common/log/log.h"
#include "cuda/abi/visible_devices.h"

namespace warpline::client::nvml {

namespace {

using Clock = std::chrono::steady_clock;
namespace abi = cuda::nvml;

/// What is not older is told again: a program asks for one value after the other, and means the same moment.
constexpr std::chrono::milliseconds k_fresh{250};
/// A server that has not answered is not asked again for so long, or each of hundreds of calls waited for it.
constexpr std::chrono::milliseconds k_rest{1'000};

/// @param before  the one that it takes the place of, if there is one
SnapshotPtr make_snapshot(protocol::ServerStatus status, const SnapshotPtr& before) {
    auto snapshot = std::make_shared<Snapshot>();
    const auto has_answers = [](const protocol::DeviceSheet& device) { return !device.answers.empty(); };
    snapshot->answered = std::any_of(status.sheets.begin(), status.sheets.end(), has_answers);
    snapshot->may_change = !snapshot->answered && (before == nullptr || before->answered);
    for (const protocol::DeviceSheet& device : status.sheets) {
        CUuuid uuid;
        std::memcpy(uuid.bytes, device.uuid.data(), sizeof uuid.bytes);
        snapshot->uuids.push_back(cuda::abi::device_name_of(uuid, device.name));
    }
    snapshot->status = std::move(status);
    snapshot->taken = Clock::now();
    const auto since_1970 = std::chrono::system_clock::now().time_since_epoch();
    snapshot->taken_at_us = static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(since_1970).count());
    return snapshot;
}

/// Whatever the log's level is: NVML's error says only that there is no driver.
void tell(const std::string& why) {
    const std::string line = "warpline: NVML: " + why + "\n";
    (void)!::write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace

Library& Library::instance() noexcept {
    // Never destroyed: calls come after static destructors have run.
    static auto* library = new Library;
    return *library;
}

Library::Library() noexcept : m_state(new State) {
    if (const char* specification = std::getenv("WARPLINE_LOG")) log::configure(specification);
    log::set_process_name("client");
    ::pthread_atfork(&Library::before_fork, &Library::after_fork_in_parent, &Library::after_fork_in_child);
}

void Library::before_fork() noexcept { instance().state().mutex.lock(); }

void Library::after_fork_in_parent() noexcept { instance().state().mutex.unlock(); }

/// Another thread may have been asking, or waiting for its answer: neither is here.
void Library::after_fork_in_child() noexcept {
    State& parents = instance().state();
    auto* own = new (std::nothrow) State;
    if (own != nullptr) {
        own->users = parents.users;
        own->snapshot = parents.snapshot;
        own->told = parents.told;
        instance().m_state.store(own, std::memory_order_release);
    }
    parents.mutex.unlock();
}

int Library::initialise() noexcept {
    try {
        State& state = this->state();
        MutexLock lock(state.mutex);
        while (state.asking) state.changed.wait(state.mutex);
        if (state.users == 0) {
            if (const int found = find_server(state); found != abi::k_success) return found;
        }
        ++state.users;
        return abi::k_success;
    } catch (...) {
        return abi::k_memory;
    }
}

int Library::shut_down() noexcept {
    State& state = this->state();
    MutexLock lock(state.mutex);
    if (state.users == 0) return abi::k_uninitialized;
    if (--state.users > 0) return abi::k_success;
    state.server.reset();
    state.snapshot.reset();
    return abi::k_success;
}

/// Lets `ask()` ask a server while others may come, who wait for the answer. Null, with the reason in `why`.
template <typename Ask>
SnapshotPtr Library::ask_open(State& state, std::string& why, Ask&& ask) {
    const SnapshotPtr before = state.snapshot;
    state.asking = true;
    state.mutex.unlock();
    SnapshotPtr snapshot;
    try {
        if (auto status = ask(); status.ok()) snapshot = make_snapshot(std::move(*status), before);
    } catch (...) {
        why = "out of memory";
    }
    state.mutex.lock();
    state.asking = false;
    state.changed.notify_all();
    return snapshot;
}

/// Asks a server, which is kept.
int Library::find_server(State& state) {
    std::string why;
    std::shared_ptr<const ServerView> server;
    SnapshotPtr snapshot = ask_open(state, why, [&]() -> Result<protocol::ServerStatus> {
        auto opened = ServerView::open(why);
        if (!opened.ok() && why.empty()) why = opened.error().what;
        server = WL_TRY(std::move(opened));
        return server->ask(why);
    });
    if (snapshot == nullptr) {
        if (std::exchange(state.told, why) != why) tell(why);
        return abi::k_driver_not_loaded;
    }
    state.server = std::move(server);
    state.snapshot = std::move(snapshot);
    state.failed_at = {};
    return abi::k_success;
}

int Library::renew(State& state) {
    // A child of fork has its parent's snapshot, and no server: what TLS keeps in memory is not to be trusted there.
    if (state.server == nullptr) {
        const int found = find_server(state);
        if (found != abi::k_success) state.failed_at = Clock::now();
        return found == abi::k_success ? found : abi::k_gpu_is_lost;
    }
    const std::shared_ptr<const ServerView> server = state.server;
    std::string why;
    SnapshotPtr snapshot = ask_open(state, why, [&] { return server->ask(why); });
    if (snapshot == nullptr) {
        state.failed_at = Clock::now();
        WL_LOG(warn, "nvml", "the devices are not known any more: {}", why);
        return abi::k_gpu_is_lost;
    }
    state.snapshot = std::move(snapshot);
    return abi::k_success;
}

int Library::snapshot(Age age, SnapshotPtr& out) noexcept {
    try {
        State& state = this->state();
        MutexLock lock(state.mutex);
        for (;;) {
            if (state.users == 0) return abi::k_uninitialized;
            const auto now = Clock::now();
            const Snapshot& last = *state.snapshot;
            const bool is_fresh = now - last.taken < k_fresh && !last.may_change;
            if (age == Age::any || is_fresh || (age == Age::answered && last.answered)) break;
            if (state.asking) {
                state.changed.wait(state.mutex);
                continue;
            }
            const bool rests = state.failed_at != Clock::time_point{} && now - state.failed_at < k_rest;
            const int renewed = rests ? int{abi::k_gpu_is_lost} : renew(state);
            // What does not change can be told without: it is as if there were no NVML.
            if (renewed != abi::k_success && age == Age::now) return renewed;
            if (state.snapshot != nullptr) break;  // however long it took
        }
        if (state.snapshot == nullptr) return abi::k_uninitialized;
        out = state.snapshot;
        return abi::k_success;
    } catch (...) {
        return abi::k_memory;
    }
}

}  // namespace warpline::client::nvml
