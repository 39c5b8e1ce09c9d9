// Calls as they arrive, with payloads that may still be on their way.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <vector>

#include "protocol/codec/batch.h"
#include "protocol/codec/session_state.h"

namespace warpline::protocol {

/// A part of a payload: in memory of its own, or where it was placed.
struct PayloadPart {
    Buffer buffer;
    Place place;
    bool keep = false;  ///< for another time: the sender says that it may be worth it

    BytesView view() const { return place.data() ? BytesView(place.bytes()) : buffer.view(); }
    size_t size() const { return view().size(); }
    bool empty() const { return size() == 0; }
};

/// The payload of a call, as it arrives in Bulk frames, in any order: receiving threads push, the executing thread pulls.
/// Bounded by the credit that the peer has.
class PayloadStream {
public:
    explicit PayloadStream(uint64_t total_bytes) : m_total(total_bytes) {}

    uint64_t total_bytes() const { return m_total; }

    /// The next part, in order; an empty one at the end.
    /// @errors  connection_lost and the like: what fail() was given
    /// @blocks  until a part arrives
    Result<PayloadPart> next();

    /// True if next() will not wait any more.
    bool has_arrived() const;

    /// @errors  malformed: bytes that have come before, or lie outside
    Result<void> push(uint64_t offset, PayloadPart part);
    void fail(Error error);

private:
    const uint64_t m_total;
    mutable Mutex m_mutex;
    ConditionVariable m_arrived;
    std::map<uint64_t, PayloadPart> m_parts WL_GUARDED_BY(m_mutex);  // that are not pulled yet, by offset
    uint64_t m_pulled WL_GUARDED_BY(m_mutex) = 0;
    uint64_t m_pushed WL_GUARDED_BY(m_mutex) = 0;
    Error m_error WL_GUARDED_BY(m_mutex){Code::ok};
};

/// The server's entrance for calls: checks that batches follow one another as they must, and that they and the parts of
/// payloads stay within the credit; joins a streamed payload to its call. Parts come over any lane, also before their call.
///
/// Per batch: `execute(unit)` on the executor, walking BatchReader::open(unit.batch.body, …); then
/// `grant().done(unit.cost_bytes, unit.calls)`. Per part of a stream: `grant().done(part.size(), 0)`.
class CallReceiver {
public:
    struct Unit {
        Frame batch;
        uint64_t cost_bytes = 0;
        uint32_t calls = 0;
        std::shared_ptr<PayloadStream> stream;  ///< payload of the last call, or null. Shared: receiver pushes, executor pulls
    };

    /// @param compact  batches may have compact calls
    explicit CallReceiver(CreditLimits limits, bool compact = false)
        : m_compact(compact), m_least_part_bytes(std::min(k_least_part_bytes, limits.bytes / k_most_parts)), m_grant(limits) {}

    /// What it gives has no compact calls any more.
    /// @errors  malformed (numbers do not continue, the batch is not well-formed), quota @thread the command lane's
    Result<Unit> accept_batch(Frame frame);
    /// @errors  malformed (of a call that has no payload, or all of it, or bytes that have come before; a very small part
    ///          that does not end its payload: what is kept for each would take many times the credit), quota
    /// @thread  any lane's
    Result<void> accept_bulk(Frame frame);
    /// A part of a payload, from wherever: one that the client has not sent, because it is here, costs as much credit.
    /// @errors, @thread as accept_bulk()
    Result<void> accept_part(uint64_t call, uint64_t offset, uint64_t total, PayloadPart part);
    /// The session is over: whoever pulls from a stream wakes with this error. @thread any
    void fail(Error error);

    CreditGrant& grant() { return m_grant; }

private:
    struct Arriving {
        std::shared_ptr<PayloadStream> stream;
        uint64_t received_bytes = 0;
    };

    struct EarlyPart {
        uint64_t offset;
        uint64_t total;
        PayloadPart part;
    };
    Result<void> join(Arriving& arriving, uint64_t offset, uint64_t total, PayloadPart part);

    static constexpr uint64_t k_least_part_bytes = 4096;
    static constexpr uint64_t k_most_parts = 2048;  // of a small credit

    const bool m_compact;
    const uint64_t m_least_part_bytes;
    CreditGrant m_grant;
    CompactReader m_compact_calls;  // the command lane's
    Mutex m_mutex;
    uint64_t m_next_call WL_GUARDED_BY(m_mutex) = 1;
    std::map<uint64_t, Arriving> m_arriving WL_GUARDED_BY(m_mutex);             // payloads that are not complete, by call
    std::map<uint64_t, std::vector<EarlyPart>> m_early WL_GUARDED_BY(m_mutex);  // of calls that have not come yet
};

}  // namespace warpline::protocol
