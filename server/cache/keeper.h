// The process that keeps what tenants have uploaded.
#pragma once

#include <sys/types.h>

#include "common/config/settings.h"

namespace warpline::server {

/// The life of the keeper: it has the store, and answers the workers of sessions, each for its own tenant. A process of its
/// own, because sessions end with theirs, and because it must believe none of them: it hashes itself what they hand in. One
/// thread; questions come before what is handed in.
///
/// @param supervisor  the process that started us: we end with it
/// @return            the exit status
/// @blocks            the whole life of the keeper
int keeper_main(const config::Settings& settings, pid_t supervisor);

/// Makes the folder for what is kept, if there shall be one and is none, so that it is there before workers are kept from it. A
/// folder that cannot be made is the keeper's to complain of.
void make_upload_folder(const config::Settings& settings);

}  // namespace warpline::server
