// The way from what a session owns to its client.
#pragma once

#include "protocol/codec/link.h"
#include "server/objects/staging_memory.h"
#include "server/objects/upload_cache.h"
#include "server/objects/work_source.h"

namespace warpline::server {

/// How a session speaks to its client. Implemented by the connection; by a recorder in tests.
class ClientPort {
public:
    virtual ~ClientPort() = default;
    virtual protocol::Outbox& outbox() = 0;
    /// Sends what is queued, on this thread if it can: after an answer that somebody waits for.
    virtual void flush() = 0;
    /// The client broke the protocol, or cannot be served any more: the session ends with this reason. Returns at once.
    virtual void did_misbehave(const char* reason) = 0;
    virtual size_t chunk_bytes() const = 0;
    /// Page-locked memory that large payloads are received into. Null: they are received into the heap.
    virtual StagingMemory* arrivals() { return nullptr; }
    /// Slots of shared memory that have been given back, and of which the client has not been told: a bit each.
    virtual uint64_t take_freed_slots() { return 0; }
    /// What keeps the client's uploads for another time. Null: nothing does.
    virtual UploadCache* uploads() { return nullptr; }
    /// Null: what the client sends is not read by threads of the session.
    virtual WorkSource* work_source() { return nullptr; }
};

}  // namespace warpline::server
