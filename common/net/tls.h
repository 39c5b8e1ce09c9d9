// TLS as Warpline uses it: 1.3, with certificates on both sides or with a key that both sides have.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "common/base/function_ref.h"
#include "common/net/socket.h"

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

/// A TLS 1.3 connection over a connected socket, with certificates on both sides or with a pre-shared key.
///
/// Full duplex: one thread reads and one thread writes at the same time. Cipher work is done under a short internal lock,
/// waiting for the socket is not.
class TlsChannel {
public:
    struct Options {
        std::chrono::milliseconds handshake_timeout{10000};
        uint64_t rekey_bytes = uint64_t{64} << 30;  ///< our sending key is renewed after this many (RFC 8446, section 5.5)
        /// A client offers it, and goes on with certificates if the server does not take it (proved_by_key()). A server takes
        /// it under this name, and has nothing else to go on with if its context has no certificates.
        std::optional<PresharedKey> key;
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
    ~TlsChannel();
    TlsChannel(const TlsChannel&) = delete;
    TlsChannel& operator=(const TlsChannel&) = delete;

    /// Reads what there is, at least one byte, at most `into.size()`.
    ///
    /// @return  0 if a tick is set and it passed without data, or what came is not complete yet (see wire_bytes_received())
    /// @errors  connection_lost (end of stream, reset, shutdown()), auth_failed (the peer refused us), malformed (not TLS).
    ///          explain() has the sentence
    /// @thread  one reader
    Result<size_t> read(MutableBytesView into);
    /// The same without waiting for the socket, and without a tick. @return 0 if nothing has come, or not all of it
    Result<size_t> read_some(MutableBytesView into);
    /// False: something that has come from the socket has not been read. @thread the reader
    bool drained() const;
    /// Reads exactly as many bytes as fit, and no more: before a pump has the channel.
    /// @errors  deadline, and those of read()
    Result<void> read_exact(MutableBytesView bytes, std::chrono::steady_clock::time_point deadline);
    /// How long read() waits before it returns 0. Default: for ever.
    void set_read_tick(std::chrono::milliseconds tick);
    /// What the socket gave so far, before decryption. @thread the reader
    uint64_t wire_bytes_received() const;
    /// See net::tcp_path(int).
    std::optional<TcpPath> path() const;

    /// Encrypts and sends all of it, small pieces gathered into large records.
    ///
    /// @errors  as read()
    /// @blocks  while the socket takes no more
    /// @thread  one writer
    Result<void> write(std::span<const BytesView> pieces) {
        return write(pieces, [] {});
    }
    /// The same, and calls `between()` whenever 64 KiB have been handed to the socket.
    Result<void> write(std::span<const BytesView> pieces, FunctionRef<void()> between);

    /// As write(), but what the socket does not take at once stays in the channel (bounded by the size of the pieces).
    /// @return  true if everything left; else call finish_write() from a thread that may block
    Result<bool> write_some(std::span<const BytesView> pieces);
    Result<void> finish_write();

    /// Ends the connection and wakes reader and writer, who get connection_lost. Safe from any thread, any number of times.
    void shutdown();
    /// Tells the peer that nothing more comes (close_notify), when the writer has finished.
    void send_end();

    /// Reads and drops what still comes, up to a bound, until the peer ends or the deadline passes: so that closing does not
    /// reset the connection before the peer has read our last words. The reader's, after its last read().
    void discard_input(std::chrono::steady_clock::time_point deadline);

    /// The handshake was done with the key of the options: who is at the other end has it. No certificate was seen.
    bool proved_by_key() const;
    /// Subject CN of the peer's certificate: the tenant, on a server. "" if there was none.
    const std::string& peer_name() const;
    /// The peer's address, for logs.
    const std::string& peer_address() const;
    /// Name of the cipher suite.
    std::string cipher() const;
    /// Why reading or writing failed, for people; "" if it has not.
    std::string explain() const;
    /// The peer's machine, or one between, has closed or reset the connection: as a rule, the peer's process has ended.
    bool ended_by_peer() const;
    int fd() const;

private:
    struct State;
    explicit TlsChannel(std::unique_ptr<State> state);
    std::unique_ptr<State> m_state;
};

}  // namespace warpline::net
