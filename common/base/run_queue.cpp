// What the kernel says of the threads that want a processor.
#include "common/base/run_queue.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <chrono>

namespace warpline {

namespace {

using Clock = std::chrono::steady_clock;

// To ask takes some 7 µs, from what others could use where processors are scarce.
constexpr std::chrono::milliseconds k_asks_every{4};
constexpr std::chrono::milliseconds k_asks_when_scarce_every{32};

std::optional<unsigned> ask_kernel() {
    const int fd = ::open("/proc/loadavg", O_RDONLY | O_CLOEXEC);
    if (fd < 0) return std::nullopt;
    char text[128];
    const ssize_t length = ::read(fd, text, sizeof text);
    ::close(fd);
    return length > 0 ? running_threads({text, static_cast<size_t>(length)}) : std::nullopt;
}

std::atomic<float> known_mean{0};

RunQueue known_queue() { return RunQueue(processor_count(), known_mean.load()); }

}  // namespace

void RunQueue::add(unsigned running) { m_mean += (static_cast<float>(running) - m_mean) / k_remembers; }

bool RunQueue::is_long() const { return m_mean > static_cast<float>(m_processors) + k_margin; }

bool RunQueue::is_crowded() const { return m_mean > static_cast<float>(k_crowd * m_processors); }

unsigned processor_count() {
    static const auto processors = static_cast<unsigned>(std::max(1l, ::sysconf(_SC_NPROCESSORS_ONLN)));
    return processors;
}

std::optional<unsigned> running_threads(std::string_view loadavg) {
    const size_t slash = loadavg.find('/');
    if (slash == std::string_view::npos) return std::nullopt;
    const size_t space = loadavg.rfind(' ', slash);
    if (space == std::string_view::npos) return std::nullopt;
    unsigned running = 0;
    const auto read = std::from_chars(loadavg.data() + space + 1, loadavg.data() + slash, running);
    if (read.ec != std::errc() || read.ptr != loadavg.data() + slash) return std::nullopt;
    return running;
}

bool processors_were_scarce() { return known_queue().is_long(); }
bool processors_were_crowded() { return known_queue().is_crowded(); }

bool processors_are_scarce() {
    static std::atomic<Clock::rep> asks_next{0};
    RunQueue queue = known_queue();
    const auto now = Clock::now().time_since_epoch();
    Clock::rep next = asks_next.load();
    const Clock::duration pause = queue.is_long() ? k_asks_when_scarce_every : k_asks_every;
    if (now.count() >= next && asks_next.compare_exchange_strong(next, (now + pause).count())) {
        if (const auto running = ask_kernel()) queue.add(*running);
        known_mean.store(queue.mean());
    }
    return queue.is_long();
}

}  // namespace warpline
