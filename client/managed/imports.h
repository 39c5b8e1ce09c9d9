// Functions that the libraries and the program in this process import from others.
#pragma once

#include <cstddef>
#include <span>

#include "common/base/function_ref.h"

namespace warpline::client {

/// A function that calls of go to `ours` from then on.
struct Import {
    const char* name;
    void* ours;
    void** real;  ///< set before anybody can come to `ours`
};

/// The name of an import, as a parameter of what is made for it.
template <size_t Size>
struct ImportName {
    char text[Size];
    consteval ImportName(const char (&name)[Size]) {
        for (size_t i = 0; i < Size; ++i) text[i] = name[i];
    }
};

/// Lets what the program and its libraries call by these names be ours: where the dynamic linker has put their addresses, that
/// is in the tables that calls go through (DT_JMPREL, GLOB_DAT) and in initialised data (a table of functions, say). Not in
/// this library's, nor in the one that has the functions. What somebody else has put there stays. Cheap when nothing was loaded
/// since the last time, and looks at new objects alone when something was; for one set of imports only.
/// @param is_settled  asked at the end: false if another thread may have been loading something meanwhile, whose addresses were
///                    not filled in yet. Then it is looked at again the next time
/// @returns true if there was something to look at @thread any
bool redirect(std::span<const Import> imports, FunctionRef<bool()> is_settled);

}  // namespace warpline::client
