// Modules and libraries, which share how they are loaded.
#pragma once

#include <cstdint>
#include <vector>

#include "server/objects/jit_log.h"
#include "server/session/call.h"

namespace warpline::server {

/// What wlImageLoad calls the container.
enum class ImageKind : uint32_t { fatbin = 1, cubin = 2, ptx = 3 };

/// True if bytes are what `kind` says, and what the headers in them say lies inside of them: the driver reads headers and
/// trusts them, is told no size, and decides by the first bytes what it has before it.
bool is_sound(BytesView bytes, ImageKind kind);

/// Loads the container in a call's payload as a module or a library, and names it by the client's token.
///
/// @errors  the driver's; CUDA_ERROR_INVALID_IMAGE if the payload is not what `kind` says
/// @blocks  while the driver loads or compiles
CUresult load_image(ServerCall& call, uint64_t token, bool library, ImageKind kind, const std::vector<uint64_t>& options,
                    const std::vector<uint64_t>& values, JitLog& log);

}  // namespace warpline::server
