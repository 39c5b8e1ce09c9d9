// What the client asks about the threads of the program.
#include "client/session/threads.h"

#include <sys/stat.h>

namespace warpline::client {

bool has_other_threads(unsigned own) {
    struct stat tasks {};
    constexpr nlink_t k_directory_links = 2;  // "." and its name; each thread is one more
    if (::stat("/proc/self/task", &tasks) != 0 || tasks.st_nlink <= k_directory_links) return true;
    return tasks.st_nlink - k_directory_links > own + 1;
}

}  // namespace warpline::client
