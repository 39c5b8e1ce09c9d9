// Whom a process of the server runs as.
#pragma once

#include <string>
#include <string_view>

#include "common/base/result.h"

namespace warpline::server {

/// Who becomes whom.
struct UserChange {
    enum class Groups {
        own,  ///< the user's own group, and no other
        all,  ///< all that the system gives the user: device nodes may belong to one of them
    };
    std::string user;         ///< empty: nothing happens
    std::string_view who;     ///< "the door", for `problem`
    std::string_view option;  ///< that names the user, likewise
    Groups groups = Groups::own;
};

/// Gives this process another user, for good; HOME, USER and LOGNAME become that user's.
///
/// What the kernel ties to the process's credentials (PR_SET_PDEATHSIG, PR_SET_DUMPABLE) has to be set again behind it.
///
/// @param problem  set when it fails: one sentence for the server's owner
/// @errors         not_configured (there is no such user, or this process is not root's), io
Result<void> become_user(const UserChange& change, std::string& problem);

}  // namespace warpline::server
