// The preamble's bytes, written and checked.
#include "protocol/codec/preamble.h"

#include <algorithm>

#include "cuda/abi/driver_settings.h"

namespace warpline::protocol {

namespace {

struct WirePreamble {
    char magic[4];
    uint16_t version;
    uint16_t kind;
    SessionId session;
    uint64_t driver_settings;
};
static_assert(sizeof(WirePreamble) == k_preamble_bytes);
constexpr char k_magic[4] = {'W', 'L', 'R', 'P'};
constexpr uint16_t k_version = 1;

}  // namespace

std::array<std::byte, k_preamble_bytes> encode_preamble(const Preamble& preamble) {
    WirePreamble wire{};
    std::memcpy(wire.magic, k_magic, sizeof k_magic);
    wire.version = k_version;
    wire.kind = static_cast<uint16_t>(preamble.kind);
    wire.session = preamble.session;
    wire.driver_settings = preamble.driver_settings;
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
    if (!cuda::abi::are_driver_settings(wire.driver_settings))
        return Error{Code::malformed, "a preamble has bits set that mean nothing yet"};
    auto kind = static_cast<Preamble::Kind>(wire.kind);
    bool names_session = std::any_of(wire.session.begin(), wire.session.end(), [](std::byte b) { return b != std::byte{0}; });
    if (kind != Preamble::Kind::new_session && wire.driver_settings != 0)
        return Error{Code::malformed, "a preamble asks for settings of a driver that it does not start"};
    switch (kind) {
        case Preamble::Kind::new_session:
        case Preamble::Kind::status:
            if (names_session) return Error{Code::malformed, "a preamble names a session that it does not join"};
            return Preamble{kind, {}, wire.driver_settings};
        case Preamble::Kind::further_connection:
            if (!names_session) return Error{Code::malformed, "a preamble does not name its session"};
            return Preamble{kind, wire.session, 0};
    }
    return Error{Code::malformed, "a preamble of an unknown kind", wire.kind};
}

}  // namespace warpline::protocol
