// How much a client's streams have been given that they have not done.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <unordered_map>

#include "common/base/mutex.h"
#include "server/objects/stream_watch.h"

namespace warpline::server {

/// Keeps streams from being given more than a driver takes. Whoever finds a stream's queue full waits in the driver, and there
/// holds up calls of other threads, which may be what the stream waits for (DB-50); here he waits for an event. Also, what
/// fills a queue is not the program's work alone: an event of ours comes behind each copy.
///
class StreamQueues {
public:
    explicit StreamQueues(StreamWatch& watch) : m_watch(watch) {}

    /// A stream by its token. The default ones have the same token in each context, or thread, that has them.
    struct Name {
        uint64_t token = 0;
        uint64_t context = 0;
        uint32_t thread = 0;
        bool operator==(const Name&) const = default;
    };
    /// The marks of a stream that it may not have come to.
    struct Marks {
        Mutex mutex;
        std::deque<StreamWatch::Mark> marks WL_GUARDED_BY(mutex);
    };

    // In order, @thread executor.
    /// A call is about to give the stream something. @return null, or what wait_for_room() is to be told before
    std::shared_ptr<Marks> enter(const Name& name);
    /// To set a mark waits in the driver, too, if the queue is full: not to be called with the order. The stream's context must
    /// be current, and no stream may be captured that it waits for.
    /// @blocks while the stream has been given much that it has not done @thread any
    void wait_for_room(Marks& marks, CUstream stream) WL_EXCLUDES(marks.mutex);

    void stream_ended(uint64_t token);
    /// Everything is forgotten; nothing is lost by that.
    void context_ended();

private:
    struct Hash {
        size_t operator()(const Name& name) const {
            return static_cast<size_t>((name.token ^ name.context << 20 ^ uint64_t{name.thread} << 40) * 0x9E3779B97F4A7C15ull);
        }
    };
    struct Queue {
        uint32_t calls = 0;  // since the last mark
        std::shared_ptr<Marks> marks = std::make_shared<Marks>();
    };

    StreamWatch& m_watch;
    std::unordered_map<Name, Queue, Hash> m_queues;
    Name m_last_name;
    Queue* m_last = nullptr;
};

}  // namespace warpline::server
