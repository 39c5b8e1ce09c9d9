// A digest that only libcudart's validity check still needs.
#pragma once

#include <array>
#include <cstdint>

#include "common/base/bytes.h"

namespace warpline::cuda::abi {

using Md2Digest = std::array<uint8_t, 16>;

/// The MD2 digest [RFC 1319]. Long broken as a hash; libcudart's validity check is built on it.
Md2Digest md2(BytesView message);

/// HMAC over MD2, whose block has 16 bytes [RFC 2104]. Keys longer than a block are hashed first.
Md2Digest hmac_md2(BytesView key, BytesView message);

}  // namespace warpline::cuda::abi
