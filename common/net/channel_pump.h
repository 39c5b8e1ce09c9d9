// What keeps a connection moving.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "common/base/function_ref.h"
#include "common/base/look_again.h"
#include "common/base/mutex.h"
#include "common/net/channel.h"
#include "common/net/channel_user.h"
#include "common/net/read_gate.h"

namespace warpline::net {

struct PumpOptions {
    std::string name = "wl";                       ///< threads are called <name>-rd and <name>-wr
    std::chrono::milliseconds tick_interval{250};  ///< twice that where processors are scarce
    /// How long a connection that the user ends may take to tell the other side why.
    std::chrono::milliseconds goodbye_timeout{1000};
    bool guests = true;  ///< other threads may read
};

/// How a guest of the reading thread's waits: how long it looks again and again for what comes before it sleeps.
struct Looking {
    std::chrono::microseconds at_most{0};
    bool adapts = true;  ///< seldom, where it finds nothing
    bool yields = true;  ///< lets other threads run in between
};

/// Two threads that move bytes between a channel and a protocol that knows nothing of sockets (docs/threading.md#transport).
class ChannelPump {
public:
    ChannelPump(std::unique_ptr<Channel> channel, std::unique_ptr<ChannelUser> user, PumpOptions options = {});
    /// stop() and join().
    ~ChannelPump();
    ChannelPump(const ChannelPump&) = delete;
    ChannelPump& operator=(const ChannelPump&) = delete;

    /// Starts both threads, with all signals blocked in them.
    /// @errors  io
    Result<void> start();

    /// Writes what is queued, on the calling thread: for callers that will wait for an answer anyway. Leaves it to the writing
    /// thread if there is much, or if it would have to wait for the socket; and to another thread that is writing already.
    void flush();

    /// The calling thread has nothing to do before something comes: it may read that itself, which saves a change of threads.
    /// To be called before what is answered leaves, or the reading thread may be quicker.
    /// @return  false: somebody else does, or there is no connection
    bool begin_reading() WL_EXCLUDES(m_read_mutex);
    /// Reads until `enough()`. What that asks for may also be somebody else's doing, who calls wake_guest() afterwards.
    /// @return  false: the calling thread does not read any more (the connection has ended, or somebody called end_reading())
    bool read_until(FunctionRef<bool()> enough, const Looking& looking = {}) WL_EXCLUDES(m_read_mutex);
    /// The reading thread reads again, unless a guest is in read_until(). @thread any
    void end_reading() WL_EXCLUDES(m_read_mutex);
    /// @thread any @blocks no
    void wake_guest() { m_gate.wake_guest(); }

    /// Ends the connection: both threads end, `ended` is called. Returns at once; any thread.
    void stop();
    /// Waits for both threads. Not from one of them.
    void join() WL_EXCLUDES(m_join_mutex);
    /// Goes on with another channel, after `ended` and join().
    /// @param attach  tells whoever gives the output that there is another channel; if it fails, there is none
    /// @errors        io, and those of `attach`
    /// @thread        one; stop() and flush() may be called by others meanwhile
    Result<void> restart(std::unique_ptr<Channel> channel, FunctionRef<Result<void>()> attach);

    /// Of the threads that stop() and restart() are called by.
    Channel& channel() { return *m_channel; }
    /// True if the user ended the connection: what the peer sent was not acceptable. Of `ended`, and after it.
    bool refused() const { return m_refused; }

private:
    enum class Mode : uint8_t { wait, do_not_wait };

    void read_loop();
    Result<void> read_until_end() WL_EXCLUDES(m_read_mutex);
    Result<void> read_available(FunctionRef<bool()> enough) WL_REQUIRES(m_read_mutex);
    bool is_read_by_caller() const WL_REQUIRES(m_read_mutex) { return m_is_read && m_guest == std::this_thread::get_id(); }
    bool read_as_guest(FunctionRef<bool()> enough) WL_REQUIRES(m_read_mutex);
    bool look(MutexLock& lock, FunctionRef<bool()> enough, const Looking& looking) WL_NO_THREAD_SAFETY_ANALYSIS;
    void finish(const Error& error, std::string explanation);
    void write_loop();
    Result<bool> write_burst(Mode mode) WL_REQUIRES(m_write_mutex);

    std::unique_ptr<Channel> m_channel;  // another one with all of the first three mutexes held, and no thread running
    const std::unique_ptr<ChannelUser> m_user;
    PumpOptions m_options;
    Mutex m_channel_mutex;  // between stop() and restart()
    Mutex m_join_mutex;     // the right to join
    Mutex m_read_mutex;     // who holds it is the channel's reader; before m_write_mutex
    ReadGate m_gate;
    bool m_is_read WL_GUARDED_BY(m_read_mutex) = false;      // the reading thread is there
    std::thread::id m_guest WL_GUARDED_BY(m_read_mutex);     // who reads instead; none: nobody
    bool m_guest_waits WL_GUARDED_BY(m_read_mutex) = false;  // in read_until()
    ConditionVariable m_guest_left;
    LookAgain m_look_again WL_GUARDED_BY(m_read_mutex);
    std::optional<Error> m_guest_failed WL_GUARDED_BY(m_read_mutex);
    uint64_t m_heard_bytes WL_GUARDED_BY(m_read_mutex) = 0;  // off the wire, of which it is known
    std::chrono::steady_clock::time_point m_next_tick WL_GUARDED_BY(m_read_mutex);
    uint64_t m_unsent_bytes WL_GUARDED_BY(m_read_mutex) = 0;  // the channel's bound
    Mutex m_write_mutex;                                      // who holds it is the channel's writer
    std::vector<BytesView> m_views WL_GUARDED_BY(m_write_mutex);
    bool m_unfinished WL_GUARDED_BY(m_write_mutex) = false;  // the channel holds bytes that the socket did not take
    std::atomic<bool> m_stopping{false};
    bool m_refused = false;  // the reader's
    Mutex m_done_mutex;
    ConditionVariable m_done;
    bool m_writer_done WL_GUARDED_BY(m_done_mutex) = false;
    std::thread m_reader;
    std::thread m_writer;
};

}  // namespace warpline::net
