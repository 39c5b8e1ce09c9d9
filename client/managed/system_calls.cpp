// Functions of the C library that hand memory to the kernel, as the program calls them.
#include "client/managed/system_calls.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>

#include "client/managed/faults.h"
#include "client/managed/imports.h"
#include "client/managed/shared_pages.h"

namespace warpline::client::system_calls {

namespace {

/// How often a call is made again because somebody has given the pages to the device meanwhile.
constexpr int k_attempts = 100;

enum class Use : bool { reads, writes };  // what the kernel does with the memory

bool is_in_place(uint64_t address, uint64_t size_bytes, Use use) {
    SharedPages& pages = SharedPages::instance();
    MutexLock lock(pages.mutex);
    const SharedRegion* shared = pages.find(address);
    return !shared || shared->region->is_in_place({address, size_bytes}, use == Use::writes);
}

/// @returns true if the memory is shared, so that it may be gone again
bool bring(const void* buffer, uint64_t size_bytes, Use use) {
    const auto address = reinterpret_cast<uint64_t>(buffer);
    if (size_bytes == 0 || !faults::is_watched(address)) return false;
    const int error = errno;
    if (!is_in_place(address, size_bytes, use)) faults::bring(address, size_bytes, use == Use::writes);
    errno = error;
    return true;
}

bool bring_all(const iovec* parts, size_t count, Use use) {
    bool any = false;
    for (size_t i = 0; parts && i < count; ++i) any = bring(parts[i].iov_base, parts[i].iov_len, use) || any;
    return any;
}

/// @param brings  @returns true if memory of ours is among what the call uses
template <typename Brings, typename Call>
auto attempt(Brings brings, Call call) {
    for (int i = 0;; ++i) {
        const bool ours = brings();
        const auto result = call();
        if (!ours || result != -1 || errno != EFAULT || i == k_attempts) return result;
    }
}

bool is_file(int fd) {
    struct stat about {};
    return ::fstat(fd, &about) == 0 && S_ISREG(about.st_mode);
}

/// One buffer. Files are read and written whole, as programs expect it of them, also where a page has gone meanwhile.
/// @param call  is told how much is done
template <typename Call>
ssize_t transfer(int fd, const void* buffer, size_t size_bytes, Use use, Call call) {
    const auto* bytes = static_cast<const std::byte*>(buffer);
    size_t done = 0;
    for (;;) {
        bool ours = false;
        const ssize_t result =
            attempt([&] { return ours = bring(bytes + done, size_bytes - done, use); }, [&] { return call(done); });
        if (result < 0) return done != 0 ? static_cast<ssize_t>(done) : result;
        done += static_cast<size_t>(result);
        if (!ours || result == 0 || done >= size_bytes) return static_cast<ssize_t>(done);
        if (is_in_place(reinterpret_cast<uint64_t>(bytes + done), 1, use) || !is_file(fd)) return static_cast<ssize_t>(done);
    }
}

/// Of a FILE, which keeps the error.
template <typename Call>
size_t transfer_items(const void* buffer, size_t size_bytes, size_t count, FILE* stream, Use use, Call call) {
    const auto* bytes = static_cast<const std::byte*>(buffer);
    size_t total = 0;
    const bool fits = !__builtin_mul_overflow(size_bytes, count, &total) && total != 0;
    if (!fits || !faults::is_watched(reinterpret_cast<uint64_t>(buffer))) return call(0, size_bytes, count);
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

/// What the program would have come to. The first one is of the C library whatever else is in the process.
struct Real {
    decltype(&::read) read;
    ssize_t (*read_chk)(int, void*, size_t, size_t);
    decltype(&::pread) pread, pread64;
    ssize_t (*pread_chk)(int, void*, size_t, off_t, size_t), (*pread64_chk)(int, void*, size_t, off_t, size_t);
    decltype(&::readv) readv;
    decltype(&::preadv) preadv, preadv64;
    decltype(&::recv) recv;
    ssize_t (*recv_chk)(int, void*, size_t, size_t, int);
    decltype(&::recvfrom) recvfrom;
    ssize_t (*recvfrom_chk)(int, void*, size_t, size_t, int, sockaddr*, socklen_t*);
    decltype(&::recvmsg) recvmsg;
    decltype(&::write) write;
    decltype(&::pwrite) pwrite, pwrite64;
    decltype(&::writev) writev;
    decltype(&::pwritev) pwritev, pwritev64;
    decltype(&::send) send;
    decltype(&::sendto) sendto;
    decltype(&::sendmsg) sendmsg;
    decltype(&::fread) fread, fread_unlocked;
    size_t (*fread_chk)(void*, size_t, size_t, size_t, FILE*), (*fread_unlocked_chk)(void*, size_t, size_t, size_t, FILE*);
    decltype(&::fwrite) fwrite, fwrite_unlocked;
};
Real g_real;

std::byte* at(void* buffer, size_t offset) { return static_cast<std::byte*>(buffer) + offset; }
const std::byte* at(const void* buffer, size_t offset) { return static_cast<const std::byte*>(buffer) + offset; }

ssize_t our_read(int fd, void* buffer, size_t size) {
    return transfer(fd, buffer, size, Use::writes, [&](size_t done) { return g_real.read(fd, at(buffer, done), size - done); });
}
ssize_t our_read_chk(int fd, void* buffer, size_t size, size_t room) {
    return size <= room ? our_read(fd, buffer, size) : g_real.read_chk(fd, buffer, size, room);
}

template <decltype(&::pread) Real::*Function>
ssize_t our_pread(int fd, void* buffer, size_t size, off_t offset) {
    return transfer(fd, buffer, size, Use::writes, [&](size_t done) {
        return (g_real.*Function)(fd, at(buffer, done), size - done, offset + static_cast<off_t>(done));
    });
}
template <auto Function, auto Checked>
ssize_t our_pread_chk(int fd, void* buffer, size_t size, off_t offset, size_t room) {
    return size <= room ? our_pread<Function>(fd, buffer, size, offset) : (g_real.*Checked)(fd, buffer, size, offset, room);
}

ssize_t our_write(int fd, const void* buffer, size_t size) {
    return transfer(fd, buffer, size, Use::reads, [&](size_t done) { return g_real.write(fd, at(buffer, done), size - done); });
}
template <decltype(&::pwrite) Real::*Function>
ssize_t our_pwrite(int fd, const void* buffer, size_t size, off_t offset) {
    return transfer(fd, buffer, size, Use::reads, [&](size_t done) {
        return (g_real.*Function)(fd, at(buffer, done), size - done, offset + static_cast<off_t>(done));
    });
}

template <auto Function, Use How, typename... Position>
ssize_t vector(int fd, const iovec* parts, int count, Position... position) {
    return attempt([&] { return bring_all(parts, count > 0 ? static_cast<size_t>(count) : 0, How); },
                   [&] { return (g_real.*Function)(fd, parts, count, position...); });
}

ssize_t our_recvfrom(int fd, void* buffer, size_t size, int flags, sockaddr* from, socklen_t* from_size) {
    return attempt([&] { return bring(buffer, size, Use::writes); },
                   [&] { return g_real.recvfrom(fd, buffer, size, flags, from, from_size); });
}
ssize_t our_recvfrom_chk(int fd, void* buffer, size_t size, size_t room, int flags, sockaddr* from, socklen_t* from_size) {
    if (size > room) return g_real.recvfrom_chk(fd, buffer, size, room, flags, from, from_size);
    return our_recvfrom(fd, buffer, size, flags, from, from_size);
}
ssize_t our_recv(int fd, void* buffer, size_t size, int flags) {
    return attempt([&] { return bring(buffer, size, Use::writes); }, [&] { return g_real.recv(fd, buffer, size, flags); });
}
ssize_t our_recv_chk(int fd, void* buffer, size_t size, size_t room, int flags) {
    return size <= room ? our_recv(fd, buffer, size, flags) : g_real.recv_chk(fd, buffer, size, room, flags);
}
ssize_t our_recvmsg(int fd, msghdr* message, int flags) {
    return attempt([&] { return bring_all(message->msg_iov, message->msg_iovlen, Use::writes); },
                   [&] { return g_real.recvmsg(fd, message, flags); });
}
ssize_t our_sendto(int fd, const void* buffer, size_t size, int flags, const sockaddr* to, socklen_t to_size) {
    return attempt([&] { return bring(buffer, size, Use::reads); },
                   [&] { return g_real.sendto(fd, buffer, size, flags, to, to_size); });
}
ssize_t our_send(int fd, const void* buffer, size_t size, int flags) {
    return attempt([&] { return bring(buffer, size, Use::reads); }, [&] { return g_real.send(fd, buffer, size, flags); });
}
ssize_t our_sendmsg(int fd, const msghdr* message, int flags) {
    return attempt([&] { return bring_all(message->msg_iov, message->msg_iovlen, Use::reads); },
                   [&] { return g_real.sendmsg(fd, message, flags); });
}

template <decltype(&::fread) Real::*Function>
size_t our_fread(void* buffer, size_t size, size_t count, FILE* stream) {
    return transfer_items(buffer, size, count, stream, Use::writes, [&](size_t done, size_t one, size_t items) {
        return (g_real.*Function)(at(buffer, done), one, items, stream);
    });
}
template <auto Function, auto Checked>
size_t our_fread_chk(void* buffer, size_t room, size_t size, size_t count, FILE* stream) {
    size_t total = 0;
    if (__builtin_mul_overflow(size, count, &total) || total > room)
        return (g_real.*Checked)(buffer, room, size, count, stream);
    return our_fread<Function>(buffer, size, count, stream);
}
template <decltype(&::fwrite) Real::*Function>
size_t our_fwrite(const void* buffer, size_t size, size_t count, FILE* stream) {
    return transfer_items(buffer, size, count, stream, Use::reads, [&](size_t done, size_t one, size_t items) {
        return (g_real.*Function)(at(buffer, done), one, items, stream);
    });
}

template <typename Function>
Import import(const char* name, Function* ours, Function*& real) {
    return {name, reinterpret_cast<void*>(ours), reinterpret_cast<void**>(&real)};
}

const auto& imports() {
    static const std::array all{
        import("read", our_read, g_real.read),
        import("__read_chk", our_read_chk, g_real.read_chk),
        import("pread", our_pread<&Real::pread>, g_real.pread),
        import("pread64", our_pread<&Real::pread64>, g_real.pread64),
        import("__pread_chk", our_pread_chk<&Real::pread, &Real::pread_chk>, g_real.pread_chk),
        import("__pread64_chk", our_pread_chk<&Real::pread64, &Real::pread64_chk>, g_real.pread64_chk),
        import("readv", vector<&Real::readv, Use::writes>, g_real.readv),
        import("preadv", vector<&Real::preadv, Use::writes, off_t>, g_real.preadv),
        import("preadv64", vector<&Real::preadv64, Use::writes, off_t>, g_real.preadv64),
        import("recv", our_recv, g_real.recv),
        import("__recv_chk", our_recv_chk, g_real.recv_chk),
        import("recvfrom", our_recvfrom, g_real.recvfrom),
        import("__recvfrom_chk", our_recvfrom_chk, g_real.recvfrom_chk),
        import("recvmsg", our_recvmsg, g_real.recvmsg),
        import("write", our_write, g_real.write),
        import("pwrite", our_pwrite<&Real::pwrite>, g_real.pwrite),
        import("pwrite64", our_pwrite<&Real::pwrite64>, g_real.pwrite64),
        import("writev", vector<&Real::writev, Use::reads>, g_real.writev),
        import("pwritev", vector<&Real::pwritev, Use::reads, off_t>, g_real.pwritev),
        import("pwritev64", vector<&Real::pwritev64, Use::reads, off_t>, g_real.pwritev64),
        import("send", our_send, g_real.send),
        import("sendto", our_sendto, g_real.sendto),
        import("sendmsg", our_sendmsg, g_real.sendmsg),
        import("fread", our_fread<&Real::fread>, g_real.fread),
        import("fread_unlocked", our_fread<&Real::fread_unlocked>, g_real.fread_unlocked),
        import("__fread_chk", our_fread_chk<&Real::fread, &Real::fread_chk>, g_real.fread_chk),
        import("__fread_unlocked_chk", our_fread_chk<&Real::fread_unlocked, &Real::fread_unlocked_chk>,
               g_real.fread_unlocked_chk),
        import("fwrite", our_fwrite<&Real::fwrite>, g_real.fwrite),
        import("fwrite_unlocked", our_fwrite<&Real::fwrite_unlocked>, g_real.fwrite_unlocked),
    };
    return all;
}

}  // namespace

void attend() { redirect(imports()); }

}  // namespace warpline::client::system_calls
