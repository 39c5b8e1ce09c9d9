// How busy the software GPUs of this machine are, for every process of the user to see.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <vector>

namespace warpline::softgpu::driver {

/// When something was under way lately. Written by one process, read by all.
struct BusyMeter {
    static constexpr uint64_t k_bucket_us = 128'000;
    static constexpr size_t k_buckets = 16;

    std::atomic<uint64_t> running;                         ///< of them at the moment
    std::atomic<uint64_t> since_us;                        ///< the first of those has begun
    std::array<std::atomic<uint64_t>, k_buckets> buckets;  ///< number << 32 | microseconds in which there were some

    void begin(uint64_t now_us);
    void end(uint64_t now_us);
    /// Of the time between now and about a second before: in microseconds, at most `window_us`, which is set.
    uint64_t busy_us(uint64_t now_us, uint64_t& window_us) const;

private:
    void add(uint64_t from_us, uint64_t to_us);
};

/// What a process does on one device.
struct DeviceUsage {
    std::atomic<uint64_t> used_bytes;
    BusyMeter kernels, copies;
};

/// A file in /dev/shm, or that SOFTGPU_USAGE_FILE names, which the processes of a user share: each writes what it does on which
/// device of the machine. It stays when they end; what a process that has ended left behind counts for nothing.
class UsageBoard {
public:
    static constexpr size_t k_devices = 16;

    struct Reading {
        struct Process {
            uint32_t pid;
            uint64_t used_bytes;
        };
        std::vector<Process> processes;  ///< those that have memory, or have worked
        uint64_t used_bytes = 0;
        uint32_t kernel_percent = 0, copy_percent = 0;  ///< of about the last second
    };

    /// The process's own, opened at the first call: before it gives up its right to open files. @thread any
    static UsageBoard& instance();

    /// This process's place for a device of the machine. Null: there can be no file, or it is full.
    DeviceUsage* mine(uint32_t slot);
    /// All processes' use of a device. False: there can be no file.
    bool read(uint32_t slot, Reading& out) const;

private:
    struct Entry;
    struct File;
    UsageBoard();
    void claim();

    File* m_file = nullptr;
    Entry* m_mine = nullptr;
    std::atomic<bool> m_claimed{false};
};

/// Notes that something is under way, for a scope. @param meter  null: nobody looks
class BusyScope {
public:
    explicit BusyScope(BusyMeter* meter);
    ~BusyScope();
    BusyScope(const BusyScope&) = delete;
    BusyScope& operator=(const BusyScope&) = delete;

private:
    BusyMeter* const m_meter;
};

}  // namespace warpline::softgpu::driver
