// The algorithms of OpenSSL that this process has. As soon as one of a kind is wanted, OpenSSL 3 makes objects of all of that
// kind that its provider has, 124 ciphers among them, and whenever it reads a key it holds all decoders that it has against
// those that may be of use: 3 ms of each program's start, and more. So its provider is loaded here with what TLS 1.3 as we
// speak it, and certificates, can need; nothing else is there but a quicker AES-128-GCM.
#include <openssl/core_dispatch.h>
#include <openssl/evp.h>
#include <openssl/provider.h>

#include <algorithm>
#include <map>
#include <string_view>
#include <vector>

#include "common/log/log.h"
#include "common/net/aes_gcm_vaes.h"
#include "common/net/tls_internal.h"

// Of the static library; its headers name it to OpenSSL alone.
extern "C" OSSL_provider_init_fn ossl_default_provider_init;

namespace warpline::net {

namespace {

// Those of the cipher suites in tls_context.cpp, and what the generator of random numbers is made of.
constexpr std::string_view k_ciphers[] = {"AES-128-GCM", "ChaCha20-Poly1305", "AES-256-CTR", "AES-256-ECB"};

// Of what certificates are signed with (Ed448 is made of SHAKE), of their names, and of what libssl asks for.
constexpr std::string_view k_digests[] = {"SHA1",     "SHA2-224", "SHA2-256",  "SHA2-384", "SHA2-512", "SHA3-256",
                                          "SHA3-384", "SHA3-512", "SHAKE-256", "MD5",      "MD5-SHA1"};

// TLS's, and the keyed hash of uploads.
constexpr std::string_view k_macs[] = {"HMAC"};
constexpr std::string_view k_derivations[] = {"HKDF", "TLS13-KDF"};
constexpr std::string_view k_randoms[] = {"CTR-DRBG", "SEED-SRC"};

// Kinds of keys in certificates, of the groups in tls_context.cpp, and what else TLS has keys for.
constexpr std::string_view k_keys[] = {"EC", "ECDSA", "ECDH", "X25519", "RSA", "RSA-PSS", "ED25519", "ED448", "HKDF", "HMAC"};

// Keys of these kinds are read, in these forms: of certificates, and of files with BEGIN PRIVATE KEY or BEGIN EC PRIVATE KEY.
constexpr std::string_view k_read_keys[] = {"EC", "RSA", "RSA-PSS", "ED25519", "ED448"};
constexpr std::string_view k_read_forms[] = {"structure=SubjectPublicKeyInfo", "structure=PrivateKeyInfo",
                                             "structure=type-specific"};

using Algorithms = std::vector<OSSL_ALGORITHM>;

/// By kind (OSSL_OP_…). Never destroyed: calls arrive after main.
std::map<int, Algorithms>& ours() {
    static auto& lists = *new std::map<int, Algorithms>;
    return lists;
}

OSSL_FUNC_provider_query_operation_fn* g_theirs = nullptr;

/// An algorithm's names are "AES-256-CTR:2.16.840.1.101.3.4.1.46".
bool is_one_of(const OSSL_ALGORITHM& algorithm, const auto& names) {
    const std::string_view all = algorithm.algorithm_names;
    return std::find(std::begin(names), std::end(names), all.substr(0, all.find(':'))) != std::end(names);
}

/// Of PEM itself, and of what is in it. The form is the last of an algorithm's properties.
bool is_decoder_in_use(const OSSL_ALGORITHM& algorithm) {
    const std::string_view properties = algorithm.property_definition;
    if (is_one_of(algorithm, std::initializer_list<std::string_view>{"DER"})) return properties.ends_with("input=pem");
    return is_one_of(algorithm, k_read_keys) && std::any_of(std::begin(k_read_forms), std::end(k_read_forms),
                                                            [&](std::string_view form) { return properties.ends_with(form); });
}

void choose_if(void* provider, int kind, const auto& is_wanted) {
    int is_asked_again = 0;
    Algorithms& list = ours()[kind];
    for (const OSSL_ALGORITHM* a = g_theirs(provider, kind, &is_asked_again); a != nullptr && a->algorithm_names != nullptr;
         ++a)
        if (is_wanted(*a)) list.push_back(*a);
    list.push_back({});  // its end
}

void choose(void* provider, int kind, const auto& names) {
    choose_if(provider, kind, [&](const OSSL_ALGORITHM& algorithm) { return is_one_of(algorithm, names); });
}

/// Behind OpenSSL's own one, which who asks for no property gets.
void add_wide_aes(Algorithms& ciphers) {
    const auto theirs = std::find_if(ciphers.begin(), ciphers.end(), [](const OSSL_ALGORITHM& cipher) {
        return cipher.algorithm_names != nullptr && is_one_of(cipher, std::initializer_list<std::string_view>{"AES-128-GCM"});
    });
    if (theirs == ciphers.end()) return;
    const OSSL_ALGORITHM wide{theirs->algorithm_names, k_wide_aes_properties, wide_aes_128_gcm(), nullptr};
    ciphers.insert(ciphers.end() - 1, wide);
}

const OSSL_ALGORITHM* query(void* provider, int kind, int* is_asked_again) {
    const auto list = ours().find(kind);
    if (list == ours().end()) return g_theirs(provider, kind, is_asked_again);
    *is_asked_again = 0;
    return list->second.data();
}

/// OpenSSL's own provider, but for the question what it has.
int start(const OSSL_CORE_HANDLE* core, const OSSL_DISPATCH* offered, const OSSL_DISPATCH** functions, void** provider) {
    const OSSL_DISPATCH* given = nullptr;
    if (ossl_default_provider_init(core, offered, &given, provider) != 1) return 0;
    static auto& with_ours = *new std::vector<OSSL_DISPATCH>;
    for (; given->function_id != 0; ++given) {
        with_ours.push_back(*given);
        if (given->function_id != OSSL_FUNC_PROVIDER_QUERY_OPERATION) continue;
        g_theirs = OSSL_FUNC_provider_query_operation(given);
        with_ours.back().function = reinterpret_cast<void (*)()>(query);
    }
    with_ours.push_back({});  // its end
    *functions = with_ours.data();
    choose(*provider, OSSL_OP_CIPHER, k_ciphers);
    if (has_wide_aes()) add_wide_aes(ours()[OSSL_OP_CIPHER]);
    choose(*provider, OSSL_OP_DIGEST, k_digests);
    choose(*provider, OSSL_OP_MAC, k_macs);
    choose(*provider, OSSL_OP_KDF, k_derivations);
    choose(*provider, OSSL_OP_RAND, k_randoms);
    for (const int kind : {OSSL_OP_KEYMGMT, OSSL_OP_KEYEXCH, OSSL_OP_SIGNATURE, OSSL_OP_ASYM_CIPHER})
        choose(*provider, kind, k_keys);
    choose_if(*provider, OSSL_OP_DECODER, is_decoder_in_use);
    return 1;
}

}  // namespace

void load_algorithms() {
    // OpenSSL loads its own one by itself where there is no other.
    if (OSSL_PROVIDER_add_builtin(nullptr, "warpline", start) != 1 || OSSL_PROVIDER_load(nullptr, "warpline") == nullptr)
        WL_LOG(warn, "tls", "OpenSSL does not take its algorithms from us, and has all of them: starts take longer");
    // By these, libcrypto finds what a signature's number stands for.
    for (const EVP_MD* named : {EVP_sha1(), EVP_sha224(), EVP_sha256(), EVP_sha384(), EVP_sha512(), EVP_sha3_256(),
                                EVP_sha3_384(), EVP_sha3_512(), EVP_md5_sha1()})
        EVP_add_digest(named);
}

}  // namespace warpline::net
