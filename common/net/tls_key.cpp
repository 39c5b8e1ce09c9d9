// Pre-shared keys as OpenSSL takes them: as a session of old that nobody has had.
#include <openssl/crypto.h>

#include "common/net/tls_internal.h"

namespace warpline::net {

namespace {

using SessionPtr = std::unique_ptr<SSL_SESSION, OpensslFree>;
/// TLS_AES_128_GCM_SHA256. Whichever suite is chosen: only its hash function belongs to the key.
constexpr unsigned char k_suite[] = {0x13, 0x01};

int key_index() {
    static const int index = SSL_get_ex_new_index(0, nullptr, nullptr, nullptr, nullptr);
    return index;
}

const PresharedKey* key_of(const SSL* ssl) { return static_cast<const PresharedKey*>(SSL_get_ex_data(ssl, key_index())); }

SessionPtr session_of(SSL* ssl, const PresharedKey& key) {
    const SSL_CIPHER* suite = SSL_CIPHER_find(ssl, k_suite);
    SessionPtr session(SSL_SESSION_new());
    const auto* secret = reinterpret_cast<const unsigned char*>(key.key.data());
    if (suite == nullptr || !session || SSL_SESSION_set1_master_key(session.get(), secret, key.key.size()) != 1 ||
        SSL_SESSION_set_cipher(session.get(), suite) != 1 ||
        SSL_SESSION_set_protocol_version(session.get(), TLS1_3_VERSION) != 1) {
        return nullptr;
    }
    return session;
}

int offer_key(SSL* ssl, const EVP_MD*, const unsigned char** identity, size_t* length, SSL_SESSION** session) {
    const PresharedKey& key = *key_of(ssl);
    *session = session_of(ssl, key).release();
    *identity = reinterpret_cast<const unsigned char*>(key.identity.data());
    *length = key.identity.size();
    return *session != nullptr ? 1 : 0;
}

int find_key(SSL* ssl, const unsigned char* identity, size_t length, SSL_SESSION** session) {
    const PresharedKey& key = *key_of(ssl);
    *session = nullptr;
    if (length != key.identity.size() || CRYPTO_memcmp(identity, key.identity.data(), length) != 0) return 1;
    *session = session_of(ssl, key).release();
    return *session != nullptr ? 1 : 0;
}

}  // namespace

Result<void> use_key(SSL* ssl, TlsRole role, const PresharedKey& key) {
    if (key.identity.empty()) return Error{Code::bad_argument, "a pre-shared key has no name"};
    if (SSL_set_ex_data(ssl, key_index(), const_cast<PresharedKey*>(&key)) != 1)
        return Error{Code::alloc_failed, "no memory for TLS"};
    if (role == TlsRole::client) {
        SSL_set_psk_use_session_callback(ssl, offer_key);
    } else {
        SSL_set_psk_find_session_callback(ssl, find_key);
    }
    return {};
}

}  // namespace warpline::net
