// Starting this program anew in another role.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "common/base/result.h"

namespace warpline::server {

struct SpawnPlan {
    struct Place {
        int fd;  ///< ours, above all numbers at which something is put; -1: nothing to be read is there
        int at;  ///< where the process finds it
    };
    std::vector<std::string> arguments;    ///< argv[0] first
    std::vector<std::string> environment;  ///< NAME=value each
    std::vector<Place> descriptors;
    /// As the leader of a process group: an interrupt from the terminal is the supervisor's to answer. Not of a session: Linux
    /// gives each of those a share of the processor of its own (autogroups), and where many of them only wait for one another,
    /// as workers and their clients do, leaves some without any for a second and longer (docs/threading.md).
    bool leads_group = false;
};

/// A copy of a descriptor above those that processes expect, so that moving one into place never overwrites the other.
int out_of_the_way(int fd);

/// Runs this program anew, with standard input from nowhere, default signals, and everything else in place.
/// @errors io @blocks no
Result<pid_t> spawn_self(const SpawnPlan& plan);

/// This process's environment.
std::vector<std::string> own_environment();

Error io_error(const char* what, int error);

}  // namespace warpline::server
