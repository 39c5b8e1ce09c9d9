// Hashing what is about to be sent, so that the server can say what it has.
#pragma once

#include <atomic>
#include <thread>

#include "client/state/devices.h"
#include "common/base/mutex.h"
#include "protocol/codec/outbox.h"

namespace warpline::client {

/// The thread that hashes chunks of long payloads while others are on their way (docs/upload-cache.md). Which ones, the outbox
/// says. It is started by the first long payload.
class UploadHashes {
public:
    explicit UploadHashes(protocol::Outbox& outbox) : m_outbox(outbox) {}
    ~UploadHashes() { join(); }

    /// The server keeps uploads. @thread the one that connects
    void begin(const UploadInfo& info);
    /// A long payload comes. @thread any @blocks no
    void expect() WL_EXCLUDES(m_mutex);
    /// Waits for the thread, which ends when the outbox is closed.
    void join() WL_EXCLUDES(m_mutex);

    /// How many of the process's threads are surely ours. @thread any
    unsigned threads() const { return m_runs.load(std::memory_order_relaxed) ? 1 : 0; }

private:
    void run();

    protocol::Outbox& m_outbox;
    UploadInfo m_info;                  // set before m_is_due is
    std::atomic<bool> m_is_due{false};  // released by begin(), acquired by expect()
    std::atomic<bool> m_runs{false};
    Mutex m_mutex;
    std::thread m_thread WL_GUARDED_BY(m_mutex);
};

}  // namespace warpline::client
