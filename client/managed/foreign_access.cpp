// First as the kernel lets a process write to itself, which fails where there is no access; then as debuggers write.
#include "client/managed/foreign_access.h"

#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace warpline::client {

namespace {

bool write_as_debugger(const AddressRange& range, const std::byte* from) {
    const int memory = ::open("/proc/self/mem", O_WRONLY | O_CLOEXEC);
    if (memory < 0) return false;
    uint64_t done = 0;
    while (done < range.size_bytes) {
        const ssize_t written = ::pwrite(memory, from + done, range.size_bytes - done, static_cast<off_t>(range.base + done));
        if (written <= 0 && errno != EINTR) break;
        done += static_cast<uint64_t>(std::max<ssize_t>(written, 0));
    }
    ::close(memory);
    return done == range.size_bytes;
}

}  // namespace

size_t write_over(const std::vector<AddressRange>& ranges, const std::vector<const std::byte*>& from) {
    constexpr size_t k_most_at_once = 512;
    size_t failed = 0;
    for (size_t first = 0; first < ranges.size();) {
        const size_t count = std::min(ranges.size() - first, k_most_at_once);
        std::vector<iovec> own(count), program(count);
        uint64_t total = 0;
        for (size_t i = 0; i < count; ++i) {
            const AddressRange& range = ranges[first + i];
            own[i] = {const_cast<std::byte*>(from[first + i]), range.size_bytes};
            program[i] = {reinterpret_cast<void*>(range.base), range.size_bytes};
            total += range.size_bytes;
        }
        const ssize_t written = ::process_vm_writev(::getpid(), own.data(), count, program.data(), count, 0);
        if (written < 0 || static_cast<uint64_t>(written) != total) {
            for (size_t i = first; i < first + count; ++i) failed += !write_as_debugger(ranges[i], from[i]);
        }
        first += count;
    }
    return failed;
}

uint64_t read_as_far(const AddressRange& range, std::byte* into) {
    iovec own{into, range.size_bytes}, program{reinterpret_cast<void*>(range.base), range.size_bytes};
    const ssize_t read = ::process_vm_readv(::getpid(), &own, 1, &program, 1, 0);
    if (read >= 0) return static_cast<uint64_t>(read);
    if (errno == EFAULT) return 0;
    // Not allowed here, as in some containers.
    std::memcpy(into, program.iov_base, range.size_bytes);
    return range.size_bytes;
}

}  // namespace warpline::client
