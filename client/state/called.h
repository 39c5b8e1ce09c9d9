// Which of the driver's functions this process has called, for the statistics.
#pragma once

#include <atomic>
#include <string>
#include <vector>

namespace warpline::client {

/// One for each exported function, never destroyed. Constant-initialised: functions are called before constructors run.
struct CalledFunction {
    std::atomic<bool> called{false};
    const char* name = nullptr;
    CalledFunction* next = nullptr;
};

/// Notes the first call of a function. Takes no lock, so that a child of a fork finds none held.
///
/// @thread  any
void note_called(CalledFunction& function, const char* name) noexcept;

/// The names of all that were called, in the order of the alphabet.
std::vector<std::string> called_functions();

}  // namespace warpline::client
