// HMAC of OpenSSL, with what depends on the key computed once.
#include "common/net/keyed_hash.h"

#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <openssl/rand.h>

#include <string>

#include "common/net/tls_internal.h"

namespace warpline::net {

namespace {

struct MacFree {
    void operator()(EVP_MAC* mac) const { EVP_MAC_free(mac); }
    void operator()(EVP_MAC_CTX* context) const { EVP_MAC_CTX_free(context); }
};

constexpr Error k_no_hash{Code::alloc_failed, "no memory for a hash"};

}  // namespace

struct KeyedHash::State {
    explicit State(EVP_MAC_CTX* context) : with_key(context) {}
    ~State() { EVP_MAC_CTX_free(with_key); }
    State(const State&) = delete;
    State& operator=(const State&) = delete;
    EVP_MAC_CTX* const with_key;
};

KeyedHash::KeyedHash(std::unique_ptr<State> state) : m_state(std::move(state)) {}
KeyedHash::~KeyedHash() = default;
KeyedHash::KeyedHash(KeyedHash&&) noexcept = default;
KeyedHash& KeyedHash::operator=(KeyedHash&&) noexcept = default;

Result<KeyedHash> KeyedHash::create(const HashKey& key) {
    init_openssl();
    const std::unique_ptr<EVP_MAC, MacFree> mac(EVP_MAC_fetch(nullptr, "HMAC", nullptr));
    if (!mac) return k_no_hash;
    auto state = std::make_unique<State>(EVP_MAC_CTX_new(mac.get()));
    char name[] = "SHA256";
    const OSSL_PARAM params[] = {OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, name, 0), OSSL_PARAM_construct_end()};
    if (state->with_key == nullptr || EVP_MAC_init(state->with_key, key.data(), key.size(), params) != 1) return k_no_hash;
    return KeyedHash(std::move(state));
}

Result<Digest> KeyedHash::digest(BytesView bytes) const {
    const std::unique_ptr<EVP_MAC_CTX, MacFree> context(EVP_MAC_CTX_dup(m_state->with_key));
    Digest digest;
    size_t length = 0;
    if (!context || EVP_MAC_update(context.get(), reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size()) != 1 ||
        EVP_MAC_final(context.get(), digest.data(), &length, digest.size()) != 1 || length != digest.size())
        return k_no_hash;
    return digest;
}

Result<HashKey> derive_key(const HashKey& secret, std::string_view purpose, std::string_view name) {
    const KeyedHash hash = WL_TRY(KeyedHash::create(secret));
    // The zero between them is in neither.
    std::string text(purpose);
    text += '\0';
    text += name;
    return hash.digest(as_bytes(text));
}

Result<HashKey> random_key() {
    init_openssl();
    HashKey key;
    if (RAND_bytes(key.data(), static_cast<int>(key.size())) != 1) return Error{Code::io, "the system gives no random numbers"};
    return key;
}

}  // namespace warpline::net
