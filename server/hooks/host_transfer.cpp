// Moving payloads in parts, so that neither memory nor order is held up.
#include "server/hooks/host_transfer.h"

#include <algorithm>
#include <array>

#include "protocol/codec/outbox.h"

namespace warpline::server {

namespace {

/// What a driver copies out of pageable memory before cuMemcpyHtoDAsync returns (CUDA Driver API, API synchronization behavior:
/// "64 KB or less").
constexpr uint64_t k_copied_at_once_bytes = 64 * 1024;

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

CUresult reply_from_device(ServerCall& call, uint64_t bytes, FunctionRef<CUresult(void*, uint64_t, uint64_t)> copy) {
    const uint64_t chunk_bytes = call.session().client().chunk_bytes();
    if (bytes <= chunk_bytes) {
        if (!call.reserve_reply_payload(bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
        const CUresult result = copy(call.reply_payload().data(), 0, bytes);
        if (result != CUDA_SUCCESS) call.drop_reply_payload();
        return result;
    }
    struct Slot {
        AsyncCopies::Copy* staging = nullptr;
        uint64_t ticket = 0;
    };
    std::array<Slot, 4> slots;
    AsyncCopies& copies = call.session().copies();
    protocol::Outbox& outbox = call.session().client().outbox();
    CUresult result = CUDA_SUCCESS;
    uint64_t offset = 0;
    for (size_t i = 0; offset < bytes && result == CUDA_SUCCESS; i = (i + 1) % slots.size()) {
        Slot& slot = slots[i];
        if (slot.staging == nullptr) slot.staging = copies.begin(call.number(), chunk_bytes, false);
        if (slot.staging == nullptr) {
            result = CUDA_ERROR_OUT_OF_MEMORY;
            break;
        }
        if (slot.ticket != 0 && !outbox.wait_sent(slot.ticket, {slot.staging->data, chunk_bytes}).ok()) break;
        const uint64_t part = std::min(chunk_bytes, bytes - offset);
        result = copy(slot.staging->data, offset, part);
        if (result != CUDA_SUCCESS) break;
        const auto ticket = outbox.add_bulk(call.number(), offset, bytes, {slot.staging->data, part});
        if (!ticket.ok()) break;
        slot.ticket = *ticket;
        offset += part;
    }
    for (Slot& slot : slots) {
        if (slot.ticket != 0) static_cast<void>(outbox.wait_sent(slot.ticket, {slot.staging->data, chunk_bytes}));
        if (slot.staging != nullptr) copies.cancel(slot.staging);
    }
    call.set_sent_payload(offset);
    return result;
}

CUresult copy_back_in_parts(ServerCall& call, CUstream stream, uint64_t bytes,
                            FunctionRef<CUresult(void*, uint64_t, uint64_t)> copy) {
    const uint64_t chunk_bytes = call.session().client().chunk_bytes();
    if (bytes <= chunk_bytes)
        return copy_back_in_stream(call, stream, bytes, [&](void* target) { return copy(target, 0, bytes); });
    AsyncCopies& copies = call.session().copies();
    if (is_capturing(call, stream)) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    call.will_wait();
    for (uint64_t offset = 0; offset < bytes; offset += chunk_bytes) {
        const uint64_t part_bytes = std::min(chunk_bytes, bytes - offset);
        AsyncCopies::Copy* part = copies.begin_part(call.number(), offset, part_bytes, bytes);
        if (part == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
        const CUresult result = copy(part->data, offset, part_bytes);
        if (result != CUDA_SUCCESS) {
            copies.cancel(part);
            return result;
        }
        WL_CUDA(copies.finish_in_stream(part, stream));
    }
    return CUDA_SUCCESS;
}

CUresult copy_back_in_stream(ServerCall& call, CUstream stream, uint64_t bytes, FunctionRef<CUresult(void*)> copy) {
    AsyncCopies& copies = call.session().copies();
    if (is_capturing(call, stream)) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    AsyncCopies::Copy* staging = copies.begin(call.number(), bytes, false);
    if (staging == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
    const CUresult result = copy(staging->data);
    if (result != CUDA_SUCCESS) {
        copies.cancel(staging);
        return result;
    }
    return copies.finish_in_stream(staging, stream);
}

}  // namespace warpline::server
