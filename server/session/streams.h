#pragma once

#include <cstdint>
#include <map>
#include <utility>

#include "common/base/mutex.h"
#include "server/driver/driver.h"

namespace warpline::server {

/// The streams that stand for the client's per-thread default streams: one for each thread and context that used its own.
///
/// @thread  any
class Streams {
public:
    static constexpr size_t k_max_thread_streams = 4096;

    explicit Streams(const Driver& driver) : m_driver(driver) {}

    /// The stream of a client's thread in a context, which must be current. Made at its first use. @errors the driver's
    CUresult of_thread(uint32_t thread, uint64_t context, CUstream& stream);
    /// True if it has been made: what was never used is idle.
    bool exists(uint32_t thread, uint64_t context);

    /// The client's thread has ended: its streams are destroyed once they are idle (cuStreamDestroy does not wait).
    void thread_ended(uint32_t thread);
    /// The context has gone, and its streams with it.
    void context_ended(uint64_t context);

private:
    const Driver& m_driver;
    Mutex m_mutex;
    std::map<std::pair<uint32_t, uint64_t>, CUstream> m_streams WL_GUARDED_BY(m_mutex);
};

}  // namespace warpline::server
