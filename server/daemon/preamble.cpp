#include "server/daemon/preamble.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace warpline::server {

static_assert(std::endian::native == std::endian::little, "the wire is little-endian and read as it is");

Result<Preamble> parse_preamble(BytesView bytes) {
    if (bytes.size() != Preamble::k_bytes) return Error{Code::malformed, "preamble of the wrong size"};
    if (std::memcmp(bytes.data(), "WLRP", 4) != 0) return Error{Code::malformed, "this is not a Warpline client"};
    uint16_t version = 0;
    uint16_t kind = 0;
    uint64_t reserved = 0;
    Preamble preamble;
    read_at(bytes, 4, version);
    read_at(bytes, 6, kind);
    std::memcpy(preamble.session_id.data(), bytes.data() + 8, preamble.session_id.size());
    read_at(bytes, 24, reserved);
    if (version != 1) return Error{Code::version_mismatch, "unknown preamble version", version};
    if (kind < 1 || kind > 3) return Error{Code::malformed, "unknown kind of connection", kind};
    if (reserved != 0) return Error{Code::malformed, "reserved bytes of the preamble are not zero"};
    preamble.kind = static_cast<Preamble::Kind>(kind);
    const bool has_id = std::any_of(preamble.session_id.begin(), preamble.session_id.end(), [](uint8_t b) { return b != 0; });
    if (has_id != (preamble.kind == Preamble::Kind::further_connection)) {
        return Error{Code::malformed, "a session id belongs to further connections, and only to them"};
    }
    return preamble;
}

}  // namespace warpline::server
