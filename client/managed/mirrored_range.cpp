// What of registered memory is worth reading without asking whether it has changed.
#include "client/managed/mirrored_range.h"

#include <algorithm>

#include "common/base/fingerprint.h"

namespace warpline::client {

namespace {
constexpr uint64_t k_asked_bytes = 16 << 10;
/// To ask what has changed, and then for that, takes longer than to read so little.
constexpr uint64_t k_short_bytes = 4 * k_asked_bytes;
/// As long as this what the device has changed is expected to change again.
constexpr uint8_t k_readings = 4;
constexpr uint64_t k_longest_part = 1 << 20;
}  // namespace

void MirroredRange::begin_pieces() {
    if (!m_pieces.empty()) return;
    m_pieces.resize((size_bytes + k_asked_bytes - 1) / k_asked_bytes);
    // A kernel that has just been given the memory has probably written to it.
    for (Piece& piece : m_pieces) piece.readings = 1;
}

std::vector<AddressRange> MirroredRange::pieces_of(AddressRange part) const {
    std::vector<AddressRange> pieces;
    for (uint64_t at = part.base / k_asked_bytes * k_asked_bytes; at < part.end(); at += k_asked_bytes)
        pieces.push_back({at, std::min(k_asked_bytes, size_bytes - at)});
    return pieces;
}

void MirroredRange::plan(std::vector<AddressRange>& parts, std::vector<Asked>& asked) {
    begin_pieces();
    for (size_t i = 0; i < m_pieces.size(); ++i) {
        Piece& piece = m_pieces[i];
        const AddressRange part{i * k_asked_bytes, std::min(k_asked_bytes, size_bytes - i * k_asked_bytes)};
        if (piece.readings == 0 && size_bytes > k_short_bytes) {
            if (!piece.is_known) piece.fingerprint = fingerprint(BytesView(twin).subspan(part.base, part.size_bytes));
            piece.is_known = true;
            asked.push_back({part, piece.fingerprint});
        } else if (!parts.empty() && parts.back().end() == part.base && parts.back().size_bytes < k_longest_part) {
            parts.back().size_bytes += part.size_bytes;
        } else {
            parts.push_back(part);
        }
    }
}

void MirroredRange::note_written(AddressRange part) {
    ++changes;
    if (part.size_bytes == 0 || m_pieces.empty()) return;
    for (size_t i = part.base / k_asked_bytes; i <= (part.end() - 1) / k_asked_bytes; ++i) m_pieces[i].is_known = false;
}

void MirroredRange::note_read(AddressRange part, bool is_changed) {
    for (size_t i = part.base / k_asked_bytes; i * k_asked_bytes < part.end(); ++i) {
        uint8_t& readings = m_pieces[i].readings;
        readings = is_changed ? k_readings : readings - std::min<uint8_t>(readings, 1);
    }
}

}  // namespace warpline::client
