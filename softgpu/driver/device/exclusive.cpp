// The lock on a file by which processes agree.
#include "softgpu/driver/device/exclusive.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>

#include "common/log/log.h"

namespace warpline::softgpu::driver {

ExclusiveDevice::~ExclusiveDevice() {
    MutexLock lock(m_mutex);
    if (m_fd >= 0) close(m_fd);
}

bool ExclusiveDevice::open(const std::string& name) {
    const char* folder = std::getenv("TMPDIR");
    std::string path = folder != nullptr && *folder != 0 ? folder : "/tmp";
    path += "/softgpu-" + std::to_string(geteuid()) + "-" + name;
    MutexLock lock(m_mutex);
    m_fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (m_fd < 0) WL_LOG(error, "softgpu", "{} cannot be opened: an exclusive device needs it", path);
    return m_fd >= 0;
}

bool ExclusiveDevice::lock(bool on) {
    // A lock of the process, not of the file's opening: children of fork do not have it.
    struct flock wanted {};
    wanted.l_type = on ? F_WRLCK : F_UNLCK;
    wanted.l_whence = SEEK_SET;
    return fcntl(m_fd, F_SETLK, &wanted) == 0;
}

bool ExclusiveDevice::take() {
    MutexLock guard(m_mutex);
    if (m_contexts == 0 && !lock(true)) return false;
    ++m_contexts;
    return true;
}

void ExclusiveDevice::give() {
    MutexLock guard(m_mutex);
    if (--m_contexts == 0) lock(false);
}

}  // namespace warpline::softgpu::driver
