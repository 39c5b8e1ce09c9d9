// The preamble's bytes, written and checked.
#include "protocol/codec/preamble.h"

#include <algorithm>

namespace warpline::protocol {

namespace {

struct WirePreamble {
    char magic[4];
    uint16_t version;
    uint16_t kind;
    SessionId session;
    uint16_t lane;
    uint16_t protection;  // 0: TLS, 1: none
    uint32_t epoch;
};
static_assert(sizeof(WirePreamble) == k_preamble_bytes);
constexpr char k_magic[4] = {'W', 'L', 'R', 'P'};
constexpr uint16_t k_version = 2;
constexpr uint16_t k_plain = 1;

}  // namespace

std::array<std::byte, k_preamble_bytes> encode_preamble(const Preamble& preamble) {
    WirePreamble wire{};
    std::memcpy(wire.magic, k_magic, sizeof k_magic);
    wire.version = k_version;
    wire.kind = static_cast<uint16_t>(preamble.kind);
    wire.session = preamble.session;
    wire.lane = preamble.lane;
    wire.epoch = preamble.epoch;
    wire.protection = preamble.plain ? k_plain : 0;
    std::array<std::byte, k_preamble_bytes> out;
    std::memcpy(out.data(), &wire, sizeof wire);
    return out;
}

Result<Preamble> decode_preamble(BytesView bytes) {
    WirePreamble wire;
    if (!read_at(bytes, 0, wire)) return Error{Code::malformed, "a preamble is cut off"};
    if (std::memcmp(wire.magic, k_magic, sizeof k_magic) != 0)
        return Error{Code::malformed, "this is not a client of Warpline"};
    if (wire.version != k_version) return Error{Code::version_mismatch, "a preamble of another version", wire.version};
    if (wire.protection > k_plain) return Error{Code::malformed, "a preamble has bits set that mean nothing yet"};
    const auto kind = static_cast<Preamble::Kind>(wire.kind);
    const bool names_session =
        std::any_of(wire.session.begin(), wire.session.end(), [](std::byte b) { return b != std::byte{0}; });
    switch (kind) {
        case Preamble::Kind::door:
            if (names_session || wire.lane != 0 || wire.epoch != 0)
                return Error{Code::malformed, "a preamble names a session that it does not join"};
            return Preamble{.plain = wire.protection == k_plain};
        case Preamble::Kind::lane:
            if (!names_session) return Error{Code::malformed, "a preamble does not name its session"};
            return Preamble{kind, wire.session, wire.lane, wire.epoch, wire.protection == k_plain};
    }
    return Error{Code::malformed, "a preamble of an unknown kind", wire.kind};
}

}  // namespace warpline::protocol
