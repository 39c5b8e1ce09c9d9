// Sealed memory, made and checked.
#include "common/net/shared_memory.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "common/base/file_size.h"

namespace warpline::net {

namespace {

constexpr int k_seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

Error system_error(const char* what) { return {Code::io, what, static_cast<uint32_t>(errno)}; }

}  // namespace

SharedMemory::SharedMemory(SharedMemory&& other) noexcept : m_bytes(std::exchange(other.m_bytes, {})) {}
SharedMemory& SharedMemory::operator=(SharedMemory&& other) noexcept {
    std::swap(m_bytes, other.m_bytes);
    return *this;
}

SharedMemory::~SharedMemory() {
    if (!m_bytes.empty()) ::munmap(m_bytes.data(), m_bytes.size());
}

Result<SharedMemory> SharedMemory::map(const Socket& descriptor, size_t bytes) {
    void* const data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor.fd(), 0);
    if (data == MAP_FAILED) return system_error("shared memory cannot be mapped");
    // A child of the program's has no part in its session.
    (void)::madvise(data, bytes, MADV_DONTFORK);
    return SharedMemory({static_cast<std::byte*>(data), bytes});
}

Result<SharedMemory> SharedMemory::create(size_t bytes, Socket& descriptor) {
    descriptor = Socket(::memfd_create("warpline-session", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (!descriptor.valid()) return system_error("no shared memory");
    if (!resize_file(descriptor.fd(), bytes) || ::fcntl(descriptor.fd(), F_ADD_SEALS, k_seals) != 0)
        return system_error("shared memory cannot be made");
    return map(descriptor, bytes);
}

Result<SharedMemory> SharedMemory::open(const Socket& descriptor, size_t bytes) {
    if (!descriptor.valid()) return Error{Code::malformed, "shared memory was announced, and no descriptor has come"};
    struct stat found {};
    struct statfs system {};
    if (::fstat(descriptor.fd(), &found) != 0 || ::fstatfs(descriptor.fd(), &system) != 0)
        return system_error("shared memory cannot be looked at");
    // Of pages of other sizes there may be none left when they are used: SIGBUS again.
    if (!S_ISREG(found.st_mode) || system.f_type != TMPFS_MAGIC)
        return Error{Code::malformed, "what was passed as shared memory is something else"};
    const int seals = ::fcntl(descriptor.fd(), F_GET_SEALS);
    if (seals < 0 || (seals & k_seals) != k_seals)
        return Error{Code::malformed, "the size of the shared memory is not sealed", static_cast<uint32_t>(seals)};
    if (bytes == 0 || found.st_size != static_cast<off_t>(bytes))
        return Error{Code::malformed, "the shared memory has another size than was announced"};
    return map(descriptor, bytes);
}

}  // namespace warpline::net
