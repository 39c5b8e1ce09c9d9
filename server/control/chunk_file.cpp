// A memfd that nobody can change any more.
#include "server/control/chunk_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

#include "common/base/scope_guard.h"

namespace warpline::server {

Result<int> make_chunk_file(BytesView bytes) {
    const auto failed = [](const char* what) { return Error{Code::io, what, static_cast<uint32_t>(errno)}; };
    const int fd = memfd_create("warpline-chunk", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0) return failed("no descriptor for a chunk");
    ScopeGuard close_it([fd] { close(fd); });
    for (size_t written = 0; written < bytes.size();) {
        const ssize_t count = pwrite(fd, bytes.data() + written, bytes.size() - written, static_cast<off_t>(written));
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) return failed("no memory for a chunk");
        written += static_cast<size_t>(count);
    }
    if (fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) != 0)
        return failed("a chunk cannot be sealed");
    close_it.dismiss();
    return fd;
}

bool read_chunk_file(int fd, MutableBytesView bytes) {
    for (size_t done = 0; done < bytes.size();) {
        const ssize_t count = pread(fd, bytes.data() + done, bytes.size() - done, static_cast<off_t>(done));
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) return false;
        done += static_cast<size_t>(count);
    }
    return true;
}

}  // namespace warpline::server
