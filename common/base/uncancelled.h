// Scopes that a thread which is cancelled (pthread_cancel) does not leave in between.
#pragma once

#include <pthread.h>

namespace warpline {

/// Around what sleeps, reads or writes for a thread of somebody else's: CUDA's calls are no cancellation points, and what is
/// on the stack there cannot be taken away by the C library, whose unwinder is not ours. A cancellation waits for the next one.
class Uncancelled {
public:
    Uncancelled() { (void)::pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &m_before); }
    ~Uncancelled() { (void)::pthread_setcancelstate(m_before, nullptr); }
    Uncancelled(const Uncancelled&) = delete;
    Uncancelled& operator=(const Uncancelled&) = delete;

private:
    int m_before = PTHREAD_CANCEL_ENABLE;
};

}  // namespace warpline
