// Functions that the libraries and the program in this process import from others.
#pragma once

#include <span>

namespace warpline::client {

/// A function that calls of go to `ours` from then on.
struct Import {
    const char* name;
    void* ours;
    void** real;  ///< set before anybody can come to `ours`
};

/// Lets what the program and its libraries call by these names be ours: in their tables of addresses that the dynamic linker
/// fills in (DT_JMPREL, and GLOB_DAT of DT_RELA). Not in this library's, nor in the one that has the functions. What somebody
/// else has put there stays. Cheap when nothing was loaded since the last time; for one set of imports only. @thread any
void redirect(std::span<const Import> imports);

}  // namespace warpline::client
