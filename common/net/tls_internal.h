#pragma once

#include <openssl/ssl.h>

#include <memory>
#include <string>

#include "common/net/tls.h"

// Shared by the .cpp files of TLS; not for anybody else, as OpenSSL is kept out of headers.

namespace warpline::net {

struct SslCtxDeleter {
    void operator()(SSL_CTX* ctx) const { SSL_CTX_free(ctx); }
};
struct SslDeleter {
    void operator()(SSL* ssl) const { SSL_free(ssl); }
};

struct TlsContext::State {
    TlsRole role = TlsRole::client;
    std::unique_ptr<SSL_CTX, SslCtxDeleter> ctx;
};

/// Prepares OpenSSL, once: no exit handler (calls arrive after main), no configuration file (it is the program's, not ours).
void init_openssl();

/// What the verification of a peer's certificate found; filled by the verify callback.
struct VerifyReport {
    int error = 0;        ///< X509_V_ERR_…, 0 if there was none
    std::string subject;  ///< CN of the certificate at fault
};
int verify_callback(int preverified, X509_STORE_CTX* store);
/// The index at which a channel's VerifyReport hangs on its SSL.
int verify_report_index();

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
