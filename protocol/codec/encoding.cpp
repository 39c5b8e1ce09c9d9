// What is encoded, and how it is decoded.
#include "protocol/codec/encoding.h"

#include <algorithm>
#include <chrono>
#include <cstring>

namespace warpline::protocol {

namespace {

// Less is not worth the look; frames on the way to an answer are smaller.
constexpr size_t k_least_bytes = compress::Policy::k_least_bytes;
// Not worth a slot.
constexpr size_t k_least_shared_bytes = 64;

/// Codecs that are about as fast are measured together.
uint8_t way_of(compress::Codec codec) { return std::min(static_cast<uint8_t>(codec), static_cast<uint8_t>(k_ways - 1)); }

// A codec is slower than none if what was measured says so by this much: both measurements have some noise.
constexpr double k_slower = 1.02;

/// True if what is known says so; without a measurement, what is done now.
bool pays(uint8_t way, const DeliveryCosts& costs, bool encodes) {
    const double plain = costs[0], encoded = costs[way];
    return plain == 0 || encoded == 0 ? encodes : encoded <= plain * k_slower;
}

}  // namespace

void Encoding::agree(compress::CodecSet codecs, const std::optional<compress::Choice>& forced) {
    MutexLock lock(m_mutex);
    m_agreed = {codecs & compress::k_all_codecs, std::nullopt};
    if (forced && (m_agreed.codecs & bit(forced->codec))) m_agreed.forced = forced;
    m_on.store(m_agreed.codecs != 0, std::memory_order_relaxed);
}

compress::Wish Encoding::agreed() const {
    MutexLock lock(m_mutex);
    return m_agreed;
}

void Encoding::count(Counters& counters, compress::Codec codec, Bytes bytes) {
    Counter& counter = counters[static_cast<size_t>(codec)];
    counter.raw.fetch_add(bytes.raw, std::memory_order_relaxed);
    counter.wire.fetch_add(bytes.wire, std::memory_order_relaxed);
}

Encoding::ByCodec Encoding::read(const Counters& counters) {
    ByCodec bytes;
    for (size_t i = 0; i < bytes.size(); ++i)
        bytes[i] = {counters[i].raw.load(std::memory_order_relaxed), counters[i].wire.load(std::memory_order_relaxed)};
    return bytes;
}

// --- sending ---

bool Trials::encodes(uint8_t way, uint64_t bytes, const Deliveries& known, FunctionRef<void(uint8_t)> renew) {
    if (bytes < k_telling_bytes) return m_encodes;
    if (m_trial_bytes != 0) {
        m_trial_bytes -= std::min(m_trial_bytes, bytes);
        return !m_encodes;
    }
    if (m_tried && known.samples[*m_tried] >= m_samples_before + DeliveryMeter::k_least_samples) decide(way, known);
    if (known.costs[way] != 0) {
        // What was given up for want of a measurement has one now.
        if (std::exchange(m_unmeasured, 0) > k_most_unmeasured) m_encodes = pays(way, known.costs, true);
    } else if (m_encodes && ++m_unmeasured > k_most_unmeasured) {
        m_encodes = false;
        m_left_bytes = m_wait_bytes;
    }
    const bool is_doubtful = !m_tried && pays(way, known.costs, m_encodes) != m_encodes;
    if (is_doubtful) m_left_bytes = std::min(m_left_bytes, m_doubtful_bytes);
    if (m_left_bytes > bytes) {
        m_left_bytes -= bytes;
        return m_encodes;
    }
    // What is the worse again and again is tried more and more rarely.
    m_wait_bytes = std::min(m_wait_bytes * 2, m_encodes ? k_longest_wait_bytes : k_longest_plain_bytes);
    m_left_bytes = m_wait_bytes;
    m_trial_bytes = k_trial_bytes - std::min(k_trial_bytes, bytes);
    m_tried = m_encodes ? uint8_t{0} : way;
    m_doubted = is_doubtful;
    m_samples_before = known.samples[*m_tried];
    renew(*m_tried);
    return !m_encodes;
}

/// A trial has been measured.
void Trials::decide(uint8_t way, const Deliveries& known) {
    m_tried.reset();
    const bool encodes = pays(way, known.costs, m_encodes);
    // Doubts that were wrong are believed less.
    if (m_doubted) m_doubtful_bytes = std::min(m_doubtful_bytes * 2, k_first_wait_bytes);
    if (encodes == m_encodes) return;
    m_doubtful_bytes = k_doubtful_bytes;
    m_left_bytes = m_wait_bytes = k_first_wait_bytes;
    m_encodes = encodes;
}

void FrameEncoder::encode(std::span<OutFrame* const> frames, std::vector<BytesView>& views) {
    m_packed_count = 0;
    const bool is_on = m_encoding.is_on();
    SharedOut* const shared = m_encoding.shared();
    bool asked = false;
    for (OutFrame* frame : frames) {
        frame->saved_bytes = 0;
        frame->way = k_tells_nothing;
        frame->shared_bytes = 0;
        if (shared != nullptr && frame->header.kind == FrameKind::bulk && share(*shared, *frame, views)) continue;
        if (is_on && is_sequenced(frame->header.kind) && frame->body.size() + frame->payload_view().size() >= k_least_bytes) {
            if (!std::exchange(asked, true)) {
                m_agreed = m_encoding.agreed();
                if (!m_agreed.forced) m_known = m_meter.deliveries();
            }
            m_way = 0;
            const bool encoded = encode(*frame, views);
            if (!frame->was_awaited) frame->way = m_way;
            if (encoded) continue;
        } else if (!is_on && is_sequenced(frame->header.kind) && !frame->was_awaited) {
            frame->way = 0;  // how fast the link is matters also where nothing is compressed
        }
        frame->append_views(views);
    }
}

/// One frame. False if its payload has no place in shared memory.
bool FrameEncoder::share(SharedOut& shared, OutFrame& frame, std::vector<BytesView>& views) {
    if (frame.header.payload_bytes < k_least_shared_bytes) return false;
    const auto where = shared.place(frame);
    if (!where) return false;
    frame.shared_place = *where;
    frame.shared_bytes = frame.header.payload_bytes - k_shared_place_bytes;
    shared.count(frame.header.payload_bytes);
    FrameHeader header = frame.header;
    header.flags = k_flag_shared;
    header.payload_bytes = k_shared_place_bytes;
    encode_frame_header(header, frame.wire_header);
    views.emplace_back(frame.wire_header, k_frame_header_bytes);
    views.push_back(frame.body.view());
    views.push_back(as_bytes(&frame.shared_place, sizeof frame.shared_place));
    return true;
}

/// One frame. False if it travels as it is.
bool FrameEncoder::encode(OutFrame& frame, std::vector<BytesView>& views) {
    const BytesView body = frame.body.view(), payload = frame.payload_view();
    // Where calls are most of it, they are encoded with what they carry.
    const bool joins = frame.header.kind != FrameKind::bulk && body.size() > payload.size();
    BytesView raw = payload;
    if (joins && payload.empty()) raw = body;
    if (joins && !payload.empty()) {
        m_scratch.clear();
        if (!m_scratch.append(body) || !m_scratch.append(payload)) return false;
        raw = m_scratch.view();
    }
    const std::optional<BytesView> packed = pack(raw, frame.external_payload.data() != nullptr);
    if (!packed) return false;
    FrameHeader header = frame.header;
    header.codec = static_cast<uint8_t>(m_codec);
    header.flags = joins ? k_flag_body_encoded : 0;
    header.payload_bytes = static_cast<uint32_t>(packed->size());
    encode_frame_header(header, frame.wire_header);
    frame.saved_bytes = static_cast<uint32_t>(raw.size() - packed->size());
    m_encoding.count_sent(m_codec, {raw.size(), packed->size()});
    views.emplace_back(frame.wire_header, k_frame_header_bytes);
    if (!joins) views.push_back(body);
    views.push_back(*packed);
    return true;
}

compress::Choice FrameEncoder::choose(BytesView raw) {
    if (m_agreed.forced) return *m_agreed.forced;
    const double plain_ns = m_known.costs[0];
    const compress::Choice choice = m_policy.choose(raw, plain_ns == 0 ? 0 : 1e9 / plain_ns, m_agreed.codecs);
    if (choice.codec == compress::Codec::none || m_policy.chose_for_constant()) return choice;
    const auto renew = [this](uint8_t way) { m_meter.renew(way); };
    return m_trials.encodes(way_of(choice.codec), raw.size(), m_known, renew) ? choice : compress::Choice{};
}

/// Nothing if it is not made smaller.
/// @param is_lent  the program may write there meanwhile: packed, that would be damage and not just old and new bytes
std::optional<BytesView> FrameEncoder::pack(BytesView raw, bool is_lent) {
    if (raw.size() < k_least_bytes) return std::nullopt;
    const auto begin = Clock::now();
    const compress::Choice choice = choose(raw);
    if (choice.codec == compress::Codec::none) return std::nullopt;
    if (m_packed_count == m_packed.size()) m_packed.emplace_back();
    Buffer& out = m_packed[m_packed_count];
    const bool is_constant = !m_agreed.forced && m_policy.chose_for_constant();
    m_way = is_constant ? k_tells_nothing : way_of(choice.codec);
    const auto packed = is_constant ? pack_constant(choice, raw, out) : pack_data(choice, raw, is_lent, out);
    if (!packed.ok()) return std::nullopt;
    m_policy.record(choice, raw.size(), *packed, Clock::now() - begin);
    if (*packed >= raw.size()) {
        m_way = k_tells_nothing;
        return std::nullopt;
    }
    m_codec = choice.codec;
    ++m_packed_count;
    return out.view().first(*packed);
}

Result<size_t> FrameEncoder::pack_data(compress::Choice choice, BytesView raw, bool is_lent, Buffer& out) {
    // Byte grouping works on a copy of its own.
    if (is_lent && (choice.codec == compress::Codec::lz4 || choice.codec == compress::Codec::zstd)) {
        m_scratch.clear();
        if (!m_scratch.append(raw)) return k_no_frame_memory;
        raw = m_scratch.view();
    }
    if (!out.resize(compress::max_packed_bytes(choice.codec, raw.size()))) return k_no_frame_memory;
    return compress::compress(choice.codec, choice.level, raw, out.mutable_view());
}

/// Zeros, most of the time, and chunk after chunk: what was packed once is sent again.
Result<size_t> FrameEncoder::pack_constant(compress::Choice choice, BytesView raw, Buffer& out) {
    uint64_t word = 0;
    std::memcpy(&word, raw.data(), sizeof word);
    Constant& last = m_constant;
    if (last.word != word || last.bytes != raw.size()) {
        last.bytes = 0;
        if (!m_scratch.resize(raw.size())) return k_no_frame_memory;
        for (size_t i = 0; i < raw.size(); i += sizeof word)
            std::memcpy(m_scratch.data() + i, &word, std::min(sizeof word, raw.size() - i));
        const size_t bytes = WL_TRY(pack_data(choice, m_scratch.view(), false, last.packed));
        if (!last.packed.resize(bytes)) return k_no_frame_memory;
        last.word = word;
        last.bytes = raw.size();
    }
    out.clear();
    if (!out.append(last.packed.view())) return k_no_frame_memory;
    return out.size();
}

// --- receiving ---

Result<void> decode_frame(Frame& frame, BytesView encoded) {
    const auto codec = WL_TRY(compress::codec_from_wire(frame.header.codec));
    const size_t body_bytes = frame.header.body_bytes, payload_bytes = frame.header.payload_raw_bytes;
    if ((frame.header.flags & k_flag_body_encoded) == 0) {
        if (frame.placed.data() == nullptr && !frame.payload.resize(payload_bytes)) return k_no_frame_memory;
        return compress::decompress(codec, encoded, frame.payload_bytes());
    }
    Buffer joined;
    if (!joined.resize(body_bytes + payload_bytes)) return k_no_frame_memory;
    WL_TRY(compress::decompress(codec, encoded, joined.mutable_view()));
    if (payload_bytes != 0 && !frame.payload.append(joined.view().subspan(body_bytes))) return k_no_frame_memory;
    if (!joined.resize(body_bytes)) return k_no_frame_memory;
    frame.body = std::move(joined);
    return {};
}

}  // namespace warpline::protocol
