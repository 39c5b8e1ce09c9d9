// What a row of the table of redirected calls is made of: a name, the function's type, and which memory the kernel uses.
#pragma once

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/select.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <string>
#include <tuple>
#include <vector>

#include "client/managed/imports.h"
#include "client/managed/landed_messages.h"
#include "client/managed/shared_buffers.h"
#include "client/managed/signal_mask.h"

namespace warpline::client::system_calls {

using shared_buffers::Use;

// How large memory is: so many bytes, so many as a parameter says, so many items of a size, or as many as a parameter points
// at.
template <size_t Size>
struct Bytes {
    static uint64_t of(const auto&) { return Size; }
};
template <size_t Index>
struct Arg {
    static uint64_t of(const auto& args) { return static_cast<uint64_t>(std::get<Index>(args)); }
};
template <size_t Index, typename Item>
struct Items {
    static uint64_t of(const auto& args) {
        const auto count = std::get<Index>(args);
        return count > 0 ? static_cast<uint64_t>(count) * sizeof(Item) : 0;
    }
};
template <size_t Index>
struct At {
    static uint64_t of(const auto& args) { return std::get<Index>(args) ? static_cast<uint64_t>(*std::get<Index>(args)) : 0; }
};

// What memory is used, and how. `prepare` comes before the call and may change its parameters, `bring` before each attempt of
// it, and returns true if memory is shared; `is_less` says that it has to be made again as a whole; `finish` comes behind it.
struct Nothing {
    void prepare(const auto&) {}
    bool bring(const auto&) { return false; }
    bool is_less(const auto&, const auto&) { return false; }
    void finish(const auto&, const auto&) {}
};

/// What a parameter points at.
template <Use How, size_t Index, typename Size>
struct Buffer : Nothing {
    bool bring(const auto& args) {
        const void* const buffer = std::get<Index>(args);
        // What is not shared is not looked at: the kernel says whether it is there.
        return shared_buffers::may_be_shared(buffer) && shared_buffers::bring(buffer, Size::of(args), How);
    }
};
template <size_t Index, typename Size>
using Reads = Buffer<Use::reads, Index, Size>;
template <size_t Index, typename Size>
using Writes = Buffer<Use::writes, Index, Size>;
/// The end of a text is not looked for: nothing but the region's end is in the way.
template <size_t Index>
using Text = Reads<Index, Bytes<PATH_MAX>>;

/// Lists of buffers, and messages, which have such lists.
template <Use How, size_t Index, size_t Count>
struct List : Nothing {
    bool bring(const auto& args) {
        const auto count = std::get<Count>(args);
        return count > 0 && shared_buffers::bring_all(std::get<Index>(args), static_cast<uint64_t>(count), How);
    }
};
/// The same of a call that may be made again where it was done in part.
template <Use How, size_t Index, size_t Count>
struct AllOfList : List<How, Index, Count> {
    bool is_less(const auto& args, const auto& result) {
        return shared_buffers::is_gone(std::get<Index>(args), static_cast<uint64_t>(std::get<Count>(args)),
                                       static_cast<uint64_t>(result), How);
    }
};
template <size_t Index, typename Size>
struct WritesAll : Writes<Index, Size> {
    bool is_less(const auto& args, const auto& result) {
        const auto done = static_cast<uint64_t>(result);
        const auto* bytes = static_cast<const std::byte*>(std::get<Index>(args));
        return done < Size::of(args) && !shared_buffers::is_in_place(bytes + done, 1, Use::writes);
    }
};
template <Use How, size_t Index>
struct Message : Nothing {
    bool bring(const auto& args) { return shared_buffers::bring_all(std::get<Index>(args), How); }
};

/// Something small that the kernel reads, writes or both: it is given another one, because what it does is not to be done
/// twice, nor lost, when it finds too late that it cannot write there. What it has not changed is not written: another thread
/// may have, while the call waited.
template <size_t Index, typename Type, size_t Count = 1>
struct Copied : Nothing {
    std::array<Type, Count> own, before;
    void* theirs;
    void prepare(const auto& args) {
        theirs = std::get<Index>(args);
        if (!shared_buffers::may_be_shared(theirs)) return void(theirs = nullptr);
        std::memcpy(own.data(), theirs, sizeof own);
        before = own;
        std::get<Index>(args) = own.data();
    }
    void finish(const auto&, const auto&) {
        if (theirs && std::memcmp(own.data(), before.data(), sizeof own) != 0) std::memcpy(theirs, own.data(), sizeof own);
    }
};
/// Something small that the kernel only reads, in a call that does not end with EFAULT in errno.
template <size_t Index, typename Type>
struct Given : Nothing {
    Type own;
    void prepare(const auto& args) {
        const void* const theirs = std::get<Index>(args);
        if (!shared_buffers::may_be_shared(theirs)) return;
        std::memcpy(&own, theirs, sizeof own);
        std::get<Index>(args) = &own;
    }
};
/// A text that others than the calling thread read: a process that it becomes or starts.
template <size_t Index>
struct OwnText : Nothing {
    std::string own;
    void prepare(const auto& args) {
        const char* const theirs = std::get<Index>(args);
        if (!shared_buffers::may_be_shared(theirs)) return;
        own = theirs;
        std::get<Index>(args) = own.data();
    }
};
/// The same of a list of texts with null at its end, any of which may be in memory that is shared.
template <size_t Index>
struct OwnTexts : Nothing {
    std::vector<std::string> own;
    std::vector<char*> list;
    void prepare(const auto& args) {
        char* const* const theirs = std::get<Index>(args);
        if (!theirs) return;
        bool any = shared_buffers::may_be_shared(theirs);
        size_t count = 0;
        for (; theirs[count]; ++count) any = any || shared_buffers::may_be_shared(theirs[count]);
        if (!any) return;
        own.assign(theirs, theirs + count);
        for (std::string& text : own) list.push_back(text.data());
        list.push_back(nullptr);
        std::get<Index>(args) = list.data();
    }
};
/// A file's lock, with those commands that have one.
template <size_t Command, size_t Index>
struct FileLock : Nothing {
    Copied<Index, struct flock> lock;
    bool has_lock = false;
    void prepare(const auto& args) {
        switch (std::get<Command>(args)) {
            case F_GETLK:
            case F_SETLK:
            case F_SETLKW:
            case F_OFD_GETLK:
            case F_OFD_SETLK:
            case F_OFD_SETLKW: has_lock = true;
        }
        if (has_lock) lock.prepare(args);
    }
    void finish(const auto& args, const auto& result) {
        if (has_lock) lock.finish(args, result);
    }
};
/// As large as a request says that what it uses is; older ones do not say it, and use no more than this.
template <size_t Request>
struct RequestBytes {
    static uint64_t of(const auto& args) {
        constexpr uint64_t k_most = 64;
        const uint64_t size_bytes = _IOC_SIZE(std::get<Request>(args));
        return size_bytes != 0 ? size_bytes : k_most;
    }
};

/// The same of a set of descriptors, as large as they usually are: select() takes larger ones.
template <size_t Index>
struct Set : Nothing {
    Copied<Index, fd_set> set;
    bool is_copied = false;
    void prepare(const auto& args) {
        is_copied = std::get<0>(args) <= FD_SETSIZE;
        if (is_copied) set.prepare(args);
    }
    bool bring(const auto& args) { return Writes<Index, Bytes<sizeof(fd_set)>>{}.bring(args); }
    void finish(const auto& args, const auto& result) {
        if (is_copied) set.finish(args, result);
    }
};

/// The same of an address, and of its size.
template <size_t Index, size_t Size>
struct Address : Nothing {
    sockaddr_storage own;
    socklen_t own_size, room;
    sockaddr* theirs;
    socklen_t* their_size;
    void prepare(const auto& args) {
        theirs = std::get<Index>(args);
        their_size = std::get<Size>(args);
        const bool any = shared_buffers::may_be_shared(theirs) || shared_buffers::may_be_shared(their_size);
        if (!any || !theirs || !their_size) return void(theirs = nullptr);
        own_size = room = *their_size;
        if (room > sizeof own) own_size = sizeof own;
        std::get<Index>(args) = reinterpret_cast<sockaddr*>(&own);
        std::get<Size>(args) = &own_size;
    }
    void finish(const auto&, const auto& result) {
        if (!theirs || shared_buffers::has_failed(result)) return;
        std::memcpy(theirs, &own, std::min({static_cast<size_t>(room), static_cast<size_t>(own_size), sizeof own}));
        *their_size = own_size;
    }
};

/// A message of a socket that has messages, which is gone from there when the kernel finds that it cannot write it.
template <size_t Index>
struct Landed : Nothing {
    shared_buffers::Landing landing;
    void prepare(const auto& args) {
        void*& buffer = std::get<Index>(args);
        buffer = landing.instead_of(std::get<0>(args), buffer, std::get<Index + 1>(args));
    }
    void finish(const auto&, const auto& result) { landing.arrived(result); }
};

template <size_t Index>
struct LandedMessage : Nothing {
    shared_buffers::LandedMessages landed;
    void prepare(const auto& args) {
        auto*& message = std::get<Index>(args);
        message = landed.instead_of(std::get<0>(args), message);
    }
    void finish(const auto&, const auto& result) { landed.arrived(result); }
};
template <Use How, size_t Index, size_t Count>
struct LandedList : Nothing {
    shared_buffers::LandedMessages landed;
    void prepare(const auto& args) {
        auto*& messages = std::get<Index>(args);
        messages = landed.instead_of(std::get<0>(args), messages, std::get<Count>(args), How);
    }
    void finish(const auto&, const auto& result) { landed.arrived(result); }
};

/// What all rows have. `real` is what the program would have come to.
template <ImportName Name, typename Function>
struct Row {
    using Type = Function;
    static inline Function* real = nullptr;
    static Import import(Function* ours) { return {Name.text, reinterpret_cast<void*>(ours), reinterpret_cast<void**>(&real)}; }
};

/// A call that is made again where it says EFAULT because somebody has taken the pages meanwhile.
template <ImportName Name, typename Function, typename... Uses>
struct Simple;
template <ImportName Name, typename Result, typename... Args, typename... Uses>
struct Simple<Name, Result(Args...), Uses...> : Row<Name, Result(Args...)> {
    static Result ours(Args... args) {
        const auto all = std::tie(args...);
        std::tuple<Uses...> uses;
        return std::apply(
            [&](Uses&... use) {
                (use.prepare(all), ...);
                const auto brings = [&] { return (static_cast<unsigned>(use.bring(all)) | ... | 0U) != 0; };
                const auto is_less = [&](const auto& result) { return (use.is_less(all, result) || ... || false); };
                const Result result = shared_buffers::attempt(
                    brings, [&] { return Simple::real(args...); }, is_less);
                (use.finish(all, result), ...);
                return result;
            },
            uses);
    }
};

inline void* behind(void* buffer, size_t done) { return static_cast<std::byte*>(buffer) + done; }
inline const void* behind(const void* buffer, size_t done) { return static_cast<const std::byte*>(buffer) + done; }
inline off_t behind(off_t place, size_t done) { return place + static_cast<off_t>(done); }
inline size_t behind(size_t room, size_t done) { return room - done; }

/// A descriptor, a buffer, its size, and what else there is: a place in the file, which moves on with what is done, and the
/// room in the buffer (_FORTIFY_SOURCE), which shrinks.
template <ImportName Name, Use How, typename Function>
struct Transfer;
template <ImportName Name, Use How, typename Pointer, typename... Rest>
struct Transfer<Name, How, ssize_t(int, Pointer, size_t, Rest...)> : Row<Name, ssize_t(int, Pointer, size_t, Rest...)> {
    static ssize_t ours(int fd, Pointer buffer, size_t size, Rest... rest) {
        shared_buffers::Landing landing;
        if constexpr (How == Use::writes) buffer = landing.instead_of(fd, buffer, size);
        const ssize_t result = shared_buffers::transfer(fd, buffer, size, How, [&](size_t done) {
            return Transfer::real(fd, behind(buffer, done), size - done, behind(rest, done)...);
        });
        landing.arrived(result);
        return result;
    }
};

/// The same with a list of buffers, its length, and perhaps a place in the file, which may be -1, and flags.
template <ImportName Name, Use How, typename Function>
struct Parts;
template <ImportName Name, Use How, typename... Rest>
struct Parts<Name, How, ssize_t(int, const iovec*, int, Rest...)> : Row<Name, ssize_t(int, const iovec*, int, Rest...)> {
    static off_t beyond(off_t place, size_t done) { return place < 0 ? place : behind(place, done); }
    static int beyond(int flags, size_t) { return flags; }
    static ssize_t ours(int fd, const iovec* parts, int count, Rest... rest) {
        return shared_buffers::transfer_parts(fd, parts, count, How,
                                              [&](const iovec* to_come, int left, [[maybe_unused]] size_t done) {
                                                  return Parts::real(fd, to_come, left, beyond(rest, done)...);
                                              });
    }
};

/// The same of a FILE.
template <ImportName Name, Use How, typename Function>
struct Stream;
template <ImportName Name, Use How, typename Pointer>
struct Stream<Name, How, size_t(Pointer, size_t, size_t, FILE*)> : Row<Name, size_t(Pointer, size_t, size_t, FILE*)> {
    static size_t ours(Pointer buffer, size_t size, size_t count, FILE* stream) {
        return shared_buffers::transfer_items(buffer, size, count, stream, How, [&](size_t done, size_t one, size_t items) {
            return Stream::real(behind(buffer, done), one, items, stream);
        });
    }
};
template <ImportName Name, Use How, typename Pointer>
struct Stream<Name, How, size_t(Pointer, size_t, size_t, size_t, FILE*)>
    : Row<Name, size_t(Pointer, size_t, size_t, size_t, FILE*)> {
    static size_t ours(Pointer buffer, size_t room, size_t size, size_t count, FILE* stream) {
        return shared_buffers::transfer_items(buffer, size, count, stream, How, [&](size_t done, size_t one, size_t items) {
            return Stream::real(behind(buffer, done), room - done, one, items, stream);
        });
    }
};

/// A buffer that the C library keeps for a FILE, and uses in calls of its own: it makes one itself.
template <ImportName Name, typename Function>
struct StreamBuffer;
template <ImportName Name, typename Result, typename... Rest>
struct StreamBuffer<Name, Result(FILE*, char*, Rest...)> : Row<Name, Result(FILE*, char*, Rest...)> {
    static Result ours(FILE* stream, char* buffer, Rest... rest) {
        return StreamBuffer::real(stream, shared_buffers::may_be_shared(buffer) ? nullptr : buffer, rest...);
    }
};

/// A row with a parameter that says which signals are blocked (signal_mask.h).
template <typename Of, size_t Index, typename Function = typename Of::Type>
struct WithMask;
template <typename Of, size_t Index, typename Result, typename... Args>
struct WithMask<Of, Index, Result(Args...)> : Of {
    static Result ours(Args... args) {
        sigset_t noted;
        auto& mask = std::get<Index>(std::tie(args...));
        if (mask) {
            noted = signal_mask::to_thread(*mask);
            mask = &noted;
        }
        return Of::ours(args...);
    }
};

/// Rows, in the order in which they are looked for.
template <typename... Rows>
struct Table {
    static void add_to(std::vector<Import>& imports) { (imports.push_back(Rows::import(Rows::ours)), ...); }
};

}  // namespace warpline::client::system_calls
