// Atomics in a file that processes map.
#include "softgpu/driver/share/usage_board.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "common/log/log.h"

namespace warpline::softgpu::driver {

namespace {

constexpr size_t k_processes = 256;
/// Seven whole buckets and what has passed of the present one: about a second.
constexpr uint64_t k_window_buckets = 8;

uint64_t now_us() {
    const auto now = std::chrono::steady_clock::now().time_since_epoch();  // the same for all processes of the machine
    return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(now).count());
}

/// When a process has begun, so that another one of its number is not taken for it. 0: there is none.
uint64_t start_of(uint32_t pid) {
    const std::string path = "/proc/" + std::to_string(pid) + "/stat";
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) return 0;
    char text[1024] = {};
    const ssize_t length = ::read(fd, text, sizeof text - 1);
    ::close(fd);
    const char* place = length > 0 ? std::strrchr(text, ')') : nullptr;
    constexpr int k_fields_before = 20;  // proc(5): starttime is the 22nd, and two end with the name
    for (int field = 0; place != nullptr && field < k_fields_before; ++field) place = std::strchr(place + 1, ' ');
    return place != nullptr ? std::strtoull(place, nullptr, 10) : 0;
}

std::string board_path() {
    const char* named = std::getenv("SOFTGPU_USAGE_FILE");
    if (named != nullptr && *named != 0) return named;
    return "/dev/shm/softgpu-" + std::to_string(::geteuid()) + "-usage-1";
}

}  // namespace

struct UsageBoard::Entry {
    std::atomic<uint64_t> owner;  ///< pid; 0: nobody
    std::atomic<uint64_t> start;  ///< of start_of()
    DeviceUsage devices[k_devices];

    bool lives() const {
        const uint64_t pid = owner.load(std::memory_order_acquire);
        return pid != 0 && start_of(static_cast<uint32_t>(pid)) == start.load(std::memory_order_acquire);
    }
};

struct UsageBoard::File {
    Entry entries[k_processes];
};

void BusyMeter::begin(uint64_t now) {
    if (running.load(std::memory_order_relaxed) == 0) since_us.store(now, std::memory_order_relaxed);
    running.fetch_add(1, std::memory_order_relaxed);
}

void BusyMeter::end(uint64_t now) {
    const uint64_t since = since_us.load(std::memory_order_relaxed);
    if (running.fetch_sub(1, std::memory_order_relaxed) == 1) add(since, now);
}

void BusyMeter::add(uint64_t from_us, uint64_t to_us) {
    const uint64_t last = to_us / k_bucket_us;
    uint64_t number = std::max(from_us / k_bucket_us, last - std::min<uint64_t>(last, k_buckets - 1));
    for (; number <= last; ++number) {
        const uint64_t begin = std::max(from_us, number * k_bucket_us), end = std::min(to_us, (number + 1) * k_bucket_us);
        if (end <= begin) continue;
        auto& bucket = buckets[number % k_buckets];
        uint64_t before = bucket.load(std::memory_order_relaxed), after = 0;
        do {
            const uint64_t busy = before >> 32 == (number & 0xffffffff) ? before & 0xffffffff : 0;
            after = (number & 0xffffffff) << 32 | (busy + end - begin);
        } while (!bucket.compare_exchange_weak(before, after, std::memory_order_relaxed));
    }
}

uint64_t BusyMeter::busy_us(uint64_t now, uint64_t& window_us) const {
    const uint64_t last = now / k_bucket_us, first = last - std::min(last, k_window_buckets - 1);
    window_us = std::max<uint64_t>(now - first * k_bucket_us, 1);
    uint64_t busy = 0;
    for (const auto& bucket : buckets) {
        const uint64_t value = bucket.load(std::memory_order_relaxed), age = (last - (value >> 32)) & 0xffffffff;
        if (age < k_window_buckets) busy += std::min(value & 0xffffffff, k_bucket_us);
    }
    if (running.load(std::memory_order_relaxed) > 0) {
        const uint64_t since = std::max(since_us.load(std::memory_order_relaxed), first * k_bucket_us);
        if (since < now) busy += now - since;
    }
    return std::min(busy, window_us);
}

UsageBoard& UsageBoard::instance() {
    static auto* board = new UsageBoard;  // leaked on purpose: work ends after static destructors
    return *board;
}

UsageBoard::UsageBoard() {
    const std::string path = board_path();
    const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    struct stat status {};
    // Of this user, and of nobody else who put it there first.
    const bool own = fd >= 0 && ::fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_uid == ::geteuid();
    // It only ever grows: who has mapped it keeps what it has.
    const bool large = own && (status.st_size >= static_cast<off_t>(sizeof(File)) || ::ftruncate(fd, sizeof(File)) == 0);
    if (large) {
        void* mapped = ::mmap(nullptr, sizeof(File), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (mapped != MAP_FAILED) m_file = static_cast<File*>(mapped);
    }
    if (fd >= 0) ::close(fd);
    if (m_file == nullptr) WL_LOG(info, "softgpu", "{} cannot be shared: nobody sees how busy the software GPU is", path);
}

/// Takes a place that nobody has, or whose owner has ended.
void UsageBoard::claim() {
    const auto pid = static_cast<uint64_t>(::getpid());
    const uint64_t start = start_of(static_cast<uint32_t>(pid));
    for (Entry& entry : m_file->entries) {
        uint64_t before = entry.owner.load();
        if (before != pid && entry.lives()) continue;  // what this process was before execve(2) has no more use for it
        if (!entry.owner.compare_exchange_strong(before, pid)) continue;
        for (DeviceUsage& device : entry.devices) std::memset(static_cast<void*>(&device), 0, sizeof device);
        entry.start.store(start, std::memory_order_release);
        m_mine = &entry;
        return;
    }
    WL_LOG(info, "softgpu", "more than {} processes use the software GPU: nobody sees how busy this one is", k_processes);
}

DeviceUsage* UsageBoard::mine(uint32_t slot) {
    if (m_file == nullptr || slot >= k_devices) return nullptr;
    if (!m_claimed.exchange(true)) claim();
    return m_mine != nullptr ? &m_mine->devices[slot] : nullptr;
}

bool UsageBoard::read(uint32_t slot, Reading& out) const {
    if (m_file == nullptr || slot >= k_devices) return false;
    out = {};
    const uint64_t now = now_us();
    uint64_t kernels_us = 0, copies_us = 0, window_us = 1;
    for (const Entry& entry : m_file->entries) {
        const DeviceUsage& usage = entry.devices[slot];
        if (entry.owner.load(std::memory_order_acquire) == 0 || !entry.lives()) continue;
        const uint64_t used = usage.used_bytes.load(std::memory_order_relaxed);
        kernels_us += usage.kernels.busy_us(now, window_us);
        copies_us += usage.copies.busy_us(now, window_us);
        out.used_bytes += used;
        if (used > 0) out.processes.push_back({static_cast<uint32_t>(entry.owner.load()), used});
    }
    out.kernel_percent = static_cast<uint32_t>(std::min<uint64_t>(kernels_us * 100 / window_us, 100));
    out.copy_percent = static_cast<uint32_t>(std::min<uint64_t>(copies_us * 100 / window_us, 100));
    return true;
}

BusyScope::BusyScope(BusyMeter* meter) : m_meter(meter) {
    if (m_meter != nullptr) m_meter->begin(now_us());
}

BusyScope::~BusyScope() {
    if (m_meter != nullptr) m_meter->end(now_us());
}

}  // namespace warpline::softgpu::driver
