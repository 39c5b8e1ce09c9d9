// The algorithms of OpenSSL that this process has. As soon as one of a kind is wanted, OpenSSL 3 makes objects of all of that
// kind that its provider has, 124 ciphers among them, and asks every decoder of every kind of key what a certificate's key may
// be: 3 ms of each program's start. So its provider is loaded here with what TLS 1.3 as we speak it, and certificates, can
// need; nothing else is there.
#include <openssl/core_dispatch.h>
#include <openssl/provider.h>

#include <algorithm>
#include <map>
#include <string_view>
#include <vector>

#include "common/log/log.h"
#include "common/net/tls_internal.h"

// Of the static library; its headers name it to OpenSSL alone.
extern "C" OSSL_provider_init_fn ossl_default_provider_init;

namespace warpline::net {

namespace {

// Those of the cipher suites in tls_context.cpp, and what the generator of random numbers is made of.
constexpr std::string_view k_ciphers[] = {"AES-128-GCM", "ChaCha20-Poly1305", "AES-256-CTR", "AES-256-ECB"};

// Kinds of keys in certificates, of the groups in tls_context.cpp, and what else TLS has keys for. DER: the frame of all of
// them.
constexpr std::string_view k_keys[] = {"EC",      "ECDSA", "ECDH", "X25519", "RSA", "RSA-PSS",
                                       "ED25519", "ED448", "HKDF", "HMAC",   "DER"};

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

void choose(void* provider, int kind, const auto& names) {
    int is_asked_again = 0;
    Algorithms& list = ours()[kind];
    for (const OSSL_ALGORITHM* a = g_theirs(provider, kind, &is_asked_again); a != nullptr && a->algorithm_names != nullptr;
         ++a)
        if (is_one_of(*a, names)) list.push_back(*a);
    list.push_back({});  // its end
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
    for (const int kind : {OSSL_OP_KEYMGMT, OSSL_OP_KEYEXCH, OSSL_OP_SIGNATURE, OSSL_OP_ASYM_CIPHER, OSSL_OP_DECODER})
        choose(*provider, kind, k_keys);
    return 1;
}

}  // namespace

void load_algorithms() {
    // OpenSSL loads its own one by itself where there is no other.
    if (OSSL_PROVIDER_add_builtin(nullptr, "warpline", start) != 1 || OSSL_PROVIDER_load(nullptr, "warpline") == nullptr)
        WL_LOG(warn, "tls", "OpenSSL does not take its algorithms from us, and has all of them: starts take longer");
}

}  // namespace warpline::net
