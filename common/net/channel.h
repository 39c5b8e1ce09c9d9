// A connection that carries bytes between two ends that know one another.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>

#include "common/base/function_ref.h"
#include "common/net/socket.h"

namespace warpline::net {

/// A connection whose handshake is done: with TLS (net::TlsChannel), or on a Unix socket, where the kernel says who is at the
/// other end, without (net::PlainChannel).
///
/// Full duplex: one thread reads and one thread writes at the same time.
class Channel {
public:
    virtual ~Channel() = default;
    Channel() = default;
    Channel(const Channel&) = delete;
    Channel& operator=(const Channel&) = delete;

    /// Reads what there is, at least one byte, at most `into.size()`.
    ///
    /// @return  0 if a tick is set and it passed without data, or what came is not complete yet (see wire_bytes_received())
    /// @errors  connection_lost (end of stream, reset, shutdown()), auth_failed (the peer refused us), malformed (not TLS).
    ///          explain() has the sentence
    /// @thread  one reader
    virtual Result<size_t> read(MutableBytesView into) = 0;
    /// The same without waiting for the socket, and without a tick. @return 0 if nothing has come, or not all of it
    virtual Result<size_t> read_some(MutableBytesView into) = 0;
    /// The socket has been waited for: what was empty may have something again. Before that read_some() need not ask the socket
    /// once more after it has given less than there was room for. @thread the reader
    virtual void expect_input() = 0;
    /// False: something that has come from the socket has not been read. @thread the reader
    virtual bool drained() const = 0;
    /// True: when the socket was asked last, and that was since expect_input(), it had no more than was taken. @thread the
    /// reader
    virtual bool emptied() const = 0;
    /// Reads exactly as many bytes as fit, and no more: before a pump has the channel.
    /// @errors  deadline, and those of read()
    Result<void> read_exact(MutableBytesView bytes, std::chrono::steady_clock::time_point deadline);
    /// How long read() waits before it returns 0. Default: for ever.
    virtual void set_read_tick(std::chrono::milliseconds tick) = 0;
    /// What the socket gave so far, before decryption. @thread the reader
    virtual uint64_t wire_bytes_received() const = 0;
    /// See net::tcp_path(int).
    std::optional<TcpPath> path() const;
    /// See net::bound_unsent().
    void bound_unsent(uint64_t bytes) const;

    /// Sends all of it, small pieces gathered.
    ///
    /// @errors  as read()
    /// @blocks  while the socket takes no more
    /// @thread  one writer
    Result<void> write(std::span<const BytesView> pieces) {
        return write(pieces, [] {});
    }
    /// The same, and calls `between()` now and then.
    virtual Result<void> write(std::span<const BytesView> pieces, FunctionRef<void()> between) = 0;

    /// As write(), but what the socket does not take at once stays in the channel (bounded by the size of the pieces).
    /// @return  true if everything left; else call finish_write() from a thread that may block
    virtual Result<bool> write_some(std::span<const BytesView> pieces) = 0;
    virtual Result<void> finish_write() = 0;

    /// Ends the connection and wakes reader and writer, who get connection_lost. Safe from any thread, any number of times.
    virtual void shutdown() = 0;
    /// Tells the peer that nothing more comes, when the writer has finished.
    virtual void send_end() = 0;

    /// Reads and drops what still comes, up to a bound, until the peer ends or the deadline passes: so that closing does not
    /// reset the connection before the peer has read our last words. The reader's, after its last read().
    void discard_input(std::chrono::steady_clock::time_point deadline);

    /// The handshake was done with the session's key: who is at the other end has it, too.
    virtual bool proved_by_key() const = 0;
    /// Who the peer is, on a server: the tenant. "" if only a key says so.
    virtual const std::string& peer_name() const = 0;
    /// The peer's address, for logs.
    virtual const std::string& peer_address() const = 0;
    /// How what travels is protected, for people: the cipher suite's name, "" for none.
    virtual std::string cipher() const = 0;
    /// Why reading or writing failed, for people; "" if it has not.
    virtual std::string explain() const = 0;
    /// The peer's machine, or one between, has closed or reset the connection: as a rule, the peer's process has ended.
    virtual bool ended_by_peer() const = 0;
    virtual int fd() const = 0;

    /// An open descriptor goes with what is written next. Unix sockets only; the writer's, or before there is one.
    virtual void pass_descriptor(Socket descriptor) = 0;
    /// One descriptor may come from the peer, from now on; whatever else comes is closed. Before anything is read.
    virtual void accept_descriptor() = 0;
    /// What has come; invalid if nothing has. It is there when what was written with it has been read. @thread the reader
    virtual Socket take_descriptor() = 0;
};

}  // namespace warpline::net
