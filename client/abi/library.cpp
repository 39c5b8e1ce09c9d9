// What runs when libcuda.so.1 itself comes and goes.
#include "client/abi/process.h"

namespace {

// Before other threads can be: a child of a fork must not find the process half made.
__attribute__((constructor)) void begin_process() { warpline::client::Process::instance(); }

// At exit, after the program's own exit handlers, which may still call CUDA.
__attribute__((destructor)) void finish_process() { warpline::client::Process::instance().finish(); }

}  // namespace
