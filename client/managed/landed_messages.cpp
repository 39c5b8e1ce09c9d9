// Memory for messages, in one piece: their headers, one buffer each, names and control data.
#include "client/managed/landed_messages.h"

#include <limits.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

namespace warpline::client::shared_buffers {

namespace {

struct Sizes {
    uint64_t data = 0, name = 0, control = 0;
    bool may_be_shared = false;
    uint64_t total() const { return data + name + control; }
};

uint64_t whole(uint64_t size_bytes) { return (size_bytes + 15) / 16 * 16; }

/// Reads them as the program would: what the device has comes.
bool sizes_of(const msghdr& message, Sizes& sizes) {
    if (message.msg_iovlen > IOV_MAX || (message.msg_iovlen != 0 && !message.msg_iov)) return false;
    sizes = {};
    sizes.may_be_shared = may_be_shared(&message) || may_be_shared(message.msg_iov) || may_be_shared(message.msg_name) ||
                          may_be_shared(message.msg_control);
    for (size_t i = 0; i < message.msg_iovlen; ++i) {
        const iovec& part = message.msg_iov[i];
        if (__builtin_add_overflow(sizes.data, part.iov_len, &sizes.data)) return false;
        sizes.may_be_shared = sizes.may_be_shared || may_be_shared(part.iov_base);
    }
    if (sizes.data > SSIZE_MAX / IOV_MAX || message.msg_controllen > INT_MAX) return false;
    sizes.data = whole(sizes.data);
    sizes.name = message.msg_name ? whole(message.msg_namelen) : 0;
    sizes.control = message.msg_control ? whole(message.msg_controllen) : 0;
    return true;
}

}  // namespace

bool LandedMessages::land(int fd, unsigned count) {
    uint64_t area = count * (whole(sizeof(mmsghdr)) + whole(sizeof(iovec)));
    bool any = m_list && may_be_shared(m_list);
    Sizes sizes;
    for (unsigned i = 0; i < count; ++i) {
        if (!sizes_of(theirs(i), sizes)) return false;
        area += sizes.total();
        any = any || sizes.may_be_shared;
    }
    if (!any || !has_messages(fd)) return false;
    void* const mapped = ::mmap(nullptr, area, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped == MAP_FAILED) return false;
    m_area_bytes = area;
    m_own = static_cast<mmsghdr*>(mapped);
    auto* parts = reinterpret_cast<iovec*>(static_cast<std::byte*>(mapped) + count * whole(sizeof(mmsghdr)));
    auto* free = reinterpret_cast<std::byte*>(parts) + count * whole(sizeof(iovec));
    const auto take = [&](uint64_t size_bytes) { return std::exchange(free, free + size_bytes); };
    for (unsigned i = 0; i < count; ++i) {
        (void)sizes_of(theirs(i), sizes);
        uint64_t asked = 0;
        for (size_t part = 0; part < theirs(i).msg_iovlen; ++part) asked += theirs(i).msg_iov[part].iov_len;
        parts[i] = {take(sizes.data), asked};
        msghdr& own = m_own[i].msg_hdr;
        own = theirs(i);
        own.msg_iov = &parts[i];
        own.msg_iovlen = 1;
        if (own.msg_name) own.msg_name = take(sizes.name);
        if (own.msg_control) own.msg_control = take(sizes.control);
    }
    return true;
}

msghdr* LandedMessages::instead_of(int fd, msghdr* message) {
    m_message = message;
    return message && land(fd, 1) ? &m_own[0].msg_hdr : message;
}

mmsghdr* LandedMessages::instead_of(int fd, mmsghdr* messages, unsigned count, Use use) {
    m_list = messages;
    m_sends = use == Use::reads;
    count = std::min(count, unsigned{IOV_MAX});  // the kernel takes no more
    if (!messages || count == 0 || !land(fd, count)) return messages;
    for (unsigned i = 0; m_sends && i < count; ++i) take(i);
    return m_own;
}

void LandedMessages::take(unsigned index) const {
    const msghdr& own = m_own[index].msg_hdr;
    const msghdr& program = theirs(index);
    auto* to = static_cast<std::byte*>(own.msg_iov[0].iov_base);
    for (size_t i = 0; i < program.msg_iovlen; ++i) {
        if (program.msg_iov[i].iov_len != 0) std::memcpy(to, program.msg_iov[i].iov_base, program.msg_iov[i].iov_len);
        to += program.msg_iov[i].iov_len;
    }
    if (program.msg_name) std::memcpy(own.msg_name, program.msg_name, program.msg_namelen);
    if (program.msg_control) std::memcpy(own.msg_control, program.msg_control, program.msg_controllen);
}

void LandedMessages::put(unsigned index, size_t size_bytes) const {
    const msghdr& own = m_own[index].msg_hdr;
    msghdr& program = theirs(index);
    const auto* from = static_cast<const std::byte*>(own.msg_iov[0].iov_base);
    size_t left = std::min(size_bytes, own.msg_iov[0].iov_len);
    for (size_t i = 0; i < program.msg_iovlen && left != 0; ++i) {
        const size_t bytes = std::min(left, program.msg_iov[i].iov_len);
        if (bytes != 0) std::memcpy(program.msg_iov[i].iov_base, from, bytes);
        from += bytes;
        left -= bytes;
    }
    if (program.msg_name) std::memcpy(program.msg_name, own.msg_name, std::min(own.msg_namelen, program.msg_namelen));
    if (program.msg_control)
        std::memcpy(program.msg_control, own.msg_control, std::min(own.msg_controllen, program.msg_controllen));
    program.msg_namelen = own.msg_namelen;
    program.msg_controllen = own.msg_controllen;
    program.msg_flags = own.msg_flags;
}

void LandedMessages::arrived(ssize_t result) {
    if (!m_own) return;
    const int error = errno;
    if (!m_list && result >= 0) put(0, static_cast<size_t>(result));
    for (unsigned i = 0; m_list && i < result; ++i) {
        if (!m_sends) put(i, m_own[i].msg_len);
        m_list[i].msg_len = m_own[i].msg_len;
    }
    ::munmap(m_own, m_area_bytes);
    errno = error;
}

}  // namespace warpline::client::shared_buffers
