// The size of files that are memory.
#pragma once

#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

namespace warpline {

/// Gives a file this size. Beyond the limit of the process (`ulimit -f`), which counts for files in memory as well, the kernel
/// would end it by SIGXFSZ: EFBIG instead.
/// @return  false: errno says why
inline bool resize_file(int file, uint64_t bytes) {
    rlimit limit{};
    if (::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && bytes > limit.rlim_cur) {
        errno = EFBIG;
        return false;
    }
    return ::ftruncate(file, static_cast<off_t>(bytes)) == 0;
}

}  // namespace warpline
