// Moving payloads in parts, so that neither memory nor order is held up.
#include "server/hooks/host_transfer.h"

#include <algorithm>

#include "protocol/codec/outbox.h"

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

CUresult send_to_device(ServerCall& call, CUstream stream, FunctionRef<CUresult(const void*, uint64_t, uint64_t)> copy) {
    AsyncCopies& copies = call.session().copies();
    if (is_capturing(call, stream)) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    for (uint64_t offset = 0;;) {
        const auto part = call.next_part();
        if (!part.ok()) return result_of(part.error());
        if (part->empty()) return CUDA_SUCCESS;
        if (part->size() <= k_copied_at_once_bytes) {
            WL_CUDA(copy(part->data(), offset, part->size()));
        } else if (protocol::Place place = call.take_place(); place.is_lent()) {
            WL_CUDA(copy(place.data(), offset, place.size()));
            WL_CUDA(copies.release_in_stream(std::move(place), stream));
        } else {
            AsyncCopies::Copy* staging = copies.begin(call.number(), part->size(), false);
            if (staging == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
            std::memcpy(staging->data, part->data(), part->size());
            const CUresult result = copy(staging->data, offset, part->size());
            if (result != CUDA_SUCCESS) {
                copies.cancel(staging);
                return result;
            }
            WL_CUDA(copies.release_in_stream(staging, stream));
        }
        offset += part->size();
    }
}

CUresult send_pieces(ServerCall& call, const Extent& extent, PieceToDevice copy) {
    const uint64_t chunk_bytes = call.session().client().chunk_bytes();
    protocol::Buffer between;
    PayloadPieces payload(call);
    for (uint64_t offset = 0; offset < extent.total_bytes();) {
        const Piece piece = piece_at(extent, offset, chunk_bytes);
        const auto bytes =
            payload.next(piece.bytes(), [&] { return between.resize(piece.bytes()) ? between.data() : nullptr; });
        if (!bytes.ok()) return result_of(bytes.error());
        WL_CUDA(copy(bytes->data(), piece));
        offset += piece.bytes();
    }
    return CUDA_SUCCESS;
}

CUresult send_pieces_in_stream(ServerCall& call, CUstream stream, const Extent& extent, PieceToDevice copy) {
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
    return CUDA_SUCCESS;
}

CUresult reply_from_device(ServerCall& call, const Extent& extent, PieceToHost copy) {
    const uint64_t chunk_bytes = call.session().client().chunk_bytes();
    const uint64_t bytes = extent.total_bytes();
    if (bytes <= chunk_bytes) {
        if (!call.reserve_reply_payload(bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
        const CUresult result = copy(call.reply_payload().data(), Piece{.extent = extent});
        if (result != CUDA_SUCCESS) call.drop_reply_payload();
        return result;
    }
    AsyncCopies& copies = call.session().copies();
    protocol::Outbox& outbox = call.session().client().outbox();
    const auto urgency = outbox.sends_places() ? protocol::Urgency::caller : protocol::Urgency::writer;
    CUresult result = CUDA_SUCCESS;
    uint64_t offset = 0;
    while (offset < bytes) {
        const Piece piece = piece_at(extent, offset, outbox.part_bytes());
        protocol::Place staging = copies.take(piece.bytes());
        result = staging.data() != nullptr ? copy(staging.data(), piece) : CUDA_ERROR_OUT_OF_MEMORY;
        if (result != CUDA_SUCCESS || !outbox.add_bulk(call.number(), offset, bytes, std::move(staging), urgency).ok()) break;
        if (urgency == protocol::Urgency::caller) call.session().client().flush();
        offset += piece.bytes();
    }
    call.set_sent_payload(offset);
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
