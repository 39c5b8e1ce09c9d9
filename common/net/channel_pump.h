#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "common/base/mutex.h"
#include "common/net/tls.h"

namespace warpline::net {

/// What a ChannelPump moves bytes between, besides the channel. Each is called by one thread at a time.
struct PumpHandlers {
    // The reading thread's:
    std::function<MutableBytesView()> space;             ///< where the next bytes shall go; never empty
    std::function<Result<void>(size_t count)> received;  ///< that many are there; an error ends the connection
    std::function<Result<void>()> tick;                  ///< called every tick_interval; an error ends the connection

    // The writing side's (the writing thread, or a thread in flush()):
    std::function<bool()> wait_for_output;  ///< blocks; false: no more output, ever
    std::function<bool(std::vector<BytesView>& views)>
        take_output;  ///< appends views, valid until output_sent; false: nothing there
    std::function<void()> output_sent;

    /// The connection is over: called exactly once, by the reading thread, as its last act before it ends. Must make
    /// wait_for_output return false.
    std::function<void(const Error& error, const std::string& explanation)> ended;
};

struct PumpOptions {
    std::string name = "wl";  ///< threads are called <name>-rd and <name>-wr
    std::chrono::milliseconds tick_interval{250};
    size_t flush_limit_bytes = 64 * 1024;  ///< flush() leaves more than this to the writing thread
};

/// Two threads that move bytes between a channel and a protocol that knows nothing of sockets (docs/threading.md).
class ChannelPump {
public:
    ChannelPump(std::unique_ptr<TlsChannel> channel, PumpHandlers handlers, PumpOptions options = {});
    /// stop() and join.
    ~ChannelPump();
    ChannelPump(const ChannelPump&) = delete;
    ChannelPump& operator=(const ChannelPump&) = delete;

    /// Starts both threads, with all signals blocked in them.
    /// @errors  io
    Result<void> start();

    /// Writes what is queued, on the calling thread, unless another one is writing (then that one takes it along) or it would
    /// have to wait for the socket (then the writing thread finishes it). For callers that will wait for an answer anyway.
    void flush();

    /// Ends the connection: both threads end, `ended` is called. Returns at once; any thread.
    void stop();
    /// Waits for both threads. Not from one of them.
    void join();

    TlsChannel& channel() { return *m_channel; }

private:
    void read_loop();
    void write_loop();
    Result<void> write_once();

    std::unique_ptr<TlsChannel> m_channel;
    PumpHandlers m_handlers;
    PumpOptions m_options;
    Mutex m_write_mutex;  // who holds it is the writer
    std::vector<BytesView> m_views WL_GUARDED_BY(m_write_mutex);
    std::atomic<bool> m_kick{false};  // flush() met another writer: look again
    std::atomic<bool> m_stopping{false};
    std::thread m_reader;
    std::thread m_writer;
};

}  // namespace warpline::net
