// A call while it is executed, as hooks and generated code see it.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>

#include "cuda/abi/cuda_types.h"
#include "cuda/gen/call_id.gen.h"
#include "protocol/codec/call_receiver.h"
#include "server/driver/driver.h"
#include "server/objects/functions.h"
#include "server/objects/handle_table.h"
#include "server/objects/upload_cache.h"

namespace warpline::server {

class Session;

/// The driver's handle as the table keeps it, and back. Most handle types are pointers, some are integers.
template <typename Handle>
uint64_t handle_to_value(Handle handle) {
    if constexpr (std::is_pointer_v<Handle>)
        return reinterpret_cast<uint64_t>(handle);
    else
        return static_cast<uint64_t>(handle);
}
template <typename Handle>
Handle value_to_handle(uint64_t value) {
    if constexpr (std::is_pointer_v<Handle>)
        return reinterpret_cast<Handle>(value);
    else
        return static_cast<Handle>(value);
}

/// One call of a client while it is executed: what generated bodies and hooks are given.
class ServerCall {
public:
    /// @param view  with the bytes that arguments and payload point into: they live as long as the call
    ServerCall(Session& session, const protocol::CallView& view, std::shared_ptr<protocol::PayloadStream> stream);

    ~ServerCall();
    ServerCall(const ServerCall&) = delete;
    ServerCall& operator=(const ServerCall&) = delete;

    Session& session() const { return m_session; }
    const Driver& driver() const { return m_driver; }
    cuda::CallId id() const { return m_id; }
    uint64_t number() const { return m_number; }
    uint32_t thread() const { return m_thread; }
    uint64_t context() const { return m_context; }  ///< token of the context that it works in; 0: none
    /// Token of the client thread's current context, which may be one that a green context was converted to: whose default
    /// streams are meant.
    uint64_t scope() const { return m_scope; }
    bool wants_reply() const { return m_wants_reply; }

    // --- payload of the request ---

    uint64_t payload_bytes() const { return m_payload_bytes; }
    /// The whole payload in one piece. Large ones arrive in parts: a hook that can use them as they come takes next_part().
    ///
    /// @errors  connection_lost, quota (longer than a payload in one piece may be, or than there is room), alloc_failed
    /// @blocks  until all of it is there
    Result<BytesView> whole_payload();
    /// The next part; empty at the end. @errors connection_lost @blocks until it is there
    Result<BytesView> next_part();
    /// Takes the memory of the part that next_part() gave last: empty if it is not page-locked memory of the session's. The
    /// part stays where it is as long as the place lives.
    protocol::Place take_place() { return std::move(m_part.place); }
    /// Drops what a call did not take of its payload: the parts are on their way, whatever became of the call.
    void skip_payload();

    // --- handles ---

    /// The driver's handle behind a token. False if the token is of another kind, or names nothing. Stream tokens 0, 1 and 2
    /// are CUDA's special streams; 2 becomes a stream that stands for the client's thread.
    template <typename Handle>
    bool find(HandleKind kind, uint64_t token, Handle& handle) {
        if constexpr (std::is_same_v<Handle, CUfunction>) {
            handle = find_function(token);
            return handle != nullptr;
        } else if constexpr (std::is_same_v<Handle, CUkernel>) {
            handle = find_kernel(token);
            return handle != nullptr;
        } else {
            uint64_t value = 0;
            if (!find_value(kind, token, value)) return false;
            handle = value_to_handle<Handle>(value);
            return true;
        }
    }
    bool find_value(HandleKind kind, uint64_t token, uint64_t& value);
    CUfunction find_function(uint64_t token);
    /// What the parameters of a function are. Null, with the reason in not_found(): no such function, or nobody can tell. Costs
    /// nothing for the function that was found last.
    const ParamLayout* layout_of(uint64_t token);
    /// The answer to a call whose handle was not found.
    CUresult not_found() const { return m_not_found; }
    CUkernel find_kernel(uint64_t token);

    /// The driver's number of a device. False if the client has no such device.
    bool find_device(CUdevice device, CUdevice& found) const;

    /// True if the client may give this token to a new object.
    bool may_bind(HandleKind kind, uint64_t token) const;
    /// @param owner  token of the object that this one dies with; 0: none
    /// @param charge  of device memory that the object is, or keeps
    template <typename Handle>
    void bind(HandleKind kind, uint64_t token, Handle handle, uint64_t owner,
              std::shared_ptr<const MemoryCharge> charge = nullptr) {
        bind_value(kind, token, handle_to_value(handle), owner, std::move(charge));
    }
    void bind_value(HandleKind kind, uint64_t token, uint64_t value, uint64_t owner,
                    std::shared_ptr<const MemoryCharge> charge = nullptr);
    void unbind(HandleKind kind, uint64_t token);

    // --- order ---

    /// The calls after this one may begin: to be called, with everything looked up, before the driver is asked to wait.
    void release_order();
    /// If the driver keeps this call waiting from here on, the calls after it that do not depend on it may begin meanwhile.
    /// Once, before anything else: what the call does from now on must not need the order (see docs/threading.md).
    void allow_overtaking();
    /// The same for a call that gives a stream something: it waits first where the stream has been given much that it has not
    /// done. @blocks until the stream has done some of it
    void queue_in(uint64_t stream);
    /// The same for a call that will be kept waiting for certain: others need not look at it for a while first.
    void will_wait();

    // --- answer ---

    /// Room for a payload of the reply. False if there is no memory for it, or it would be larger than a payload in one piece
    /// may be.
    bool reserve_reply_payload(uint64_t size_bytes);
    MutableBytesView reply_payload() { return m_reply_payload.mutable_view(); }
    void drop_reply_payload() { m_reply_payload.clear(); }
    /// Keeps the first bytes of it.
    void cut_reply_payload(uint64_t size_bytes) { (void)m_reply_payload.resize(size_bytes); }
    /// A hook that sent the payload itself, in Bulk frames, says how long it was.
    void set_sent_payload(uint64_t size_bytes) { m_sent_payload_bytes = size_bytes; }

    /// The answer to a call that this driver has no function for. Logs once per call.
    CUresult missing_function() const;

    // For generated code (server/session/serve.h):
    const protocol::CallView& view() const { return m_view; }
    uint64_t sent_payload() const { return m_sent_payload_bytes; }
    protocol::Buffer& reply_buffer() { return m_reply_payload; }
    /// The reply is about to be sent.
    void note_answered() { m_answered = std::chrono::steady_clock::now(); }
    std::chrono::steady_clock::time_point answered() const { return m_answered; }

private:
    Session& m_session;
    const Driver& m_driver;
    const protocol::CallView& m_view;  // until the order is released
    const std::shared_ptr<protocol::PayloadStream> m_stream;
    const cuda::CallId m_id;
    const bool m_wants_reply;
    const uint32_t m_thread;
    const uint64_t m_number;
    const uint64_t m_scope;
    const uint64_t m_context;
    CUresult m_not_found = CUDA_ERROR_INVALID_HANDLE;
    Functions::Found m_function;  // the last one
    const uint64_t m_payload_bytes;
    BytesView m_payload;
    uint64_t m_payload_taken = 0;
    uint64_t m_part_to_credit = 0;  // bytes of the part in use
    protocol::PayloadPart m_part;
    ChunkGatherer m_chunks;  // of the payload, that are kept for another time
    protocol::Buffer m_reply_payload;
    uint64_t m_sent_payload_bytes = 0;
    std::chrono::steady_clock::time_point m_answered;
    uint64_t m_room_bytes = 0;  // that the session lent for payloads in one piece
};

}  // namespace warpline::server
