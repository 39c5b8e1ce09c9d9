// What kernels and drivers print, on its way to the client.
#pragma once

#include <poll.h>

#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "common/base/bytes.h"
#include "common/base/mutex.h"
#include "common/base/result.h"
#include "server/control/driver_text.h"
#include "server/session/output.h"

namespace warpline::server {

/// Catches what the driver writes to standard output (device printf) and to standard error (a failed device assert, the
/// software GPU's reports) and hands it on. The driver shares this process's stdout and stderr, so a worker's own ones are
/// pipes from its start.
class OutputCapture final : public Output {
public:
    /// One pipe. Both ends belong to the process, not to the capture.
    struct Source {
        int fd = -1;       ///< the reading end, non-blocking
        int stream = 1;    ///< 1: stdout, 2: stderr
        int copy_fd = -1;  ///< where the text goes as well; -1: nowhere
    };
    using Sink = std::function<void(int stream, BytesView)>;

    /// Makes standard output a pipe. Once per process, before the driver is loaded. @return the reading end @errors io
    static Result<int> redirect_stdout();

    /// Reads from the pipes from now on. What a copied one holds already is not the session's: it is copied only.
    OutputCapture(std::vector<Source> sources, Sink sink);
    ~OutputCapture() override;

    /// Hands on everything that has been written so far: afterwards the sink has seen it. @blocks as the sink does @thread any
    void drain() override WL_EXCLUDES(m_mutex);

private:
    void thread_main();
    /// Hands on one piece. @return false: nothing is there
    bool hand_on(size_t source) WL_REQUIRES(m_mutex);

    const std::vector<Source> m_sources;
    const Sink m_sink;
    int m_stop_fd;
    Mutex m_mutex;                                               // one reader of a pipe at a time, so that the order is kept
    std::vector<DriverText> m_log_texts WL_GUARDED_BY(m_mutex);  // of each source
    std::vector<pollfd> m_asked WL_GUARDED_BY(m_mutex);          // drain()'s
    std::thread m_thread;
};

}  // namespace warpline::server
