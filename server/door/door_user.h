// Whom the door runs as.
#pragma once

#include <string>

#include "common/base/result.h"

namespace warpline::server {

/// Gives this process another user, with that user's own group and no other, for good. Nothing happens if `name` is empty.
///
/// @param problem  set when it fails: one sentence for the server's owner
/// @errors         not_configured (there is no such user, or this process is not root's), io
Result<void> become_user(const std::string& name, std::string& problem);

}  // namespace warpline::server
