// What a ChannelPump moves bytes for.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/base/bytes.h"
#include "common/base/result.h"
#include "common/net/channel.h"

namespace warpline::net {

/// Where bytes that arrive go, and those that leave come from. protocol::Link is behind it as a rule (link_user.h).
class ChannelUser {
public:
    virtual ~ChannelUser() = default;

    // Whoever reads (the reading thread, or a guest of its); one thread at a time:
    virtual MutableBytesView space() = 0;  ///< where the next bytes shall go; never empty
    /// That many are there (0: part of a record came, which is not decrypted yet); an error ends the connection.
    virtual Result<void> received(size_t count) = 0;
    /// After `received`: true if something short has been queued that who reads shall flush().
    virtual bool flush_due() = 0;
    /// Called every tick_interval, also while bytes come; an error ends the connection. Gets Channel::path().
    virtual Result<void> tick(const std::optional<TcpPath>& path) = 0;
    /// Asked after each tick: how many bytes the socket may have taken and not sent; 0: as many as it likes.
    virtual uint64_t unsent_bytes() = 0;
    /// `received` failed: the last chance to queue why, for the other side.
    virtual void refuse(const Error& error, const std::string& explanation) = 0;

    // The writing side's (the writing thread, or a thread in flush()); one thread at a time:
    virtual bool wait_for_output() = 0;  ///< blocks; false: no more output, ever
    /// Appends views, valid until output_sent; false: nothing there.
    virtual bool take_output(std::vector<BytesView>& views) = 0;
    virtual void between_pieces() = 0;  ///< of what take_output gave, if it is long: others may be let pass
    virtual void output_sent() = 0;

    // Any thread's:
    virtual bool may_flush() = 0;    ///< little enough is queued for flush()
    virtual void wake_writer() = 0;  ///< makes wait_for_output return true once

    /// The connection is over: called exactly once for each channel, by the reading thread, as its last act. Must make
    /// wait_for_output return false.
    virtual void ended(const Error& error, const std::string& explanation) = 0;
};

}  // namespace warpline::net
