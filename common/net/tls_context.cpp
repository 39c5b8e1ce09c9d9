// Certificates and keys as OpenSSL takes them.
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <atomic>
#include <cerrno>
#include <fstream>
#include <mutex>
#include <sstream>

#include "common/net/aes_gcm_vaes.h"
#include "common/net/tls_internal.h"

namespace warpline::net {

namespace {

BioPtr bio_of(const std::string& text) { return BioPtr(BIO_new_mem_buf(text.data(), static_cast<int>(text.size()))); }

// A key with a pass phrase would make OpenSSL ask on the terminal.
int no_pass_phrase(char*, int, int, void*) { return 0; }

X509Ptr next_certificate(BIO* bio) { return X509Ptr(PEM_read_bio_X509(bio, nullptr, no_pass_phrase, nullptr)); }

constexpr Error k_bad_credentials{Code::auth_failed, "certificates or key are not usable"};

Result<void> use_ca(SSL_CTX* ctx, const std::string& pem, std::string& why) {
    BioPtr bio = bio_of(pem);
    X509_STORE* store = SSL_CTX_get_cert_store(ctx);
    int count = 0;
    while (X509Ptr certificate = next_certificate(bio.get())) {
        if (X509_STORE_add_cert(store, certificate.get()) != 1) break;
        SSL_CTX_add_client_CA(ctx, certificate.get());
        ++count;
    }
    ERR_clear_error();
    if (count > 0) return {};
    why = "the CA file has no certificate in it";
    return k_bad_credentials;
}

Result<OwnCertificate> decode_own(const TlsCredentials& credentials, std::string& why) {
    OwnCertificate own;
    BioPtr bio = bio_of(credentials.certificate_pem);
    own.certificate = next_certificate(bio.get());
    if (!own.certificate) {
        why = "the certificate file has no usable certificate in it";
        return k_bad_credentials;
    }
    own.intermediates.reset(sk_X509_new_null());
    while (X509Ptr intermediate = next_certificate(bio.get()))
        if (sk_X509_push(own.intermediates.get(), intermediate.get()) > 0) (void)intermediate.release();
    BioPtr key_bio = bio_of(credentials.key_pem);
    own.key.reset(PEM_read_bio_PrivateKey(key_bio.get(), nullptr, no_pass_phrase, nullptr));
    if (!own.key) {
        why = "the key file has no usable private key in it (keys with a pass phrase are not supported)";
        return k_bad_credentials;
    }
    if (X509_check_private_key(own.certificate.get(), own.key.get()) != 1) {
        why = "the private key does not belong to the certificate";
        return k_bad_credentials;
    }
    ERR_clear_error();
    return own;
}

Result<std::string> read_file(const std::string& path, const char* what, std::string& why) {
    errno = 0;
    std::ifstream file(path, std::ios::binary);
    std::ostringstream text;
    if (file) text << file.rdbuf();
    if (!file || !text) {
        int error = errno;
        why = std::string(what) + " " + path + ": " + (error ? std::strerror(error) : "cannot be read");
        return Error{error == ENOENT ? Code::not_configured : Code::io, "a certificate or key file cannot be read",
                     static_cast<uint32_t>(error)};
    }
    return text.str();
}

}  // namespace

void init_openssl() {
    static std::once_flag once;
    std::call_once(once, [] {
        // Texts of errors are loaded when one is wanted (take_ssl_error), names of ciphers are nobody's, and those of digests
        // come with the algorithms: a millisecond of each start.
        OPENSSL_init_ssl(OPENSSL_INIT_NO_ATEXIT | OPENSSL_INIT_NO_LOAD_CONFIG | OPENSSL_INIT_NO_LOAD_SSL_STRINGS |
                             OPENSSL_INIT_NO_LOAD_CRYPTO_STRINGS | OPENSSL_INIT_NO_ADD_ALL_CIPHERS |
                             OPENSSL_INIT_NO_ADD_ALL_DIGESTS,
                         nullptr);
        load_algorithms();
    });
}

Result<TlsCredentials> load_credentials(const std::string& ca_file, const std::string& certificate_file,
                                        const std::string& key_file, std::string& why) {
    TlsCredentials credentials;
    credentials.ca_pem = WL_TRY(read_file(ca_file, "CA certificate", why));
    credentials.certificate_pem = WL_TRY(read_file(certificate_file, "certificate", why));
    credentials.key_pem = WL_TRY(read_file(key_file, "private key", why));
    return credentials;
}

TlsContext::TlsContext(std::shared_ptr<State> state) : m_state(std::move(state)) {}
TlsContext::TlsContext(TlsContext&&) noexcept = default;
TlsContext& TlsContext::operator=(TlsContext&&) noexcept = default;
TlsContext::~TlsContext() = default;
TlsRole TlsContext::role() const { return m_state->role; }

namespace {
std::atomic<bool> g_wide_aes{true};
}

void use_wide_aes(bool wanted) { g_wide_aes.store(wanted, std::memory_order_relaxed); }

namespace {

Result<std::shared_ptr<TlsContext::State>> make_state(TlsRole role) {
    init_openssl();
    auto state = std::make_shared<TlsContext::State>();
    state->role = role;
    state->ctx.reset(SSL_CTX_new_ex(nullptr, g_wide_aes.load(std::memory_order_relaxed) ? k_wide_aes_wanted : nullptr,
                                    role == TlsRole::client ? TLS_client_method() : TLS_server_method()));
    SSL_CTX* ctx = state->ctx.get();
    if (!ctx) return Error{Code::alloc_failed, "no memory for TLS"};
    bool set = SSL_CTX_set_min_proto_version(ctx, TLS1_3_VERSION) == 1 &&
               SSL_CTX_set_max_proto_version(ctx, TLS1_3_VERSION) == 1 &&
               SSL_CTX_set_ciphersuites(ctx, "TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256") == 1 &&
               SSL_CTX_set1_groups_list(ctx, "X25519:P-256") == 1;
    if (!set) return Error{Code::internal, "TLS 1.3 cannot be set up"};
    // No tickets and no cache: a session of ours lives longer than a connection's keys should.
    SSL_CTX_set_num_tickets(ctx, 0);
    SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_options(ctx, SSL_OP_NO_TICKET | SSL_OP_NO_COMPRESSION);
    SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, verify_callback);
    return state;
}

}  // namespace

Result<void> TlsContext::State::decode(std::string& text) {
    std::call_once(decoded, [&] {
        if (!credentials) return;
        outcome = [&]() -> Result<void> {
            WL_TRY(use_ca(ctx.get(), credentials->ca_pem, why));
            own = WL_TRY(decode_own(*credentials, why));
            return {};
        }();
        credentials.reset();
    });
    if (!outcome.ok()) text = why;
    return outcome;
}

Result<void> TlsContext::State::use_own(SSL* ssl) const {
    if (!own.certificate) return {};
    if (SSL_use_cert_and_key(ssl, own.certificate.get(), own.key.get(), own.intermediates.get(), 1) == 1) return {};
    return k_bad_credentials;
}

Result<TlsContext> TlsContext::create(TlsRole role, const TlsCredentials& credentials, std::string& why) {
    auto context = WL_TRY(create_undecoded(role, credentials));
    WL_TRY(context.m_state->decode(why));
    return context;
}

Result<TlsContext> TlsContext::create_undecoded(TlsRole role, const TlsCredentials& credentials) {
    auto state = WL_TRY(make_state(role));
    state->credentials = credentials;
    return TlsContext(std::move(state));
}

Result<TlsContext> TlsContext::create_for_keys(TlsRole role) {
    auto state = WL_TRY(make_state(role));
    // A server that wants certificates, and has none, could not take up keys either: OpenSSL treats them as sessions of old.
    if (role == TlsRole::server) SSL_CTX_set_verify(state->ctx.get(), SSL_VERIFY_NONE, nullptr);
    return TlsContext(std::move(state));
}

}  // namespace warpline::net
