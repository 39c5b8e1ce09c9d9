// TLS as Warpline uses it: 1.3, with certificates on both sides or with a key that both sides have.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "common/net/channel.h"

namespace warpline::net {

/// Certificates and key in PEM form.
struct TlsCredentials {
    std::string ca_pem;           ///< whom we believe: one certificate or several
    std::string certificate_pem;  ///< our own, followed by intermediates if there are any
    std::string key_pem;
};

/// Reads the three files.
/// @param why  set when it fails: which file, and what is wrong
/// @errors     not_configured (missing file), io
Result<TlsCredentials> load_credentials(const std::string& ca_file, const std::string& certificate_file,
                                        const std::string& key_file, std::string& why);

enum class TlsRole : uint8_t { client, server };

/// A key that both sides have, and the name under which the client offers it (RFC 8446, 4.2.11: external, psk_dhe_ke, SHA-256).
struct PresharedKey {
    std::array<std::byte, 32> key{};
    Bytes identity;  ///< travels in clear text
};

/// Whether contexts that are made from now on encrypt with the processor's widest instructions for AES, where it has them (they
/// do, unless told otherwise). The other side sees no difference. @thread any
void use_wide_aes(bool wanted);

/// What many connections share: the credentials. Make a new one to rotate certificates. @thread any
class TlsContext {
public:
    /// @errors  auth_failed, with `why`: not a certificate, key does not belong to it, …
    static Result<TlsContext> create(TlsRole role, const TlsCredentials& credentials, std::string& why);
    /// Decodes them in the first handshake only, and a client's while the server answers its first words: a millisecond or two
    /// of a program's start. What is wrong with them is the error of that handshake. @errors alloc_failed, internal
    static Result<TlsContext> create_undecoded(TlsRole role, const TlsCredentials& credentials);
    /// Without certificates: for channels with a pre-shared key, and for none else. @errors alloc_failed, internal
    static Result<TlsContext> create_for_keys(TlsRole role);
    TlsContext(TlsContext&&) noexcept;
    TlsContext& operator=(TlsContext&&) noexcept;
    ~TlsContext();
    TlsRole role() const;

    struct State;
    const std::shared_ptr<State>& shared_state() const { return m_state; }

private:
    explicit TlsContext(std::shared_ptr<State> state);
    std::shared_ptr<State> m_state;  // shared with the channels made from it
};

/// A TLS 1.3 connection over a connected socket, with certificates on both sides or with a pre-shared key. Cipher work is done
/// under a short internal lock, waiting for the socket is not.
class TlsChannel final : public Channel {
public:
    struct Options {
        std::chrono::milliseconds handshake_timeout{10000};
        uint64_t rekey_bytes = uint64_t{64} << 30;  ///< our sending key is renewed after this many (RFC 8446, section 5.5)
        /// A client offers it, and goes on with certificates if the server does not take it (proved_by_key()). A server takes
        /// it under this name, and has nothing else to go on with if its context has no certificates.
        std::optional<PresharedKey> key;
        /// A client's, for addresses that certificates do not name (unix:, vsock:): any server certificate of the CA will do.
        bool any_server_of_ca = false;
    };

    /// Does the handshake on a connected socket, also on one that another process handed over.
    ///
    /// @param server_name  client only: the host name or IP address that was dialled; the server's certificate must carry it
    /// @param why          set when it fails: one sentence for the user or the server's log
    /// @errors             auth_failed (a certificate is missing, unknown, expired or for another name), malformed (not TLS
    ///                     1.3), deadline, connection_lost
    /// @blocks             up to the handshake timeout
    /// A client whose certificate the server refuses learns it from the first read(): TLS 1.3 tells it after the handshake.
    static Result<std::unique_ptr<TlsChannel>> handshake(const TlsContext& context, Socket socket,
                                                         const std::string& server_name, const Options& options,
                                                         std::string& why);
    ~TlsChannel() override;

    // Channel
    Result<size_t> read(MutableBytesView into) override;
    Result<size_t> read_some(MutableBytesView into) override;
    void expect_input() override;
    bool drained() const override;
    bool emptied() const override;
    void set_read_tick(std::chrono::milliseconds tick) override;
    uint64_t wire_bytes_received() const override;
    using Channel::write;
    Result<void> write(std::span<const BytesView> pieces, FunctionRef<void()> between) override;
    Result<bool> write_some(std::span<const BytesView> pieces) override;
    Result<void> finish_write() override;
    void shutdown() override;
    void send_end() override;
    bool proved_by_key() const override;
    const std::string& peer_name() const override;
    const std::string& peer_address() const override;
    std::string cipher() const override;
    std::string explain() const override;
    bool ended_by_peer() const override;
    int fd() const override;
    void pass_descriptor(Socket descriptor) override;
    void accept_descriptor() override;
    Socket take_descriptor() override;

private:
    struct State;
    explicit TlsChannel(std::unique_ptr<State> state);
    std::unique_ptr<State> m_state;
};

}  // namespace warpline::net
