// Memory that the program hands to the kernel of its machine, and that it may share with a device.
#pragma once

#include <limits.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <type_traits>

#include "client/managed/faults.h"

namespace warpline::client::shared_buffers {

/// What the kernel does with it.
enum class Use : bool { reads, writes };

/// How often a call is made again because somebody has given the pages to the device meanwhile.
inline constexpr int k_attempts = 100;

/// A look at the address.
inline bool may_be_shared(const void* buffer) { return faults::is_watched(reinterpret_cast<uint64_t>(buffer)); }
/// True if the kernel can use it now, as it can what is not shared.
bool is_in_place(const void* buffer, uint64_t size_bytes, Use use);
/// Other memory costs a look at the address. errno stays. @returns true if it is shared, so that it may be gone again
/// @blocks until it is in place, or cannot be had @thread any
bool bring(const void* buffer, uint64_t size_bytes, Use use);
/// The same for what lists name. They may lie in such memory themselves.
bool bring_all(const iovec* parts, uint64_t count, Use use);
bool bring_all(const msghdr* message, Use use);
bool bring_all(const mmsghdr* messages, uint64_t count, Use use);

bool is_file(int fd);  ///< a regular one

/// A list of buffers that a part of has been done.
class PartsToCome {
public:
    bool take(const iovec* parts, int count);  ///< false: there are more than the kernel takes
    void advance(size_t done);
    const iovec* first() const { return &m_parts[m_first]; }
    size_t count() const { return m_count - m_first; }

private:
    std::array<iovec, IOV_MAX> m_parts;
    size_t m_first = 0, m_count = 0;
};
/// True if a byte of what lists name is shared and not in place. @param place  how many bytes are before it
bool is_gone(const iovec* parts, uint64_t count, uint64_t place, Use use);

/// Memory of its own for a message of a socket that has messages (datagrams): the kernel takes it from the socket first, and it
/// is lost where its place turns out to be gone. Other memory, and other sockets, are as they are.
class Landing {
public:
    /// @returns the buffer itself if it need not be another one
    void* instead_of(int fd, void* buffer, size_t size_bytes);
    /// What came is put where it belongs. @param result  of the call; errno stays
    void arrived(ssize_t result);

private:
    void* m_own = nullptr;
    void* m_theirs = nullptr;
    size_t m_size_bytes = 0;
};
bool has_messages(int fd);  ///< a socket that is no stream

template <typename Result>
bool has_failed(Result result) {
    if constexpr (std::is_pointer_v<Result>)
        return result == nullptr;
    else
        return result == -1;
}

/// @param brings  @returns true if memory of ours is among what the call uses
/// @param is_less  @returns true if a result that is no error is one for a part only, and the call may be made again as a whole
template <typename Brings, typename Call, typename IsLess>
auto attempt(Brings brings, Call call, IsLess is_less) {
    for (int i = 0;; ++i) {
        const bool ours = brings();
        const auto result = call();
        // Memory may have become ours during the call, by the first kernel that uses it.
        const bool again = has_failed(result) ? errno == EFAULT && (ours || brings()) : ours && is_less(result);
        if (!again || i == k_attempts) return result;
    }
}
template <typename Brings, typename Call>
auto attempt(Brings brings, Call call) {
    return attempt(brings, call, [](const auto&) { return false; });
}

/// One buffer. Files are read and written whole, as programs expect it of them, also where a page has gone meanwhile.
/// @param call  is told how much is done
template <typename Call>
ssize_t transfer(int fd, const void* buffer, size_t size_bytes, Use use, Call call) {
    const auto* bytes = static_cast<const std::byte*>(buffer);
    size_t done = 0;
    for (;;) {
        const ssize_t result = attempt([&] { return bring(bytes + done, size_bytes - done, use); }, [&] { return call(done); });
        if (result < 0) return done != 0 ? static_cast<ssize_t>(done) : result;
        done += static_cast<size_t>(result);
        if (result == 0 || done >= size_bytes) return static_cast<ssize_t>(done);
        // Whether a page was gone where it stopped cannot be seen any more: another thread may have brought it back.
        if (!may_be_shared(bytes + done) || !is_file(fd)) return static_cast<ssize_t>(done);
    }
}

/// Of several buffers that may be shared. (A function of its own, for what it needs of the stack.)
template <typename Call>
[[gnu::noinline]] ssize_t transfer_shared_parts(int fd, const iovec* parts, int count, Use use, Call call) {
    PartsToCome rest;
    if (!rest.take(parts, count)) return call(parts, count, 0);
    size_t done = 0;
    for (;;) {
        const ssize_t result = attempt([&] { return bring_all(rest.first(), rest.count(), use); },
                                       [&] { return call(rest.first(), static_cast<int>(rest.count()), done); });
        if (result < 0) return done != 0 ? static_cast<ssize_t>(done) : result;
        done += static_cast<size_t>(result);
        rest.advance(static_cast<size_t>(result));
        if (result == 0 || rest.count() == 0 || !is_file(fd)) return static_cast<ssize_t>(done);
    }
}

/// Of several buffers. @param call  is told the buffers to come, and how much is done
template <typename Call>
ssize_t transfer_parts(int fd, const iovec* parts, int count, Use use, Call call) {
    const bool shared = count > 0 && bring_all(parts, static_cast<uint64_t>(count), use);
    return shared ? transfer_shared_parts(fd, parts, count, use, call) : call(parts, count, 0);
}

/// Of a FILE, which keeps the error. @param call  is told how much is done, and the size and the number of items to come
template <typename Call>
size_t transfer_items(const void* buffer, size_t size_bytes, size_t count, FILE* stream, Use use, Call call) {
    const auto* bytes = static_cast<const std::byte*>(buffer);
    size_t total = 0;
    const bool fits = !__builtin_mul_overflow(size_bytes, count, &total) && total != 0;
    if (!fits || !bring(buffer, total, use)) return call(0, size_bytes, count);
    size_t done = 0;
    for (int i = 0; i <= k_attempts; ++i) {
        const bool had_error = ::ferror(stream) != 0;
        bring(bytes + done, total - done, use);
        done += call(done, 1, total - done);
        if (done == total || had_error || ::ferror(stream) == 0 || errno != EFAULT || i == k_attempts) break;
        ::clearerr(stream);
    }
    return done / size_bytes;
}

}  // namespace warpline::client::shared_buffers
