// A list that only grows, at its head.
#include "client/state/called.h"

#include <algorithm>

namespace warpline::client {

namespace {

constinit std::atomic<CalledFunction*> g_last{nullptr};

}  // namespace

void note_called(CalledFunction& function, const char* name) noexcept {
    if (function.called.exchange(true)) return;  // another thread was first
    function.name = name;
    function.next = g_last.load(std::memory_order_relaxed);
    while (!g_last.compare_exchange_weak(function.next, &function, std::memory_order_release, std::memory_order_relaxed)) {
    }
}

std::vector<std::string> called_functions() {
    std::vector<std::string> names;
    for (const CalledFunction* one = g_last.load(std::memory_order_acquire); one != nullptr; one = one->next)
        names.emplace_back(one->name);
    std::sort(names.begin(), names.end());
    return names;
}

}  // namespace warpline::client
