// OpenSSL's types for the files that use it.
#pragma once

#include <openssl/bio.h>
#include <openssl/bn.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <memory>
#include <mutex>
#include <string>

#include "common/net/tls.h"

// Shared by the .cpp files of TLS; not for anybody else, as OpenSSL is kept out of headers.

namespace warpline::net {

struct OpensslFree {
    void operator()(SSL_CTX* ctx) const { SSL_CTX_free(ctx); }
    void operator()(SSL* ssl) const { SSL_free(ssl); }
    void operator()(SSL_SESSION* session) const { SSL_SESSION_free(session); }
    void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
    void operator()(X509* certificate) const { X509_free(certificate); }
    void operator()(X509_EXTENSION* extension) const { X509_EXTENSION_free(extension); }
    void operator()(BIO* bio) const { BIO_free(bio); }
    void operator()(BIGNUM* number) const { BN_free(number); }
    void operator()(STACK_OF(X509) * certificates) const { sk_X509_pop_free(certificates, X509_free); }
};
using KeyPtr = std::unique_ptr<EVP_PKEY, OpensslFree>;
using X509Ptr = std::unique_ptr<X509, OpensslFree>;
using BioPtr = std::unique_ptr<BIO, OpensslFree>;

/// What we show to the other side; empty without certificates.
struct OwnCertificate {
    X509Ptr certificate;
    std::unique_ptr<STACK_OF(X509), OpensslFree> intermediates;
    KeyPtr key;
};

struct TlsContext::State {
    TlsRole role = TlsRole::client;
    std::unique_ptr<SSL_CTX, OpensslFree> ctx;
    std::optional<TlsCredentials> credentials;  ///< until they are decoded

    /// Decodes the credentials, once; whoever comes later gets the same outcome. @errors auth_failed, with `text` @thread any
    Result<void> decode(std::string& text);
    /// Has a connection show our certificate, decoded before. @errors auth_failed
    Result<void> use_own(SSL* ssl) const;

private:
    std::once_flag decoded;
    OwnCertificate own;
    Result<void> outcome;
    std::string why;
};

/// Prepares OpenSSL, once: no exit handler (calls arrive after main), no configuration file (it is the program's, not ours),
/// and not more algorithms than are needed. Before anything else is asked of it. @thread any
void init_openssl();
/// The part of init_openssl() in which OpenSSL is given its algorithms.
void load_algorithms();

/// What the verification of a peer's certificate found; filled by the verify callback.
struct VerifyReport {
    int error = 0;               ///< X509_V_ERR_…, 0 if there was none
    std::string subject;         ///< CN of the certificate at fault
    bool by_key = false;         ///< a pre-shared key was meant to do
    bool key_is_proved = false;  ///< and has done, as far as this side can tell
};
int verify_callback(int preverified, X509_STORE_CTX* store);
/// The index at which a channel's VerifyReport hangs on its SSL.
int verify_report_index();

/// Has a connection offer this key, or take it, by its role. The key belongs to the caller, and outlives the handshake.
Result<void> use_key(SSL* ssl, TlsRole role, const PresharedKey& key);

/// The subject's CN, or "" if there is none or it has bytes that do not belong into a name.
std::string common_name(X509* certificate);

/// Takes the oldest entry of this thread's error queue, as a reason number and as text.
struct SslError {
    int reason = 0;
    std::string text;
};
SslError take_ssl_error();

/// Turns a failure of the handshake, or an alert afterwards, into our code and a sentence.
Error explain_ssl_error(TlsRole role, const SslError& error, const VerifyReport& report, const std::string& server_name,
                        std::string& why);

}  // namespace warpline::net
