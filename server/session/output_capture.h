#pragma once

#include <functional>
#include <memory>
#include <thread>

#include "common/base/bytes.h"
#include "common/base/mutex.h"
#include "common/base/result.h"

namespace warpline::server {

/// Catches what the driver writes to standard output (device printf) and hands it on. The driver shares this process's stdout,
/// so a worker's own stdout is a pipe from its start.
class OutputCapture {
public:
    using Sink = std::function<void(BytesView)>;

    /// Makes standard output a pipe. Once per process, before the driver is loaded. @return the reading end @errors io
    static Result<int> redirect_stdout();

    /// Reads from the pipe from now on. @param pipe_fd the reading end, non-blocking; owned
    OutputCapture(int pipe_fd, Sink sink);
    ~OutputCapture();

    /// Hands on everything that has been written so far: afterwards the sink has seen it. @blocks as the sink does @thread any
    void drain() WL_EXCLUDES(m_mutex);

private:
    void thread_main();

    const int m_pipe_fd;
    const Sink m_sink;
    int m_stop_fd;
    Mutex m_mutex;  // one reader of the pipe at a time, so that the order is kept
    std::thread m_thread;
};

}  // namespace warpline::server
