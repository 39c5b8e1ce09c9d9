// A process that ends as soon as its driver is there.
#include "server/driver/device_nodes.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "common/log/log.h"
#include "server/driver/find_driver.h"

namespace warpline::server {

void let_driver_make_device_nodes(const std::string& choice) {
    const pid_t parent = getpid();
    const pid_t child = fork();
    if (child < 0) {
        WL_LOG(warn, "driver", "missing device nodes are not made: no further process (errno {})", errno);
        return;
    }
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent) _exit(1);
        // What it prints the next one prints again, where somebody reads it.
        const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
        for (const int stream : {STDOUT_FILENO, STDERR_FILENO}) dup2(nowhere, stream);
        std::string problem;
        find_driver(choice, problem);
        _exit(0);
    }
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    WL_LOG(debug, "driver", "the driver was started once to make its device nodes (status {})", status);
}

}  // namespace warpline::server
