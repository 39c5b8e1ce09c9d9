// Memory that two processes map.
#pragma once

#include "common/base/bytes.h"
#include "common/net/socket.h"

namespace warpline::net {

/// Memory without a file's name that two processes map, one of which has made it and passed its descriptor on. Its size is
/// sealed: neither can cut it off under the other's hands (that would be SIGBUS). What lies in it either may change at any
/// time: it is for bytes that mean something to nobody but the program, and for nothing that is believed.
class SharedMemory {
public:
    SharedMemory() = default;
    SharedMemory(SharedMemory&& other) noexcept;
    SharedMemory& operator=(SharedMemory&& other) noexcept;
    ~SharedMemory();

    /// Makes some; its pages are taken when they are used. @param descriptor  set to what the other process needs
    /// @errors  io (detail errno)
    static Result<SharedMemory> create(size_t bytes, Socket& descriptor);
    /// Maps what somebody else has made, after a look at it.
    /// @errors  malformed (not memory of this kind, not of this size, or its size may change; `what` says which), io
    static Result<SharedMemory> open(const Socket& descriptor, size_t bytes);

    MutableBytesView bytes() const { return m_bytes; }

private:
    explicit SharedMemory(MutableBytesView bytes) : m_bytes(bytes) {}
    static Result<SharedMemory> map(const Socket& descriptor, size_t bytes);
    MutableBytesView m_bytes;
};

}  // namespace warpline::net
