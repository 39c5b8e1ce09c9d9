// Certificates of all kinds of keys that operators have, though OpenSSL is not given all of its algorithms.
#include <gtest/gtest.h>
#include <openssl/decoder.h>
#include <openssl/encoder.h>
#include <openssl/err.h>
#include <openssl/pem.h>

#include <cstring>

#include "common/net/tls_internal.h"
#include "tests/unit/net/tls_pair.h"

namespace warpline::net {
namespace {

using namespace test;

/// A library of its own for what makes the certificates, with all algorithms; the one that is tested has ours before.
OSSL_LIB_CTX* whole_openssl() {
    init_openssl();
    static OSSL_LIB_CTX* const library = OSSL_LIB_CTX_new();
    return library;
}

std::string text_of(BIO* bio) {
    char* data = nullptr;
    const long size = BIO_get_mem_data(bio, &data);
    return std::string(data, static_cast<size_t>(size));
}

struct Kind {
    const char* name;
    const char* type;
    const char* parameter = nullptr;
    const char* structure = "PrivateKeyInfo";
};

KeyPtr make_key(const Kind& kind) {
    EVP_PKEY_CTX* context = EVP_PKEY_CTX_new_from_name(whole_openssl(), kind.type, nullptr);
    EVP_PKEY* key = nullptr;
    EXPECT_EQ(EVP_PKEY_keygen_init(context), 1) << kind.name;
    if (kind.parameter != nullptr) {
        EXPECT_EQ(EVP_PKEY_CTX_set_group_name(context, kind.parameter), 1) << kind.name;
    }
    EXPECT_EQ(EVP_PKEY_generate(context, &key), 1) << kind.name;
    EVP_PKEY_CTX_free(context);
    return KeyPtr(key);
}

std::string key_pem(EVP_PKEY* key, const char* structure) {
    OSSL_ENCODER_CTX* encoder = OSSL_ENCODER_CTX_new_for_pkey(key, EVP_PKEY_KEYPAIR, "PEM", structure, nullptr);
    BioPtr bio(BIO_new(BIO_s_mem()));
    EXPECT_EQ(OSSL_ENCODER_to_bio(encoder, bio.get()), 1);
    OSSL_ENCODER_CTX_free(encoder);
    return text_of(bio.get());
}

void add_extension(X509* certificate, int nid, const char* value) {
    X509V3_CTX context;
    X509V3_set_ctx_nodb(&context);
    X509V3_set_ctx(&context, certificate, certificate, nullptr, nullptr, 0);
    std::unique_ptr<X509_EXTENSION, OpensslFree> extension(X509V3_EXT_conf_nid(nullptr, &context, nid, value));
    ASSERT_TRUE(extension && X509_add_ext(certificate, extension.get(), -1) == 1) << value;
}

/// Signs itself, and serves as its own authority, in either role.
TlsCredentials make(const Kind& kind) {
    const KeyPtr key = make_key(kind);
    if (!key) return {};
    X509Ptr certificate(X509_new_ex(whole_openssl(), nullptr));
    X509* c = certificate.get();
    X509_set_version(c, X509_VERSION_3);
    ASN1_INTEGER_set(X509_get_serialNumber(c), 4711);
    X509_gmtime_adj(X509_getm_notBefore(c), -300);
    X509_gmtime_adj(X509_getm_notAfter(c), 3600);
    X509_set_pubkey(c, key.get());
    X509_NAME_add_entry_by_NID(X509_get_subject_name(c), NID_commonName, MBSTRING_UTF8,
                               reinterpret_cast<const unsigned char*>(kind.name), -1, -1, 0);
    X509_set_issuer_name(c, X509_get_subject_name(c));
    add_extension(c, NID_basic_constraints, "critical,CA:TRUE");
    add_extension(c, NID_key_usage, "critical,digitalSignature,keyCertSign");
    add_extension(c, NID_ext_key_usage, "serverAuth,clientAuth");
    add_extension(c, NID_subject_alt_name, "IP:127.0.0.1");
    const bool hashes_itself = std::strncmp(kind.type, "ED", 2) == 0;
    EVP_MD* hash = hashes_itself ? nullptr : EVP_MD_fetch(whole_openssl(), "SHA2-384", nullptr);
    EXPECT_GT(X509_sign(c, key.get(), hash), 0) << kind.name;
    EVP_MD_free(hash);
    BioPtr bio(BIO_new(BIO_s_mem()));
    PEM_write_bio_X509(bio.get(), c);
    const std::string pem = text_of(bio.get());
    return {pem, pem, key_pem(key.get(), kind.structure)};
}

constexpr Kind k_kinds[] = {
    {"P-256", "EC", "P-256"}, {"P-256, as of old", "EC", "P-256", "type-specific"},
    {"P-384", "EC", "P-384"}, {"P-521", "EC", "P-521"},
    {"RSA", "RSA"},           {"RSA, as of old", "RSA", nullptr, "type-specific"},
    {"RSA-PSS", "RSA-PSS"},   {"Ed25519", "ED25519"},
    {"Ed448", "ED448"},
};

TEST(CertificateKinds, EachServesInBothRoles_F1) {
    for (const Kind& kind : k_kinds) {
        const TlsCredentials credentials = make(kind);
        const Pair pair = connect_pair(credentials, credentials);
        ASSERT_TRUE(pair.client.channel) << kind.name << ": " << pair.client.why;
        ASSERT_TRUE(pair.server.channel) << kind.name << ": " << pair.server.why;
        EXPECT_EQ(pair.server.channel->peer_name(), kind.name);
    }
}

// Of nobody, with the pass phrase "secret".
constexpr const char* k_encrypted_key =
    "-----BEGIN ENCRYPTED PRIVATE KEY-----\n"
    "MIHsMFcGCSqGSIb3DQEFDTBKMCkGCSqGSIb3DQEFDDAcBAgZsAAvPG8lrwICCAAw\n"
    "DAYIKoZIhvcNAgkFADAdBglghkgBZQMEASoEEFREcaIBZGdhQJLi4MG5BhMEgZAd\n"
    "e3k+CKSM8uMHr9Q5cynMm328y6ckH6tjUHySrZ9zI5Jhnrt/hZYQCQQ3ToBNniX1\n"
    "r/7pqNP6q9NJibdnF3sz6JcAUN4wXJ/kp1+Z2hhZq+YZ5xmyVmgDifTcT3l4dNED\n"
    "gaK4+34LCBjsI2ypKs6Q2ItWP40dFH6JXEJoYGwoDT3TtYyXCJXu/pd/T9GXY+A=\n"
    "-----END ENCRYPTED PRIVATE KEY-----\n";

TEST(CertificateKinds, KeysWithAPassPhraseAreRefused_F1) {
    TlsCredentials credentials = client_credentials();
    credentials.key_pem = k_encrypted_key;
    std::string why;
    EXPECT_FALSE(TlsContext::create(TlsRole::client, credentials, why).ok());
    EXPECT_NE(why.find("pass phrase"), std::string::npos) << why;
}

// Whoever asks for more gets it by a name in this file's list, and not by chance.
TEST(OpensslAlgorithms, AreThoseThatWeNeed_A1) {
    init_openssl();
    for (const char* name : {"AES-128-GCM", "ChaCha20-Poly1305"}) {
        EVP_CIPHER* cipher = EVP_CIPHER_fetch(nullptr, name, nullptr);
        EXPECT_TRUE(cipher) << name;
        EVP_CIPHER_free(cipher);
    }
    for (const char* name : {"DES-EDE3-CBC", "AES-128-CBC"}) EXPECT_FALSE(EVP_CIPHER_fetch(nullptr, name, nullptr)) << name;
    int kinds_of_keys = 0;
    EVP_KEYMGMT_do_all_provided(
        nullptr, [](EVP_KEYMGMT*, void* count) { ++*static_cast<int*>(count); }, &kinds_of_keys);
    EXPECT_EQ(kinds_of_keys, 8);
    int digests = 0, decoders = 0;
    EVP_MD_do_all_provided(
        nullptr, [](EVP_MD*, void* count) { ++*static_cast<int*>(count); }, &digests);
    EXPECT_EQ(digests, 11);
    OSSL_DECODER_do_all_provided(
        nullptr, [](OSSL_DECODER*, void* count) { ++*static_cast<int*>(count); }, &decoders);
    EXPECT_EQ(decoders, 13) << "whenever a key is read, each is held against all others";
    ERR_clear_error();
}

}  // namespace
}  // namespace warpline::net
