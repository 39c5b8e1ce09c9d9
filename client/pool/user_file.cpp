// A file under a lock of the kernel's.
#include "client/pool/user_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <thread>
#include <utility>

#include "common/log/log.h"

namespace warpline::client {

namespace {

using Clock = std::chrono::steady_clock;

/// Who has the file has it for microseconds. Who has it for longer is stopped, or gets no processor.
constexpr std::chrono::milliseconds k_patience{100};
constexpr std::chrono::microseconds k_first_pause{50};
constexpr std::chrono::microseconds k_longest_pause{5'000};

/// Files have no lock with a deadline. False if another program has it all the time.
bool lock_in_time(int fd) {
    const auto deadline = Clock::now() + k_patience;
    for (auto pause = k_first_pause;; pause = std::min(2 * pause, k_longest_pause)) {
        if (flock(fd, LOCK_EX | LOCK_NB) == 0) return true;
        if ((errno != EWOULDBLOCK && errno != EINTR) || Clock::now() >= deadline) return false;
        std::this_thread::sleep_for(pause);
    }
}

}  // namespace

Result<UserFile> UserFile::open(std::string_view name) {
    const char* folder = std::getenv("XDG_RUNTIME_DIR");
    const std::string path = std::string(folder != nullptr && *folder != 0 ? folder : "/tmp") + "/warpline-" +
                             std::string(name) + "-" + std::to_string(getuid());
    const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
    if (fd < 0) return Error{Code::io, "no file of the user's can be opened"};
    // A file that somebody else has put there is not ours to write to.
    struct stat status {};
    if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode) || status.st_uid != getuid()) {
        close(fd);
        return Error{Code::io, "the file is not the user's"};
    }
    if (lock_in_time(fd)) return UserFile(fd);
    close(fd);
    WL_LOG(info, "pool", "{}: another program has it, and seems to be stopped; this one goes on without what is in it", path);
    return Error{Code::deadline, "another program has the file"};
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
