// From the threads that note events to the file.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "client/trace/event.h"
#include "common/base/mutex.h"

namespace warpline::client::trace {

/// The events of one thread on their way to the file: it puts them in, whoever holds the recorder's lock takes them out.
class Ring {
public:
    static constexpr size_t k_events = 1024;

    explicit Ring(uint32_t track) : m_track(track) {}
    uint32_t track() const { return m_track; }

    /// False: it is full. @thread the one whose events these are
    bool put(const Event& event);
    /// True if it is time to take some out.
    bool is_half_full() const;
    /// Calls `take(const Event&)` for each that is there. @thread one at a time
    template <typename F>
    void take_all(F&& take) {
        const uint64_t end = m_put.load(std::memory_order_acquire);  // released in put()
        uint64_t next = m_taken.load(std::memory_order_relaxed);
        for (; next != end; ++next) take(m_events[next % k_events]);
        m_taken.store(end, std::memory_order_release);  // acquired in put()
    }

    std::atomic<bool> ended{false};  ///< its thread has; released by it

private:
    const uint32_t m_track;
    std::atomic<uint64_t> m_put{0}, m_taken{0};
    std::array<Event, k_events> m_events;
};

/// One file, and the thread that writes it. Threads give their events to rings of their own without a lock; that thread empties
/// them four times a second, and when one is half full. A thread that finds its ring full empties it itself: nothing is lost,
/// and memory stays bounded. What has been written is readable, whatever becomes of the process.
class Recorder {
public:
    /// Makes the file. @param path  `%p` stands for the process's number
    static std::unique_ptr<Recorder> open(const std::string& path, uint64_t limit_bytes, std::string& problem);
    ~Recorder();

    /// A ring for the calling thread. Null: no memory.
    Ring* add_ring() WL_EXCLUDES(m_mutex);
    void note(Ring& ring, const Event& event) WL_EXCLUDES(m_mutex);
    void note_dropped(uint64_t calls) { m_dropped.store(calls, std::memory_order_relaxed); }
    void describe(const std::string& server, const std::string& address) WL_EXCLUDES(m_mutex);
    /// Ends the thread, writes what is left and what is known at the end. No thread notes anything any more.
    void finish() WL_EXCLUDES(m_mutex);
    const std::string& path() const { return m_path; }
    /// In the child of a fork, which has the file as well: its lock is the parent's alone.
    void close_in_child() noexcept;

private:
    Recorder(int fd, std::string path, uint64_t limit_bytes);
    void write_loop() WL_EXCLUDES(m_mutex);
    void drain() WL_REQUIRES(m_mutex);
    void drain(Ring& ring) WL_REQUIRES(m_mutex);
    void name_track(const Event& event) WL_REQUIRES(m_mutex);
    void flush() WL_REQUIRES(m_mutex);
    void give_up(const char* why) WL_REQUIRES(m_mutex);
    /// False if the program has closed all descriptors that it does not know, and may have something else there.
    bool is_open() const noexcept;

    const int m_fd;
    const uint64_t m_inode;
    const std::string m_path;
    const uint64_t m_limit_bytes;
    const uint32_t m_pid;
    std::atomic<uint64_t> m_dropped{0};
    std::atomic<bool> m_wanted{false};  // the writing thread was asked to come, and has not begun
    Mutex m_mutex;                      // who holds it takes events out and writes
    ConditionVariable m_wake;
    std::vector<std::unique_ptr<Ring>> m_rings WL_GUARDED_BY(m_mutex);
    std::string m_text WL_GUARDED_BY(m_mutex);  // not written yet
    uint64_t m_written_bytes WL_GUARDED_BY(m_mutex) = 0;
    uint64_t m_worst_error_ns WL_GUARDED_BY(m_mutex) = 0;  // of what is known of the server's clock
    std::set<uint64_t> m_named WL_GUARDED_BY(m_mutex);     // tracks of lanes and of the server
    uint64_t m_left_out WL_GUARDED_BY(m_mutex) = 0;        // events beyond the limit
    bool m_failed WL_GUARDED_BY(m_mutex) = false;
    bool m_ending WL_GUARDED_BY(m_mutex) = false;
    std::thread m_writer;
};

}  // namespace warpline::client::trace
