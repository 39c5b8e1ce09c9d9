// AES-128-GCM by instructions that OpenSSL 3.0 does not use.
#pragma once

#include <openssl/core.h>

namespace warpline::net {

/// OpenSSL takes no other names for properties than its own.
inline constexpr char k_wide_aes_properties[] = "provider=warpline";
/// What who fetches AES-128-GCM asks for, to have this one where it is there.
inline constexpr char k_wide_aes_wanted[] = "?provider=warpline";

/// True where the processor encrypts four blocks with one instruction (VAES and VPCLMULQDQ on AVX-512).
bool has_wide_aes();

/// AES-128-GCM as TLS 1.3 has it, for a provider of OpenSSL: a nonce of 12 bytes, the associated data in one piece, then the
/// data in one piece; all else fails. Of processors for which has_wide_aes() holds.
const OSSL_DISPATCH* wide_aes_128_gcm();

}  // namespace warpline::net
