// A file under a lock of the kernel's.
#include "client/pool/user_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <utility>

namespace warpline::client {

Result<UserFile> UserFile::open(std::string_view name) {
    const char* folder = std::getenv("XDG_RUNTIME_DIR");
    const std::string path = std::string(folder != nullptr && *folder != 0 ? folder : "/tmp") + "/warpline-" +
                             std::string(name) + "-" + std::to_string(getuid());
    const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
    if (fd < 0) return Error{Code::io, "no file of the user's can be opened"};
    // A file that somebody else has put there is not ours to write to.
    struct stat status {};
    if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode) || status.st_uid != getuid() || flock(fd, LOCK_EX) != 0) {
        close(fd);
        return Error{Code::io, "the file is not the user's"};
    }
    return UserFile(fd);
}

UserFile::UserFile(UserFile&& other) noexcept : m_fd(std::exchange(other.m_fd, -1)) {}

UserFile::~UserFile() {
    if (m_fd >= 0) close(m_fd);
}

std::string UserFile::read(size_t most_bytes) const {
    std::string text(most_bytes, '\0');
    const ssize_t got = pread(m_fd, text.data(), text.size(), 0);
    text.resize(got > 0 ? static_cast<size_t>(got) : 0);
    return text;
}

void UserFile::write(std::string_view text) {
    if (ftruncate(m_fd, 0) != 0) return;
    static_cast<void>(!pwrite(m_fd, text.data(), text.size(), 0));
}

}  // namespace warpline::client
