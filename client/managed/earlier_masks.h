// Threads that had blocked SIGSEGV before anybody noted what the program blocks.
#pragma once

namespace warpline::client::earlier_masks {

/// Looks at all threads of the process, and at all handlers' masks. What the calling thread has blocked is SIGSEGV no more, and
/// noted (signal_mask.h); the other threads do that themselves at their next settle(). @thread any, not in signal handlers
void look();

/// The calling thread's mask is as the functions of signal_calls.h want it from then on. Costs nothing where no thread had
/// SIGSEGV blocked. @thread any, also in signal handlers
void settle();

/// True if the calling thread's mask is still from before, where the note is none. @thread any, also in signal handlers
bool is_from_before();

}  // namespace warpline::client::earlier_masks
