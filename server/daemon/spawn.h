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
    /// As the leader of a session, which Linux gives a share of the processor of its own. The supervisor has little to do and
    /// many wait for it: on a busy machine it would get its share of a session that it has in common with all workers seconds
    /// late.
    bool leads_session = false;
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
