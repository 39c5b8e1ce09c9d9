// AES-128-GCM by instructions that OpenSSL 3.0 does not use: it encrypts block by block, 4 to 5 GB/s on a processor that
// does 9. The work itself is that of Intel's library; here it becomes a cipher of OpenSSL's.
#include "common/net/aes_gcm_vaes.h"

#include <cpuid.h>
#include <intel-ipsec-mb.h>
#include <openssl/core_dispatch.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/params.h>

#include <array>
#include <cstring>
#include <new>

// The library's header has them as fields of a structure alone, which it fills with all that it has: 8 MB of code.
extern "C" {
void aes_keyexp_128_enc_avx512(const void* key, void* expanded);
void aes_gcm_precomp_128_vaes_avx512(gcm_key_data* key);
using GcmCrypt = void(const gcm_key_data* key, gcm_context_data* context, uint8_t* out, const uint8_t* in, uint64_t bytes,
                      const uint8_t* nonce, const uint8_t* associated, uint64_t associated_bytes, uint8_t* tag,
                      uint64_t tag_bytes);
GcmCrypt aes_gcm_enc_128_vaes_avx512;
GcmCrypt aes_gcm_dec_128_vaes_avx512;
}

namespace warpline::net {

bool has_wide_aes() {
    unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
    // That the system keeps these registers is what the compilers' functions ask as well; of the rest not every one knows.
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl") && __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_VAES) &&
           (ecx & bit_VPCLMULQDQ) && (ecx & bit_GFNI);
}

namespace {

constexpr size_t k_key_bytes = 16;
constexpr size_t k_nonce_bytes = 12;
constexpr size_t k_tag_bytes = 16;
constexpr size_t k_most_associated_bytes = 64;  // a record's header has five

struct alignas(64) Cipher {
    gcm_key_data key{};
    gcm_context_data context{};
    std::array<uint8_t, k_nonce_bytes> nonce{};
    std::array<uint8_t, k_most_associated_bytes> associated{};
    std::array<uint8_t, k_tag_bytes> tag{};       // computed
    std::array<uint8_t, k_tag_bytes> expected{};  // of what is decrypted
    size_t associated_bytes = 0;
    bool encrypts = false, has_key = false, has_nonce = false, has_associated = false, is_done = false, has_expected = false;
};

Cipher& of(void* context) { return *static_cast<Cipher*>(context); }

void* make(void*) { return new (std::nothrow) Cipher; }

void destroy(void* context) {
    if (context == nullptr) return;
    OPENSSL_cleanse(context, sizeof(Cipher));
    delete static_cast<Cipher*>(context);
}

void* duplicate(void* context) { return new (std::nothrow) Cipher(of(context)); }

int set_parameters(void* context, const OSSL_PARAM parameters[]) {
    Cipher& cipher = of(context);
    if (const OSSL_PARAM* length = OSSL_PARAM_locate_const(parameters, OSSL_CIPHER_PARAM_AEAD_IVLEN)) {
        size_t bytes = 0;
        if (OSSL_PARAM_get_size_t(length, &bytes) != 1 || bytes != k_nonce_bytes) return 0;
    }
    if (const OSSL_PARAM* tag = OSSL_PARAM_locate_const(parameters, OSSL_CIPHER_PARAM_AEAD_TAG)) {
        if (cipher.encrypts || tag->data_type != OSSL_PARAM_OCTET_STRING || tag->data == nullptr ||
            tag->data_size != k_tag_bytes)
            return 0;
        std::memcpy(cipher.expected.data(), tag->data, k_tag_bytes);
        cipher.has_expected = true;
    }
    return 1;
}

int start(void* context, const unsigned char* key, size_t key_bytes, const unsigned char* nonce, size_t nonce_bytes,
          const OSSL_PARAM parameters[], bool encrypts) {
    Cipher& cipher = of(context);
    cipher.encrypts = encrypts;
    cipher.has_associated = cipher.is_done = cipher.has_expected = false;
    cipher.associated_bytes = 0;
    if (key != nullptr) {
        if (key_bytes != k_key_bytes) return 0;
        aes_keyexp_128_enc_avx512(key, cipher.key.expanded_keys);
        aes_gcm_precomp_128_vaes_avx512(&cipher.key);
        cipher.has_key = true;
    }
    if (nonce != nullptr) {
        if (nonce_bytes != k_nonce_bytes) return 0;
        std::memcpy(cipher.nonce.data(), nonce, k_nonce_bytes);
        cipher.has_nonce = true;
    }
    return set_parameters(context, parameters);
}

int start_encrypting(void* context, const unsigned char* key, size_t key_bytes, const unsigned char* nonce, size_t nonce_bytes,
                     const OSSL_PARAM parameters[]) {
    return start(context, key, key_bytes, nonce, nonce_bytes, parameters, true);
}

int start_decrypting(void* context, const unsigned char* key, size_t key_bytes, const unsigned char* nonce, size_t nonce_bytes,
                     const OSSL_PARAM parameters[]) {
    return start(context, key, key_bytes, nonce, nonce_bytes, parameters, false);
}

/// Without `out`: associated data. A nonce does for one message.
int update(void* context, unsigned char* out, size_t* out_bytes, size_t room, const unsigned char* in, size_t in_bytes) {
    Cipher& cipher = of(context);
    if (!cipher.has_key || !cipher.has_nonce || cipher.is_done) return 0;
    *out_bytes = in_bytes;
    if (out == nullptr) {
        if (cipher.has_associated || in_bytes > cipher.associated.size()) return 0;
        if (in_bytes > 0) std::memcpy(cipher.associated.data(), in, in_bytes);
        cipher.associated_bytes = in_bytes;
        cipher.has_associated = true;
        return 1;
    }
    if (room < in_bytes) return 0;
    (cipher.encrypts ? aes_gcm_enc_128_vaes_avx512 : aes_gcm_dec_128_vaes_avx512)(
        &cipher.key, &cipher.context, out, in, in_bytes, cipher.nonce.data(), cipher.associated.data(), cipher.associated_bytes,
        cipher.tag.data(), k_tag_bytes);
    cipher.is_done = true;
    cipher.has_nonce = false;
    return 1;
}

/// @return 0 as well where what was decrypted is not what was encrypted
int finish(void* context, unsigned char*, size_t* out_bytes, size_t) {
    Cipher& cipher = of(context);
    *out_bytes = 0;
    if (!cipher.is_done) {
        unsigned char none = 0;
        if (update(context, &none, out_bytes, 0, &none, 0) != 1) return 0;
    }
    if (cipher.encrypts) return 1;
    return cipher.has_expected && CRYPTO_memcmp(cipher.tag.data(), cipher.expected.data(), k_tag_bytes) == 0 ? 1 : 0;
}

int set_number(OSSL_PARAM parameters[], const char* name, size_t value) {
    OSSL_PARAM* asked = OSSL_PARAM_locate(parameters, name);
    return asked == nullptr || OSSL_PARAM_set_size_t(asked, value) == 1 ? 1 : 0;
}

int tell(OSSL_PARAM parameters[]) {
    for (const char* flag : {OSSL_CIPHER_PARAM_AEAD, OSSL_CIPHER_PARAM_CUSTOM_IV}) {
        OSSL_PARAM* asked = OSSL_PARAM_locate(parameters, flag);
        if (asked != nullptr && OSSL_PARAM_set_int(asked, 1) != 1) return 0;
    }
    OSSL_PARAM* mode = OSSL_PARAM_locate(parameters, OSSL_CIPHER_PARAM_MODE);
    if (mode != nullptr && OSSL_PARAM_set_uint(mode, EVP_CIPH_GCM_MODE) != 1) return 0;
    return set_number(parameters, OSSL_CIPHER_PARAM_KEYLEN, k_key_bytes) &
           set_number(parameters, OSSL_CIPHER_PARAM_IVLEN, k_nonce_bytes) &
           set_number(parameters, OSSL_CIPHER_PARAM_BLOCK_SIZE, 1);
}

int tell_of_one(void* context, OSSL_PARAM parameters[]) {
    const Cipher& cipher = of(context);
    OSSL_PARAM* tag = OSSL_PARAM_locate(parameters, OSSL_CIPHER_PARAM_AEAD_TAG);
    if (tag != nullptr && (!cipher.encrypts || !cipher.is_done || tag->data_size != k_tag_bytes ||
                           OSSL_PARAM_set_octet_string(tag, cipher.tag.data(), k_tag_bytes) != 1))
        return 0;
    return set_number(parameters, OSSL_CIPHER_PARAM_KEYLEN, k_key_bytes) &
           set_number(parameters, OSSL_CIPHER_PARAM_IVLEN, k_nonce_bytes) &
           set_number(parameters, OSSL_CIPHER_PARAM_AEAD_TAGLEN, k_tag_bytes);
}

const OSSL_PARAM* told(void*) {
    static const OSSL_PARAM parameters[] = {OSSL_PARAM_uint(OSSL_CIPHER_PARAM_MODE, nullptr),
                                            OSSL_PARAM_size_t(OSSL_CIPHER_PARAM_KEYLEN, nullptr),
                                            OSSL_PARAM_size_t(OSSL_CIPHER_PARAM_IVLEN, nullptr),
                                            OSSL_PARAM_size_t(OSSL_CIPHER_PARAM_BLOCK_SIZE, nullptr),
                                            OSSL_PARAM_int(OSSL_CIPHER_PARAM_AEAD, nullptr),
                                            OSSL_PARAM_int(OSSL_CIPHER_PARAM_CUSTOM_IV, nullptr),
                                            OSSL_PARAM_END};
    return parameters;
}

const OSSL_PARAM* told_of_one(void*, void*) {
    static const OSSL_PARAM parameters[] = {OSSL_PARAM_size_t(OSSL_CIPHER_PARAM_KEYLEN, nullptr),
                                            OSSL_PARAM_size_t(OSSL_CIPHER_PARAM_IVLEN, nullptr),
                                            OSSL_PARAM_size_t(OSSL_CIPHER_PARAM_AEAD_TAGLEN, nullptr),
                                            OSSL_PARAM_octet_string(OSSL_CIPHER_PARAM_AEAD_TAG, nullptr, 0), OSSL_PARAM_END};
    return parameters;
}

const OSSL_PARAM* taken(void*, void*) {
    static const OSSL_PARAM parameters[] = {OSSL_PARAM_size_t(OSSL_CIPHER_PARAM_AEAD_IVLEN, nullptr),
                                            OSSL_PARAM_octet_string(OSSL_CIPHER_PARAM_AEAD_TAG, nullptr, 0), OSSL_PARAM_END};
    return parameters;
}

}  // namespace

const OSSL_DISPATCH* wide_aes_128_gcm() {
    const auto entry = [](int number, auto* function) { return OSSL_DISPATCH{number, reinterpret_cast<void (*)()>(function)}; };
    static const OSSL_DISPATCH functions[] = {
        entry(OSSL_FUNC_CIPHER_NEWCTX, make),
        entry(OSSL_FUNC_CIPHER_FREECTX, destroy),
        entry(OSSL_FUNC_CIPHER_DUPCTX, duplicate),
        entry(OSSL_FUNC_CIPHER_ENCRYPT_INIT, start_encrypting),
        entry(OSSL_FUNC_CIPHER_DECRYPT_INIT, start_decrypting),
        entry(OSSL_FUNC_CIPHER_UPDATE, update),
        entry(OSSL_FUNC_CIPHER_FINAL, finish),
        entry(OSSL_FUNC_CIPHER_GET_PARAMS, tell),
        entry(OSSL_FUNC_CIPHER_GET_CTX_PARAMS, tell_of_one),
        entry(OSSL_FUNC_CIPHER_SET_CTX_PARAMS, set_parameters),
        entry(OSSL_FUNC_CIPHER_GETTABLE_PARAMS, told),
        entry(OSSL_FUNC_CIPHER_GETTABLE_CTX_PARAMS, told_of_one),
        entry(OSSL_FUNC_CIPHER_SETTABLE_CTX_PARAMS, taken),
        {0, nullptr},
    };
    return functions;
}

}  // namespace warpline::net
