// What bytes are known by: a strong hash that only who has the key can compute.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "common/base/bytes.h"
#include "common/base/result.h"

namespace warpline::net {

using HashKey = std::array<uint8_t, 32>;
using Digest = std::array<uint8_t, 32>;

/// HMAC-SHA-256: of what OpenSSL has, the fastest where processors have instructions for SHA-256 (1.8 GB/s on a core that has,
/// and BLAKE2b 0.9).
class KeyedHash {
public:
    /// @errors alloc_failed
    static Result<KeyedHash> create(const HashKey& key);
    ~KeyedHash();
    KeyedHash(KeyedHash&&) noexcept;
    KeyedHash& operator=(KeyedHash&&) noexcept;

    /// @errors alloc_failed @blocks about half a millisecond for each mebibyte @thread any
    Result<Digest> digest(BytesView bytes) const;

private:
    struct State;
    explicit KeyedHash(std::unique_ptr<State> state);
    std::unique_ptr<State> m_state;
};

/// A key of its own for each purpose, from one that is kept. @errors alloc_failed
Result<HashKey> derive_key(const HashKey& secret, std::string_view purpose, std::string_view name);

/// A key that nobody knows. @errors io (the system gives no random numbers)
Result<HashKey> random_key();

}  // namespace warpline::net
