// A counter in a file, under a lock of the kernel's.
#include "client/pool/turn.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <random>
#include <string>

namespace warpline::client {

uint64_t next_turn() {
    const char* folder = std::getenv("XDG_RUNTIME_DIR");
    const std::string path =
        std::string(folder != nullptr && *folder != 0 ? folder : "/tmp") + "/warpline-turn-" + std::to_string(getuid());
    uint64_t turn = std::random_device{}();
    const int file = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (file < 0) return turn;
    // A file that somebody else has put there is not ours to write to.
    struct stat status {};
    if (fstat(file, &status) == 0 && S_ISREG(status.st_mode) && status.st_uid == getuid() && flock(file, LOCK_EX) == 0) {
        uint64_t kept = 0;
        if (pread(file, &kept, sizeof kept, 0) == sizeof kept) turn = kept;
        const uint64_t following = turn + 1;
        static_cast<void>(!pwrite(file, &following, sizeof following, 0));
    }
    close(file);
    return turn;
}

}  // namespace warpline::client
