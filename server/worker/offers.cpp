// Payloads that the client offers by their hashes.
#include <algorithm>

#include "common/log/log.h"
#include "protocol/schema/envelope.capnp.h"
#include "server/control/chunk_file.h"
#include "server/worker/connection_from_client.h"

namespace warpline::server {

Result<void> ConnectionFromClient::on_offer(wire::Offer::Reader offer) {
    UploadOffer asked{offer.getCall(), offer.getOffset(), offer.getTotal(), offer.getOnlyAsks(), {}};
    const auto hashes = offer.getHashes();
    const size_t count = hashes.size() / sizeof(net::Digest);
    const bool is_whole = count > 0 && count <= k_most_asked && hashes.size() == count * sizeof(net::Digest);
    // The last chunk begins before the end of the payload.
    const bool fits = asked.offset % k_chunk_file_bytes == 0 && asked.offset < asked.total &&
                      (asked.total - asked.offset - 1) / k_chunk_file_bytes + 1 >= count;
    if (m_uploads == nullptr || !is_whole || !fits) return Error{Code::malformed, "an offer that cannot be one"};
    asked.digests.resize(count);
    std::memcpy(asked.digests.data(), hashes.begin(), hashes.size());
    if (!m_uploads->ask(std::move(asked))) return Error{Code::quota, "the client offers more at a time than its credit allows"};
    return {};
}

void ConnectionFromClient::offer_answered(const UploadOffer& offer, uint64_t has, const std::vector<int>& files) {
    // What is there cannot go any more: so the answer need not wait until it is copied.
    constexpr unsigned k_words = 12;
    const auto told = m_link.outbox().add_message<wire::Event>(
        protocol::FrameKind::event, k_words,
        [&](wire::Event::Builder event) {
            auto offered = event.initOffered();
            offered.setCall(offer.call);
            offered.setOffset(offer.offset);
            offered.setCount(static_cast<uint32_t>(offer.digests.size()));
            offered.setHas(has);
            offered.setOnlyAsks(offer.only_asks);
        },
        {}, protocol::Urgency::caller);
    if (!told.ok()) return;  // the session is over
    m_pump->flush();
    if (offer.only_asks) return;
    size_t next = 0;
    for (size_t chunk = 0; chunk < offer.digests.size(); ++chunk) {
        if ((has >> chunk & 1) == 0) continue;
        const auto taken = take_found(offer, chunk, files[next++]);
        if (!taken.ok()) return did_misbehave(taken.error().what);
    }
}

/// Puts a chunk where its bytes would have come. @thread the cache's
Result<void> ConnectionFromClient::take_found(const UploadOffer& offer, size_t chunk, int file) {
    const uint64_t offset = offer.offset + chunk * k_chunk_file_bytes;
    const uint64_t bytes = std::min(k_chunk_file_bytes, offer.total - offset);
    protocol::PayloadPart part;
    part.place = WL_TRY(place_part(bytes));
    if (part.place.data() == nullptr && !part.buffer.resize(bytes)) return Error{Code::alloc_failed, "no memory for a payload"};
    const MutableBytesView room = part.place.data() != nullptr ? part.place.bytes() : part.buffer.mutable_view();
    if (!read_chunk_file(file, room)) return Error{Code::io, "a chunk that was kept cannot be read"};
    m_counters.found_bytes.fetch_add(bytes, std::memory_order_relaxed);
    return m_receiver.accept_part(offer.call, offset, offer.total, std::move(part));
}

}  // namespace warpline::server
