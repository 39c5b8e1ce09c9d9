// Keys and certificates made with OpenSSL.
#include "common/net/certificates.h"

#include <fcntl.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "common/net/tls_internal.h"

namespace warpline::net {

namespace {

constexpr Error k_failed{Code::internal, "a certificate could not be made"};

std::string text_of(BIO* bio) {
    char* data = nullptr;
    long size = BIO_get_mem_data(bio, &data);
    return std::string(data, static_cast<size_t>(size));
}

std::string pem_of(X509* certificate) {
    BioPtr bio(BIO_new(BIO_s_mem()));
    PEM_write_bio_X509(bio.get(), certificate);
    return text_of(bio.get());
}

std::string pem_of(EVP_PKEY* key) {
    BioPtr bio(BIO_new(BIO_s_mem()));
    PEM_write_bio_PKCS8PrivateKey(bio.get(), key, nullptr, nullptr, 0, nullptr, nullptr);
    return text_of(bio.get());
}

bool set_random_serial(X509* certificate) {
    unsigned char bytes[16];
    if (RAND_bytes(bytes, sizeof bytes) != 1) return false;
    bytes[0] &= 0x7F;  // a serial number is positive
    std::unique_ptr<BIGNUM, OpensslFree> number(BN_bin2bn(bytes, sizeof bytes, nullptr));
    return number && BN_to_ASN1_INTEGER(number.get(), X509_get_serialNumber(certificate)) != nullptr;
}

bool add_extension(X509* certificate, X509* issuer, int nid, const std::string& value) {
    X509V3_CTX context;
    X509V3_set_ctx_nodb(&context);
    X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
    std::unique_ptr<X509_EXTENSION, OpensslFree> extension(X509V3_EXT_conf_nid(nullptr, &context, nid, value.c_str()));
    return extension && X509_add_ext(certificate, extension.get(), -1) == 1;
}

bool set_common_name(X509_NAME* name, const std::string& text) {
    return X509_NAME_add_entry_by_NID(name, NID_commonName, MBSTRING_UTF8, reinterpret_cast<const unsigned char*>(text.data()),
                                      static_cast<int>(text.size()), -1, 0) == 1;
}

// A certificate without extensions and signature.
X509Ptr blank(EVP_PKEY* key, const std::string& name, X509* issuer, int starts_in_seconds, int valid_seconds) {
    X509Ptr certificate(X509_new());
    X509* c = certificate.get();
    bool ok = c && X509_set_version(c, X509_VERSION_3) == 1 && set_random_serial(c) && X509_set_pubkey(c, key) == 1 &&
              set_common_name(X509_get_subject_name(c), name) &&
              X509_set_issuer_name(c, X509_get_subject_name(issuer ? issuer : c)) == 1 &&
              X509_gmtime_adj(X509_getm_notBefore(c), starts_in_seconds) &&
              X509_gmtime_adj(X509_getm_notAfter(c), starts_in_seconds + valid_seconds);
    if (!ok) certificate.reset();
    return certificate;
}

// "DNS:localhost,IP:127.0.0.1"; "" if a name could be read as more than one entry.
std::string alternative_names(const std::vector<std::string>& names) {
    std::string list;
    for (const std::string& name : names) {
        if (name.empty() || name.find_first_of(", \t\n;") != std::string::npos) return "";
        ASN1_OCTET_STRING* address = a2i_IPADDRESS(name.c_str());
        list += (list.empty() ? "" : ",") + std::string(address ? "IP:" : "DNS:") + name;
        ASN1_OCTET_STRING_free(address);
    }
    return list;
}

Result<void> write_private_file(const std::string& path, const std::string& text) {
    (void)::unlink(path.c_str());  // else an old file would keep its mode
    int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) return Error{Code::io, "a certificate file cannot be written", static_cast<uint32_t>(errno)};
    ssize_t written = ::write(fd, text.data(), text.size());
    int error = errno;
    ::close(fd);
    if (written != static_cast<ssize_t>(text.size()))
        return Error{Code::io, "a certificate file cannot be written", static_cast<uint32_t>(error)};
    return {};
}

}  // namespace

struct ThrowawayCa::State {
    KeyPtr key;
    X509Ptr certificate;
};

ThrowawayCa::ThrowawayCa(std::unique_ptr<State> state) : m_state(std::move(state)) {}
ThrowawayCa::ThrowawayCa(ThrowawayCa&&) noexcept = default;
ThrowawayCa& ThrowawayCa::operator=(ThrowawayCa&&) noexcept = default;
ThrowawayCa::~ThrowawayCa() = default;

Result<ThrowawayCa> ThrowawayCa::create(const std::string& name) {
    init_openssl();
    auto state = std::make_unique<State>();
    state->key.reset(EVP_EC_gen("P-256"));
    if (!state->key) return k_failed;
    state->certificate = blank(state->key.get(), name, nullptr, -300, 7 * 24 * 3600);
    X509* c = state->certificate.get();
    bool ok = c && add_extension(c, c, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") &&
              add_extension(c, c, NID_key_usage, "critical,keyCertSign,cRLSign") &&
              add_extension(c, c, NID_subject_key_identifier, "hash") && X509_sign(c, state->key.get(), EVP_sha256()) > 0;
    ERR_clear_error();
    if (!ok) return k_failed;
    return ThrowawayCa(std::move(state));
}

std::string ThrowawayCa::ca_pem() const { return pem_of(m_state->certificate.get()); }

Result<TlsCredentials> ThrowawayCa::issue(const Request& request) const {
    KeyPtr key(EVP_EC_gen("P-256"));
    if (!key) return k_failed;
    X509* ca = m_state->certificate.get();
    X509Ptr certificate = blank(key.get(), request.common_name, ca, request.starts_in_seconds, request.valid_seconds);
    X509* c = certificate.get();
    // It would pass for self-signed.
    if (c && X509_NAME_cmp(X509_get_subject_name(c), X509_get_subject_name(ca)) == 0)
        return Error{Code::bad_argument, "the certificate authority's own name"};
    bool is_server = request.role == TlsRole::server;
    bool ok = c && add_extension(c, ca, NID_basic_constraints, "critical,CA:FALSE") &&
              add_extension(c, ca, NID_key_usage, "critical,digitalSignature") &&
              add_extension(c, ca, NID_ext_key_usage, is_server ? "serverAuth" : "clientAuth") &&
              add_extension(c, ca, NID_authority_key_identifier, "keyid");
    if (ok && !request.names.empty()) {
        std::string names = alternative_names(request.names);
        ok = !names.empty() && add_extension(c, ca, NID_subject_alt_name, names);
    }
    ok = ok && X509_sign(c, m_state->key.get(), EVP_sha256()) > 0;
    ERR_clear_error();
    if (!ok) return k_failed;
    return TlsCredentials{ca_pem(), pem_of(c), pem_of(key.get())};
}

Result<void> write_local_certificates(const std::string& directory) {
    ThrowawayCa ca = WL_TRY(ThrowawayCa::create("Warpline throw-away CA"));
    TlsCredentials server = WL_TRY(ca.issue({"localhost", TlsRole::server, {"localhost", "127.0.0.1", "::1"}}));
    TlsCredentials client = WL_TRY(ca.issue({"local", TlsRole::client, {}}));
    if (::mkdir(directory.c_str(), 0700) != 0 && errno != EEXIST)
        return Error{Code::io, "the directory for certificates cannot be made", static_cast<uint32_t>(errno)};
    WL_TRY(write_private_file(directory + "/ca.pem", server.ca_pem));
    WL_TRY(write_private_file(directory + "/server.pem", server.certificate_pem));
    WL_TRY(write_private_file(directory + "/server.key", server.key_pem));
    WL_TRY(write_private_file(directory + "/client.pem", client.certificate_pem));
    WL_TRY(write_private_file(directory + "/client.key", client.key_pem));
    return {};
}

}  // namespace warpline::net
