// Copies to the client that arrive some time after their call.
#pragma once

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <thread>
#include <vector>

#include "common/base/bytes.h"
#include "common/base/mutex.h"
#include "cuda/abi/cuda_types.h"
#include "protocol/codec/out_lane.h"
#include "server/driver/driver.h"
#include "server/objects/staging_memory.h"
#include "server/objects/stream_watch.h"

namespace warpline::server {

class ClientPort;

/// Asynchronous copies to the client's memory: the driver copies into staging memory of ours, and an event behind the copy
/// tells us that it is there, or that it never will be. Small ones leave from the thread that learns it, large ones from a
/// thread of their own.
class AsyncCopies {
public:
    /// What the parts of one copy have in common. Under the copies' mutex.
    struct Parts {
        size_t under_way = 0;
        uint64_t sent_bytes = 0;
    };
    /// One copy. `data` is page-locked, and filled by the driver.
    struct Copy {
        AsyncCopies& owner;
        uint64_t call = 0;
        protocol::Place memory;
        std::byte* data = nullptr;
        uint64_t bytes = 0;
        bool stays = false;        ///< nobody waits for its memory: part of a graph, sent after each launch, or read late
        uint64_t offset = 0;       ///< in what the call copies
        uint64_t total_bytes = 0;  ///< … of which this is a part
        std::shared_ptr<Parts> parts{};
        CUresult failure = CUDA_SUCCESS;  ///< it will not be filled

        bool is_part() const { return parts != nullptr; }  ///< the only one, perhaps
        bool is_last() const { return offset + bytes == total_bytes; }
    };

    AsyncCopies(const Driver& driver, ClientPort& client, StreamWatch& watch, uint64_t max_staging_bytes);
    ~AsyncCopies();

    StagingMemory& staging() { return m_staging; }

    /// Staging for bytes that are copied while the caller waits. Empty: no memory. A context must be current.
    /// @blocks while all of max_staging_bytes that would do are in use by copies that have not left
    protocol::Place take(uint64_t bytes);
    /// Staging for a copy of this call. Null: no memory. A context must be current.
    /// @blocks while all of max_staging_bytes that would do are in use by copies that have not left
    Copy* begin(uint64_t call, uint64_t bytes, bool stays);
    /// The same for the next part of a copy that leaves in parts, while later ones are still being copied. The parts of a call
    /// must be queued in one stream, in their order, and have the same `parts`. @blocks also while many of them have not left
    Copy* begin_part(uint64_t call, std::shared_ptr<Parts> parts, uint64_t offset, uint64_t bytes, uint64_t total_bytes);
    /// To be called after the driver has queued the copy into `copy->data`: lets it be sent when the stream gets there. On
    /// failure the copy is cancelled.
    CUresult finish_in_stream(Copy* copy, CUstream stream);
    /// The same for a copy to the device: the staging memory is free again when the stream gets there.
    CUresult release_in_stream(Copy* copy, CUstream stream);
    CUresult release_in_stream(protocol::Place place, CUstream stream);
    /// The driver refused the copy, or it is over: the staging memory is free again.
    void cancel(Copy* copy);

    /// The host function: `copy` is complete. For graphs, whose nodes are made elsewhere. @thread the driver's
    static void CUDA_CB completed(void* copy);

    /// Returns when every copy that has completed is queued for the client: before any reply that covers it.
    /// @blocks while large copies leave
    void wait_queued();
    /// The same for a host function, which may not call the driver.
    void wait_queued_in_host_function();

    /// The connection is gone.
    void close();

private:
    void complete(Copy& copy);
    void fail(Copy& copy, CUresult result);
    void send(Copy& copy);
    void send_part(Copy& part);
    void tell_end(const Copy& copy, uint64_t sent_bytes, BytesView payload);
    void note_sent(const Copy& part) WL_EXCLUDES(m_mutex);
    uint64_t sent_bytes(const Copy& part) WL_EXCLUDES(m_mutex);
    void wait_sent();
    void recycle(Copy* copy) WL_EXCLUDES(m_mutex);
    void sender_main();
    std::byte* take_staging(uint64_t bytes) WL_EXCLUDES(m_mutex);
    bool all_stay() WL_EXCLUDES(m_mutex);
    bool in_flight(Copy* copy) const WL_REQUIRES(m_mutex) { return m_copies.contains(copy); }

    ClientPort& m_client;
    StreamWatch& m_watch;
    StagingMemory m_staging;

    std::atomic<uint64_t> m_to_send{0};  // large copies that completed; written under the mutex, read without it by wait_queued
    Mutex m_mutex;
    ConditionVariable m_changed;
    std::deque<Copy*> m_queue WL_GUARDED_BY(m_mutex);  // for the sender
    uint64_t m_queued WL_GUARDED_BY(m_mutex) = 0;
    uint64_t m_sent WL_GUARDED_BY(m_mutex) = 0;
    std::map<Copy*, std::unique_ptr<Copy>> m_copies WL_GUARDED_BY(m_mutex);
    bool m_closed WL_GUARDED_BY(m_mutex) = false;
    std::thread m_sender;
};

}  // namespace warpline::server
