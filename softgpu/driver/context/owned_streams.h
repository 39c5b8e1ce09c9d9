// The streams of a context.
#pragma once

#include <memory>
#include <vector>

#include "common/base/mutex.h"
#include "softgpu/driver/context/scheduler.h"

namespace warpline::softgpu::driver {

class Stream;

/// Streams whose owner's end is theirs, and what all of them wait for. Thread-safe.
class OwnedStreams {
public:
    /// Its work begins behind what the others wait for.
    void add(const std::shared_ptr<Stream>& stream) WL_EXCLUDES(m_mutex);
    /// All work that they are given from now on waits for a fence, also that of streams that are not there yet.
    void hold_until(const FencePtr& fence) WL_EXCLUDES(m_mutex);
    /// Those that somebody still has.
    std::vector<std::shared_ptr<Stream>> all() const WL_EXCLUDES(m_mutex);
    /// The same, and they are its no more.
    std::vector<std::shared_ptr<Stream>> give_up() WL_EXCLUDES(m_mutex);

private:
    mutable Mutex m_mutex;
    std::vector<std::weak_ptr<Stream>> m_streams WL_GUARDED_BY(m_mutex);
    std::vector<FencePtr> m_awaited WL_GUARDED_BY(m_mutex);  // what new ones begin with
};

}  // namespace warpline::softgpu::driver
