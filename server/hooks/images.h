#pragma once

#include <string>
#include <vector>

#include "server/session/call.h"

namespace warpline::server {

/// What wlImageLoad calls the container.
enum class ImageKind : uint32_t { fatbin = 1, cubin = 2, ptx = 3 };

/// What a compiler or linker in the driver had to say.
class JitLog {
public:
    static constexpr size_t k_log_bytes = 64 * 1024;

    JitLog() : m_info(k_log_bytes, '\0'), m_error(k_log_bytes, '\0') {}

    /// Takes over the client's options, in the order in which it gave them, except those that point into its memory; and adds
    /// the two logs. False if there are more options than any call can have, or one that is not known here.
    bool prepare(const std::vector<uint64_t>& options, const std::vector<uint64_t>& values);

    unsigned count() const { return static_cast<unsigned>(m_options.size()); }
    CUjit_option* options() { return m_options.data(); }
    void** values() { return m_values.data(); }

    std::string info() const { return m_info.c_str(); }
    std::string error() const { return m_error.c_str(); }

private:
    void add(CUjit_option option, uint64_t value);

    std::string m_info;
    std::string m_error;
    std::vector<CUjit_option> m_options;
    std::vector<void*> m_values;
};

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
