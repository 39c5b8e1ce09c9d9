// Why TLS failed, in words that help a user.
#include <openssl/err.h>
#include <openssl/sslerr.h>
#include <openssl/x509v3.h>

#include "common/net/tls_internal.h"

namespace warpline::net {

int verify_report_index() {
    static const int index = SSL_get_ex_new_index(0, nullptr, nullptr, nullptr, nullptr);
    return index;
}

int verify_callback(int preverified, X509_STORE_CTX* store) {
    if (preverified) return 1;
    auto* ssl = static_cast<SSL*>(X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx()));
    auto* report = ssl ? static_cast<VerifyReport*>(SSL_get_ex_data(ssl, verify_report_index())) : nullptr;
    if (report && report->error == 0) {
        report->error = X509_STORE_CTX_get_error(store);
        if (X509* certificate = X509_STORE_CTX_get_current_cert(store)) report->subject = common_name(certificate);
    }
    return 0;
}

std::string common_name(X509* certificate) {
    X509_NAME* name = X509_get_subject_name(certificate);
    int index = X509_NAME_get_index_by_NID(name, NID_commonName, -1);
    if (index < 0) return "";
    ASN1_STRING* data = X509_NAME_ENTRY_get_data(X509_NAME_get_entry(name, index));
    unsigned char* utf8 = nullptr;
    int length = ASN1_STRING_to_UTF8(&utf8, data);
    if (length < 0) return "";
    std::string text(reinterpret_cast<char*>(utf8), static_cast<size_t>(length));
    OPENSSL_free(utf8);
    // A name goes into logs, paths and policies: nothing but printable bytes, and no zero that would cut it short elsewhere.
    for (unsigned char c : text)
        if (c < 0x20 || c == 0x7F) return "";
    return text;
}

namespace {

/// The text that OpenSSL has for an error; null if it has none.
const char* reason_text(unsigned long packed) {
    // It loads them by itself only in a process that has not told it otherwise, for all libraries and at the start.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
    [[maybe_unused]] static const bool loaded =
        ERR_load_SSL_strings() == 1 && ERR_load_EVP_strings() == 1 && ERR_load_X509_strings() == 1;
#pragma GCC diagnostic pop
    return ERR_reason_error_string(packed);
}

}  // namespace

SslError take_ssl_error() {
    unsigned long packed = ERR_get_error();
    ERR_clear_error();
    if (packed == 0) return {0, "the connection ended"};
    const char* text = reason_text(packed);
    return {ERR_GET_REASON(packed), text ? text : "OpenSSL's error " + std::to_string(packed)};
}

namespace {

Error explain_refused_certificate(TlsRole role, const VerifyReport& report, const std::string& server_name, std::string& why) {
    std::string who = role == TlsRole::client ? "the server's certificate" : "the client's certificate";
    if (!report.subject.empty()) who += " ('" + report.subject + "')";
    switch (report.error) {
        case X509_V_ERR_HOSTNAME_MISMATCH:
        case X509_V_ERR_IP_ADDRESS_MISMATCH: why = who + " is not for '" + server_name + "'"; break;
        case X509_V_ERR_CERT_HAS_EXPIRED: why = who + " has expired"; break;
        case X509_V_ERR_CERT_NOT_YET_VALID: why = who + " is not valid yet (is the clock right?)"; break;
        case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
        case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
        case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
        case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
        case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
        case X509_V_ERR_CERT_SIGNATURE_FAILURE: why = who + " was not issued by our certificate authority"; break;
        default: why = who + " is not accepted: " + X509_verify_cert_error_string(report.error);
    }
    return {Code::auth_failed, "the peer's certificate is not accepted", static_cast<uint32_t>(report.error)};
}

/// With a key in place of certificates, who does not have it shows by what OpenSSL misses then.
bool is_about_the_key(int reason) {
    switch (reason) {
        case SSL_R_BINDER_DOES_NOT_VERIFY:
        case SSL_R_NO_SUITABLE_SIGNATURE_ALGORITHM:
        case SSL_R_NO_SHARED_CIPHER:
        case SSL_R_NO_CERTIFICATE_SET:
        case SSL_R_MISSING_SIGALGS_EXTENSION:
        case SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE:
        case SSL_R_SSLV3_ALERT_ILLEGAL_PARAMETER:
        case SSL_R_TLSV1_ALERT_DECRYPT_ERROR: return true;
        default: return false;
    }
}

}  // namespace

Error explain_ssl_error(TlsRole role, const SslError& error, const VerifyReport& report, const std::string& server_name,
                        std::string& why) {
    std::string other = role == TlsRole::client ? "the server" : "the client";
    if (report.error != 0) return explain_refused_certificate(role, report, server_name, why);
    if (report.key_is_proved && is_about_the_key(error.reason)) {
        // The other side has it: what it complains of was changed between the two.
        why = "bytes to or from " + other + " were damaged on the way (" + error.text + ")";
        return {Code::connection_lost, "bytes were damaged on the way", static_cast<uint32_t>(error.reason)};
    }
    if (report.by_key && is_about_the_key(error.reason)) {
        why = other + " does not have the session's key (" + error.text + ")";
        return {Code::auth_failed, "the peer does not have the session's key", static_cast<uint32_t>(error.reason)};
    }
    switch (error.reason) {
        case SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE:
            why = other + " presents no certificate";
            return {Code::auth_failed, "the peer presents no certificate"};
        case SSL_R_UNSUPPORTED_PROTOCOL:
        case SSL_R_VERSION_TOO_LOW:
        case SSL_R_TLSV1_ALERT_PROTOCOL_VERSION:
            // Not a refusal to be believed: nothing has been proved yet, and one damaged bit looks the same.
            why = other + " does not speak TLS 1.3";
            return {Code::malformed, "the peer does not speak TLS 1.3"};
        case SSL_R_WRONG_VERSION_NUMBER:
        case SSL_R_HTTP_REQUEST:
        case SSL_R_HTTPS_PROXY_REQUEST:
        case SSL_R_BAD_RECORD_TYPE:
        case SSL_R_UNEXPECTED_MESSAGE:
        case SSL_R_PACKET_LENGTH_TOO_LONG:
            why = other + " does not speak TLS";
            return {Code::malformed, "what arrives is not TLS"};
        case SSL_R_TLSV1_ALERT_UNKNOWN_CA:
        case SSL_R_SSLV3_ALERT_BAD_CERTIFICATE:
        case SSL_R_SSLV3_ALERT_UNSUPPORTED_CERTIFICATE:
        case SSL_R_SSLV3_ALERT_CERTIFICATE_REVOKED:
        case SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED:
        case SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN:
        case SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED:
        case SSL_R_TLSV1_ALERT_ACCESS_DENIED:
        case SSL_R_TLSV1_ALERT_DECRYPT_ERROR:
            why = other + " does not accept our certificate (" + error.text + ")";
            return {Code::auth_failed, "the peer does not accept our certificate", static_cast<uint32_t>(error.reason)};
        case SSL_R_DECRYPTION_FAILED_OR_BAD_RECORD_MAC:
        case SSL_R_SSLV3_ALERT_BAD_RECORD_MAC:
            why = "bytes to or from " + other + " were damaged on the way (" + error.text + ")";
            return {Code::connection_lost, "bytes were damaged on the way", static_cast<uint32_t>(error.reason)};
        case 0: why = other + " ended the connection"; return {Code::connection_lost, "the connection ended"};
        default:
            why = "TLS with " + other + " failed: " + error.text;
            return {Code::malformed, "TLS failed", static_cast<uint32_t>(error.reason)};
    }
}

}  // namespace warpline::net
