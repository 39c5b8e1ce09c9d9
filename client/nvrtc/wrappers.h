// Functions that stand before those of NVIDIA's compilers and ask for line information besides what the program asks for.
#pragma once

namespace warpline::nvrtc {

/// True for the names of functions that have a wrapper: nvrtcCompileProgram, nvJitLinkCreate and its versions.
bool is_wrapped(const char* name);

/// The function to call in place of `real`, which was found by a name that is_wrapped(): a process may have several versions of
/// a library, so there is one for each. `real` itself if it is one already, or if there are too many (which is said on stderr).
///
/// @thread  any; allocates nothing
void* wrapper_of(const char* name, void* real);

/// glibc's dlsym. @thread  any
void* real_dlsym(void* handle, const char* name);

}  // namespace warpline::nvrtc
