// Where the parts of an installation lie.
#pragma once

#include <string>

namespace warpline::cli {

/// The folder of this executable: bin/ of a build or of an installation.
std::string program_folder();

/// The folder that holds Warpline's libcuda.so.1, beside program_folder(). Empty if it is not there.
std::string client_library_folder();

/// The folder in which the software GPU stands in as libcuda.so.1. Empty if it is not there.
std::string direct_library_folder();

/// The library that `warpline run` preloads so that NVRTC's machine code runs on the software GPU. Empty if it is not there.
std::string nvrtc_library();

}  // namespace warpline::cli
