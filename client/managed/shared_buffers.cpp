// Bringing memory that the kernel is about to use.
#include "client/managed/shared_buffers.h"

#include <limits.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>

#include "client/managed/faults.h"
#include "client/managed/held_signals.h"
#include "client/managed/shared_pages.h"

namespace warpline::client::shared_buffers {

bool is_in_place(const void* buffer, uint64_t size_bytes, Use use) {
    const auto address = reinterpret_cast<uint64_t>(buffer);
    SharedPages& pages = SharedPages::instance();
    const held_signals::Hold hold;
    MutexLock lock(pages.mutex);
    const SharedRegion* shared = pages.find(address);
    return !shared || shared->region->is_in_place({address, size_bytes}, use == Use::writes);
}

bool bring(const void* buffer, uint64_t size_bytes, Use use) {
    const auto address = reinterpret_cast<uint64_t>(buffer);
    if (size_bytes == 0 || !may_be_shared(buffer)) return false;
    const int error = errno;
    if (!is_in_place(buffer, size_bytes, use)) faults::bring(address, size_bytes, use == Use::writes);
    errno = error;
    return true;
}

bool bring_all(const iovec* parts, uint64_t count, Use use) {
    if (!parts || count > IOV_MAX) return false;  // the kernel's to say
    bool any = bring(parts, count * sizeof *parts, Use::reads);
    for (uint64_t i = 0; i < count; ++i) any = bring(parts[i].iov_base, parts[i].iov_len, use) || any;
    return any;
}

bool bring_all(const msghdr* message, Use use) {
    if (!message) return false;
    bool any = bring(message, sizeof *message, use);
    any = bring(message->msg_name, message->msg_namelen, use) || any;
    any = bring(message->msg_control, message->msg_controllen, use) || any;
    return bring_all(message->msg_iov, message->msg_iovlen, use) || any;
}

bool bring_all(const mmsghdr* messages, uint64_t count, Use use) {
    if (!messages || count > IOV_MAX) count = messages ? IOV_MAX : 0;  // the kernel takes no more
    bool any = bring(messages, count * sizeof *messages, Use::writes);
    for (uint64_t i = 0; i < count; ++i) any = bring_all(&messages[i].msg_hdr, use) || any;
    return any;
}

bool is_file(int fd) {
    struct stat about {};
    return ::fstat(fd, &about) == 0 && S_ISREG(about.st_mode);
}

bool PartsToCome::take(const iovec* parts, int count) {
    if (static_cast<size_t>(count) > m_parts.size()) return false;
    m_count = static_cast<size_t>(count);
    std::copy_n(parts, m_count, m_parts.begin());
    return true;
}

void PartsToCome::advance(size_t done) {
    while (m_first < m_count && done >= m_parts[m_first].iov_len) done -= m_parts[m_first++].iov_len;
    if (m_first == m_count) return;
    m_parts[m_first] = {static_cast<std::byte*>(m_parts[m_first].iov_base) + done, m_parts[m_first].iov_len - done};
}

bool is_gone(const iovec* parts, uint64_t count, uint64_t place, Use use) {
    for (uint64_t i = 0; i < count; ++i) {
        if (place < parts[i].iov_len) return !is_in_place(static_cast<std::byte*>(parts[i].iov_base) + place, 1, use);
        place -= parts[i].iov_len;
    }
    return false;
}

bool has_messages(int fd) {
    const int error = errno;
    int type = SOCK_STREAM;
    socklen_t size = sizeof type;
    const bool messages = ::getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type != SOCK_STREAM;
    errno = error;
    return messages;
}

void* Landing::instead_of(int fd, void* buffer, size_t size_bytes) {
    if (size_bytes == 0 || !may_be_shared(buffer) || !has_messages(fd)) return buffer;
    // Not of the heap: these calls may be made in signal handlers.
    void* const own = ::mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (own == MAP_FAILED) return buffer;
    m_own = own;
    m_theirs = buffer;
    m_size_bytes = size_bytes;
    return own;
}

void Landing::arrived(ssize_t result) {
    if (!m_own) return;
    const int error = errno;
    if (result > 0) std::memcpy(m_theirs, m_own, std::min(static_cast<size_t>(result), m_size_bytes));
    ::munmap(m_own, m_size_bytes);
    errno = error;
}

}  // namespace warpline::client::shared_buffers
