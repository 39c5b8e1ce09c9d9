// Moving payloads in parts, so that neither memory nor order is held up.
#include "server/hooks/host_transfer.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <memory>
#include <vector>

#include "protocol/codec/outbox.h"
#include "server/hooks/reach.h"

namespace warpline::server {

namespace {

/// A call's payload, whose parts are cut elsewhere than the pieces that it is used in.
class PayloadPieces {
public:
    explicit PayloadPieces(ServerCall& call) : m_call(call) {}

    /// The next bytes, until the next call: where they have arrived if they lie together there, else in `room()`, a pointer or
    /// null.
    /// @errors  connection_lost, malformed (there are not so many), alloc_failed @blocks until they are there
    template <typename Room>
    Result<BytesView> next(uint64_t bytes, Room&& room) {
        if (m_rest.empty()) m_rest = WL_TRY(m_call.next_part());
        if (m_rest.size() >= bytes) return take(bytes);
        std::byte* const target = room();
        if (target == nullptr) return Error{Code::alloc_failed, "no staging memory"};
        for (uint64_t filled = 0; filled < bytes;) {
            if (m_rest.empty()) m_rest = WL_TRY(m_call.next_part());
            if (m_rest.empty()) return Error{Code::malformed, "a payload is shorter than the copy"};
            const BytesView part = take(std::min<uint64_t>(bytes - filled, m_rest.size()));
            std::memcpy(target + filled, part.data(), part.size());
            filled += part.size();
        }
        return BytesView{target, bytes};
    }

private:
    BytesView take(uint64_t bytes) {
        const BytesView taken = m_rest.first(bytes);
        m_rest = m_rest.subspan(bytes);
        return taken;
    }

    ServerCall& m_call;
    BytesView m_rest;  // of the part that came last
};

}  // namespace

bool waits_for_nothing(ServerCall& call, uint64_t address, uint64_t bytes) {
    const auto is_busy = call.driver()->cuStreamQuery;
    // To ask the legacy stream breaks captures that it would have to wait for.
    if (bytes > k_copied_at_once_bytes || is_busy == nullptr || call.session().freed().any_capture()) return false;
    CUdevice owner = 0;
    return !is_out_of_reach(call, address, owner) && is_busy(nullptr) == CUDA_SUCCESS;
}

namespace {

/// Memory that a device copies from, and that the client wants back for what it sends next: what is kept here while a payload
/// comes, is kept from that payload. So a copy waits for its own first parts when it has queued many; an asynchronous one only
/// as long as its stream goes on, for what a busy stream waits for may come behind the payload.
class LentPlaces {
public:
    LentPlaces(ServerCall& call, CUstream stream, Until until)
        : m_call(call), m_stream(stream), m_until(until), m_lent(std::make_shared<Lent>()) {}

    /// The device was told to copy from it. @blocks while many are on their way
    CUresult add(protocol::Place place) {
        if (m_until == Until::queued) return add_behind(std::move(place));
        m_under_way.push_back({std::move(place), {}});
        if (const CUresult result = watch().mark(m_stream, m_under_way.back().mark); result != CUDA_SUCCESS)
            return fail(result);
        return m_under_way.size() < k_most_places ? CUDA_SUCCESS : wait_for_first();
    }

    CUresult finish() {
        while (!m_under_way.empty()) WL_CUDA(wait_for_first());
        return m_until == Until::arrived ? watch().wait(m_stream) : CUDA_SUCCESS;
    }

private:
    static constexpr size_t k_most_places = 8;
    /// Many times what a device takes for those places.
    static constexpr std::chrono::milliseconds k_patience{2};

    struct UnderWay {
        protocol::Place place;
        StreamWatch::Mark mark;
    };
    struct Lent {
        Mutex mutex;
        ConditionVariable changed;
        size_t places WL_GUARDED_BY(mutex) = 0;
    };

    StreamWatch& watch() { return m_call.session().watch(); }

    CUresult wait_for_first() {
        if (const CUresult result = watch().wait(m_under_way.front().mark); result != CUDA_SUCCESS) return fail(result);
        m_under_way.pop_front();
        return CUDA_SUCCESS;
    }
    /// Nobody can tell when the device has done with them.
    CUresult fail(CUresult result) {
        for (UnderWay& each : m_under_way) each.place.forget();
        m_under_way.clear();
        return result;
    }

    CUresult add_behind(protocol::Place place) {
        if (m_is_held_up) return m_call.session().copies().release_in_stream(std::move(place), m_stream);
        const auto held = std::make_shared<protocol::Place>(std::move(place));
        const auto give_back = [held, lent = m_lent](CUresult) {
            held->clear();
            MutexLock lock(lent->mutex);
            --lent->places;
            lent->changed.notify_all();
        };
        {
            MutexLock lock(m_lent->mutex);
            ++m_lent->places;
        }
        const CUresult result = watch().add(m_stream, StreamWatch::Urgency::soon, give_back);
        if (result != CUDA_SUCCESS) held->forget();
        const auto deadline = std::chrono::steady_clock::now() + k_patience;
        MutexLock lock(m_lent->mutex);
        while (m_lent->places >= k_most_places && !m_is_held_up)
            m_is_held_up = !m_lent->changed.wait_until(m_lent->mutex, deadline);
        return result;
    }

    ServerCall& m_call;
    const CUstream m_stream;
    const Until m_until;
    std::deque<UnderWay> m_under_way;
    const std::shared_ptr<Lent> m_lent;
    bool m_is_held_up = false;  // the stream has something else to do
};

}  // namespace

CUresult send_to_device(ServerCall& call, CUstream stream, Until until,
                        FunctionRef<CUresult(const void*, uint64_t, uint64_t)> copy) {
    AsyncCopies& copies = call.session().copies();
    if (is_capturing(call, stream)) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    LentPlaces lent(call, stream, until);
    for (uint64_t offset = 0;;) {
        const auto part = call.next_part();
        if (!part.ok()) return result_of(part.error());
        if (part->empty()) return lent.finish();
        const uint64_t bytes = part->size();
        if (bytes <= k_copied_at_once_bytes) {
            WL_CUDA(copy(part->data(), offset, bytes));
        } else if (protocol::Place place = call.take_place(); place.is_lent()) {
            WL_CUDA(copy(place.data(), offset, bytes));
            WL_CUDA(lent.add(std::move(place)));
        } else {
            AsyncCopies::Copy* staging = copies.begin(call.number(), bytes, false);
            if (staging == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
            std::memcpy(staging->data, part->data(), bytes);
            const CUresult result = copy(staging->data, offset, bytes);
            if (result != CUDA_SUCCESS) {
                copies.cancel(staging);
                return result;
            }
            WL_CUDA(copies.release_in_stream(staging, stream));
        }
        offset += bytes;
    }
}

CUresult send_pieces(ServerCall& call, CUstream stream, Until until, const Extent& extent, PieceToDevice copy) {
    const uint64_t chunk_bytes = call.session().client().chunk_bytes();
    AsyncCopies& copies = call.session().copies();
    if (is_capturing(call, stream)) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    PayloadPieces payload(call);
    for (uint64_t offset = 0; offset < extent.total_bytes();) {
        const Piece piece = piece_at(extent, offset, chunk_bytes);
        AsyncCopies::Copy* staging = copies.begin(call.number(), piece.bytes(), false);
        if (staging == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
        const auto bytes = payload.next(piece.bytes(), [&] { return staging->data; });
        CUresult result = bytes.ok() ? CUDA_SUCCESS : result_of(bytes.error());
        if (bytes.ok() && bytes->data() != staging->data) std::memcpy(staging->data, bytes->data(), bytes->size());
        if (result == CUDA_SUCCESS) result = copy(staging->data, piece);
        if (result != CUDA_SUCCESS) {
            copies.cancel(staging);
            return result;
        }
        WL_CUDA(copies.release_in_stream(staging, stream));
        offset += piece.bytes();
    }
    return until == Until::arrived ? call.session().watch().wait(stream) : CUDA_SUCCESS;
}

CUresult fetch_from_device(ServerCall& call, CUstream stream, MutableBytesView target, FunctionRef<CUresult(void*)> copy) {
    protocol::Place staging = call.session().copies().take(target.size());
    if (staging.data() == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
    WL_CUDA(copy(staging.data()));
    if (const CUresult result = call.session().watch().wait(stream); result != CUDA_SUCCESS) {
        staging.forget();
        return result;
    }
    std::memcpy(target.data(), staging.data(), target.size());
    return CUDA_SUCCESS;
}

namespace {

/// Pieces that are fetched while those before them leave: as many as hide the wait for the device and its end.
constexpr size_t k_pieces_at_once = 4;

/// The payload of a reply on its way from the device, in groups of pieces.
class Fetching {
public:
    Fetching(ServerCall& call, CUstream stream, const Extent& extent, PieceToHost copy)
        : m_call(call), m_stream(stream), m_extent(extent), m_copy(copy), m_outbox(call.session().client().outbox()) {}

    CUresult run() {
        Group ready;
        CUresult result = CUDA_SUCCESS;
        do {
            Group next;
            if (m_queued < m_extent.total_bytes()) result = queue(next, ready.empty());
            send(ready);
            const CUresult waited = next.empty() ? CUDA_SUCCESS : m_call.session().watch().wait(m_stream);
            if (waited != CUDA_SUCCESS) forget(next);
            if (result == CUDA_SUCCESS) result = waited;
            ready = std::move(next);
        } while (result == CUDA_SUCCESS && !m_is_over && (!ready.empty() || m_queued < m_extent.total_bytes()));
        send(ready);  // of a copy that was refused in the middle, what came before
        return result;
    }

    uint64_t sent_bytes() const { return m_sent; }

private:
    using Group = std::vector<protocol::Place>;

    /// The first piece of all waits for memory. Where others are on their way they are sent first.
    CUresult queue(Group& next, bool may_wait) {
        AsyncCopies& copies = m_call.session().copies();
        while (next.size() < k_pieces_at_once && m_queued < m_extent.total_bytes()) {
            const Piece piece = piece_at(m_extent, m_queued, m_outbox.part_bytes());
            protocol::Place place =
                may_wait && next.empty() ? copies.take(piece.bytes()) : copies.staging().place(piece.bytes());
            if (place.data() == nullptr) return may_wait && next.empty() ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
            WL_CUDA(m_copy(place.data(), piece));
            next.push_back(std::move(place));
            m_queued += piece.bytes();
        }
        return CUDA_SUCCESS;
    }

    void send(Group& ready) {
        const auto urgency = m_outbox.sends_places() ? protocol::Urgency::caller : protocol::Urgency::writer;
        for (protocol::Place& place : ready) {
            const uint64_t bytes = place.size();
            m_is_over |= !m_outbox.add_bulk(m_call.number(), m_sent, m_extent.total_bytes(), std::move(place), urgency).ok();
            if (m_is_over) break;
            if (urgency == protocol::Urgency::caller) m_call.session().client().flush();
            m_sent += bytes;
        }
        ready.clear();
    }

    /// Nobody can tell when the device has done with them.
    static void forget(Group& group) {
        for (protocol::Place& place : group) place.forget();
        group.clear();
    }

    ServerCall& m_call;
    const CUstream m_stream;
    const Extent m_extent;
    const PieceToHost m_copy;
    protocol::Outbox& m_outbox;
    uint64_t m_queued = 0;
    uint64_t m_sent = 0;
    bool m_is_over = false;  // the client is gone
};

}  // namespace

CUresult reply_from_device(ServerCall& call, CUstream stream, const Extent& extent, PieceToHost copy) {
    const uint64_t bytes = extent.total_bytes();
    if (bytes <= call.session().client().chunk_bytes()) {
        if (!call.reserve_reply_payload(bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
        const CUresult result = fetch_from_device(call, stream, call.reply_payload().first(bytes),
                                                  [&](void* target) { return copy(target, Piece{.extent = extent}); });
        if (result != CUDA_SUCCESS) call.drop_reply_payload();
        return result;
    }
    Fetching fetching(call, stream, extent, copy);
    const CUresult result = fetching.run();
    call.set_sent_payload(fetching.sent_bytes());
    return result;
}

CUresult copy_back_in_stream(ServerCall& call, CUstream stream, const Extent& extent, PieceToHost copy) {
    const uint64_t chunk_bytes = call.session().client().chunk_bytes();
    const uint64_t bytes = extent.total_bytes();
    AsyncCopies& copies = call.session().copies();
    if (is_capturing(call, stream)) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    const bool in_parts = bytes > chunk_bytes;
    if (in_parts) call.will_wait();
    const auto parts = std::make_shared<AsyncCopies::Parts>();
    uint64_t offset = 0;
    do {
        const Piece piece = piece_at(extent, offset, in_parts ? call.session().client().outbox().part_bytes() : chunk_bytes);
        AsyncCopies::Copy* part = in_parts ? copies.begin_part(call.number(), parts, offset, piece.bytes(), bytes)
                                           : copies.begin(call.number(), bytes, false);
        if (part == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
        const CUresult result = copy(part->data, piece);
        if (result != CUDA_SUCCESS) {
            copies.cancel(part);
            return result;
        }
        WL_CUDA(copies.finish_in_stream(part, stream));
        offset += piece.bytes();
    } while (offset < bytes);
    return CUDA_SUCCESS;
}

}  // namespace warpline::server
