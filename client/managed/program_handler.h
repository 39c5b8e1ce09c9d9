// What the program has installed for SIGSEGV, and would have come to if the handler were not ours.
#pragma once

#include <signal.h>

#include <cstdint>

namespace warpline::client::program_handler {

/// As sigaction(SIGSEGV, now, before), with nothing changed in the kernel. @param now, before  may be null
/// @thread any, also in signal handlers
void exchange(const struct sigaction* now, struct sigaction* before);

/// How often something was installed, and an action that was found in the kernel, which counts unless the program has told of
/// another one since there were as many. @thread any, also in signal handlers
uint32_t number();
void found(const struct sigaction& action, uint32_t known);

/// Does as the kernel would have done with this signal: calls what the program has installed, or has the process end when our
/// handler returns. What is not to be had: a handler without SA_ONSTACK runs where ours does, on the thread's alternate stack
/// if it has one; and a signal that somebody sends is not kept while the program has SIGSEGV blocked. @thread in the handler
void pass_on(int signal, siginfo_t* info, void* context);

}  // namespace warpline::client::program_handler
