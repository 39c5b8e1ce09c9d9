// Payloads whose hashes go ahead of them: what is offered, and what becomes of the answers.
#include <algorithm>

#include "protocol/codec/link_fit.h"
#include "protocol/codec/outbox.h"

namespace warpline::protocol {

namespace {

constexpr size_t k_hash_bytes = 32;
/// Of one offer. Few, so that an answer comes while the next ones are hashed.
constexpr uint64_t k_chunks_of_offer = 4;
/// What may be offered and not be answered before there are answers that say that it pays.
constexpr uint64_t k_unsure_chunks = 8;
/// An answer that comes sooner is worth sending little before it.
constexpr uint64_t k_soon_us = 8000;

}  // namespace

void Outbox::begin_offers(uint64_t chunk_bytes, uint64_t stored_bytes) {
    MutexLock lock(m_mutex);
    // Over shared memory there is no link.
    if (m_encoding.shared() != nullptr) return;
    if (chunk_bytes < k_least_credit_part_bytes || m_credit.limits().bytes < chunk_bytes * 4) return;
    m_chunk_bytes = chunk_bytes;
    m_offers.emplace(stored_bytes);
}

/// What a byte takes, over all lanes that payloads travel over, in the way that is the fastest.
OfferPolicy::Link Outbox::slowness() const {
    const auto rate_of = [](const OutLane& lane) {
        const double cost = least_cost(lane.delivery.costs());
        return cost > 0 ? 1 / cost : 0;
    };
    double rate = 0;
    for (uint16_t lane = 1; lane < k_max_lanes; ++lane)
        if (m_lanes[lane].items.attached()) rate += rate_of(m_lanes[lane]);
    if (rate == 0) rate = rate_of(command());
    // A heartbeat may have waited behind payloads; the first offer goes before them.
    double round_trip_ns = 1e3 * static_cast<double>(m_round_trip_us.load(std::memory_order_relaxed));
    if (m_answer_ns > 0 && (round_trip_ns == 0 || m_answer_ns < round_trip_ns)) round_trip_ns = m_answer_ns;
    return {rate > 0 ? 1 / rate : 0, round_trip_ns};
}

void Outbox::choose_offers(Transfer& transfer) {
    const OfferPolicy::Choice choice = m_offers->choose(transfer.payload.size(), m_chunk_bytes, slowness());
    transfer.hashes_first = choice.hashes_first;
    transfer.samples = choice.samples;
    transfer.hash_leads = choice.is_first;
    if (choice.is_first) m_first_answer_due = true;
    transfer.plain_bytes = choice.plain_bytes;
}

/// Of a payload whose first chunk is asked for, what is sent meanwhile may turn out to have been there: so no more than keeps a
/// near connection busy.
bool Outbox::leaves_before_answer(const OutLane& lane, size_t bytes) const {
    if (!m_first_answer_due || m_round_trip_us.load(std::memory_order_relaxed) > k_soon_us) return true;
    return lane.under_way_bytes() + bytes <= k_before_answer_bytes;
}

/// Of a payload that is being sent: from chunk to chunk it may turn out to pay. The first answer may come with acknowledgements
/// that waited for the same processor, and make the link look fast.
void Outbox::offer_rest_of(Transfer& transfer) {
    const uint64_t left = transfer.payload.size() - transfer.cut_bytes;
    if (!makes_offers() || m_closed || !transfer.counts_credit || transfer.hashes_first || left == 0) return;
    if (transfer.cut_bytes % m_chunk_bytes != 0 || !m_offers->pays(left, m_chunk_bytes, slowness())) return;
    transfer.hashes_first = true;
    transfer.plain_bytes = transfer.cut_bytes;
}

/// True if the next chunk may be offered: in the order in which credit is spent, and not too far ahead of the answers.
bool Outbox::may_offer(const Transfer& transfer) const {
    if (!transfer.hashes_first || transfer.cut_bytes == transfer.payload.size()) return false;
    // In the middle of a chunk, what is left of it is sent.
    if (transfer.cut_bytes < transfer.plain_bytes || transfer.cut_bytes % m_chunk_bytes != 0) return false;
    if (!m_offers->is_sure() && transfer.offered_bytes >= k_unsure_chunks * m_chunk_bytes) return false;
    return m_credit.can_spend(std::min<uint64_t>(m_chunk_bytes, transfer.payload.size() - transfer.cut_bytes), 0);
}

/// The payload that is to be hashed next. Null: none now.
Transfer* Outbox::next_hashed() const {
    for (const auto& transfer : m_transfers) {
        if (transfer->samples || may_offer(*transfer)) return transfer.get();
        // Those behind it spend their credit behind it.
        if (transfer->counts_credit && transfer->cut_bytes < transfer->payload.size()) return nullptr;
    }
    return nullptr;
}

void Outbox::tell_hashes() {
    if (!m_hash_waits || (!m_closed && next_hashed() == nullptr)) return;
    m_hash_waits = false;
    m_hash_wake.notify_one();
}

bool Outbox::next_to_hash(HashWork& work) {
    MutexLock lock(m_mutex);
    while (!m_closed && next_hashed() == nullptr) {
        m_hash_waits = true;
        m_hash_wake.wait(m_mutex);
    }
    m_hash_waits = false;
    if (m_closed) return false;
    Transfer* const next = next_hashed();
    work.transfer =
        *std::find_if(m_transfers.begin(), m_transfers.end(), [&](const auto& other) { return other.get() == next; });
    work.only_asks = next->samples;
    work.offset = next->samples ? 0 : next->cut_bytes;
    work.chunks.clear();
    // The first answer comes soonest for one.
    const uint64_t most = next->samples || next->cut_bytes == next->plain_bytes ? 1 : k_chunks_of_offer;
    uint64_t bytes = 0;
    for (uint64_t offset = work.offset; offset < next->payload.size() && work.chunks.size() < most; offset += m_chunk_bytes) {
        const uint64_t size = std::min<uint64_t>(m_chunk_bytes, next->payload.size() - offset);
        if (!next->samples && !m_credit.can_spend(bytes + size, 0)) break;
        bytes += size;
        work.chunks.push_back(next->payload.subspan(offset, size));
    }
    next->samples = false;
    next->being_hashed = true;
    // Its credit is spent before others can: calls may come meanwhile.
    if (!work.only_asks) {
        m_credit.spend(bytes, 0);
        next->cut_bytes += bytes;
        next->offered_bytes += bytes;
    }
    return true;
}

Result<void> Outbox::offer(const HashWork& work, BytesView hashes, double took_ns) {
    Transfer& transfer = *work.transfer;
    uint64_t bytes = 0;
    for (const BytesView chunk : work.chunks) bytes += chunk.size();
    Buffer body;
    Result<void> built = Error{Code::alloc_failed, "no memory for a hash"};
    if (hashes.size() == work.chunks.size() * k_hash_bytes) {
        constexpr unsigned k_words = 24;
        built = build_body(body, static_cast<unsigned>(k_words + hashes.size() / 8), [&](capnp::MessageBuilder& message) {
            auto offer = message.initRoot<wire::Event>().initOffer();
            offer.setCall(transfer.call);
            offer.setOffset(work.offset);
            offer.setTotal(transfer.payload.size());
            offer.setHashes(kj::arrayPtr(reinterpret_cast<const kj::byte*>(hashes.data()), hashes.size()));
            offer.setOnlyAsks(work.only_asks);
        });
    }
    MutexLock lock(m_mutex);
    transfer.being_hashed = transfer.hash_leads = false;
    if (!built.ok()) m_first_answer_due = false;
    if (built.ok() && !m_closed) {
        m_offers->hashed(bytes, took_ns);
        if (!m_timed_offer) m_timed_offer = {transfer.call, work.offset, Clock::now()};
        close_batch();
        FramePtr frame = free_frame();
        frame->body = std::move(body);
        push(FrameKind::event, std::move(frame));
        m_offer_counters.asked_chunks += work.chunks.size();
        if (work.only_asks) m_offer_counters.sampled_chunks += work.chunks.size();
    } else if (!work.only_asks) {
        transfer.offered_bytes -= bytes;
        transfer.owed.emplace_back(work.offset, work.offset + bytes);
        transfer.hashes_first = false;
    }
    m_waiting.tell();
    tell_hashes();
    const Writers writers = writers_with_output();
    lock.unlock();
    wake(writers);
    return built;
}

Result<void> Outbox::offered(uint64_t call, uint64_t offset, uint32_t count, uint64_t has, bool only_asked) {
    const Error unasked = malformed("an answer to an offer that was not made");
    MutexLock lock(m_mutex);
    if (!makes_offers() || count == 0 || count > k_chunks_of_offer || has >> count != 0) return unasked;
    if (m_timed_offer && m_timed_offer->call == call && m_timed_offer->offset == offset) {
        const double took_ns = std::chrono::duration<double, std::nano>(Clock::now() - m_timed_offer->at).count();
        m_answer_ns = m_answer_ns == 0 ? took_ns : std::min(m_answer_ns, took_ns);
        m_timed_offer.reset();
    }
    if (only_asked) {
        m_first_answer_due = false;
        m_offers->answered(m_chunk_bytes, has != 0, true);
        if (has != 0) {
            ++m_offer_counters.found_chunks;
            for (const auto& transfer : m_transfers) offer_rest_of(*transfer);
            tell_hashes();
        }
        const Writers writers = writers_with_output();
        lock.unlock();
        wake(writers);
        return {};
    }
    const auto found =
        std::find_if(m_transfers.begin(), m_transfers.end(), [&](const auto& transfer) { return transfer->call == call; });
    if (found == m_transfers.end()) return unasked;
    Transfer& transfer = **found;
    const uint64_t total = transfer.payload.size();
    if (offset >= transfer.cut_bytes || offset % m_chunk_bytes != 0) return unasked;
    const uint64_t bytes = std::min(count * m_chunk_bytes, total - offset);
    if (bytes > transfer.offered_bytes || offset + bytes > transfer.cut_bytes) return unasked;
    transfer.offered_bytes -= bytes;
    for (uint32_t i = 0; i < count; ++i) {
        const uint64_t begin = offset + i * m_chunk_bytes, end = std::min(begin + m_chunk_bytes, total);
        const bool is_there = (has >> i & 1) != 0;
        m_offers->answered(end - begin, is_there, false);
        if (is_there) {
            ++m_offer_counters.found_chunks;
            m_offer_counters.found_bytes += end - begin;
        } else if (!transfer.owed.empty() && transfer.owed.back().second == begin) {
            transfer.owed.back().second = end;
        } else {
            transfer.owed.emplace_back(begin, end);
        }
    }
    if (!m_offers->goes_on()) transfer.hashes_first = false;
    if (transfer.is_cut()) all_is_cut(transfer);
    std::erase_if(m_lent, [&](const auto& lent) WL_NO_THREAD_SAFETY_ANALYSIS { return is_acknowledged(*lent); });
    m_waiting.tell();
    tell_hashes();
    const Writers writers = writers_with_output();
    lock.unlock();
    wake(writers);
    return {};
}

OfferCounters Outbox::offer_counters() const {
    MutexLock lock(m_mutex);
    return m_offer_counters;
}

}  // namespace warpline::protocol
