// Somebody who waits for a reply.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "client/state/copy_target.h"
#include "cuda/abi/cuda_types.h"
#include "protocol/codec/frame.h"

namespace warpline::client {

/// A call whose caller waits for the reply: it lies on the caller's stack, and the receiving thread fills it in. The caller
/// must not return before wait() has, once the call is registered. (Watch, which nobody waits for, is the exception.)
class Waiter {
public:
    Waiter() = default;
    virtual ~Waiter() = default;
    /// @param target  where the payload of the reply goes; must stay valid until wait() returns
    explicit Waiter(const CopyTarget& target) : target(target), wants_payload(true) {}
    Waiter(const Waiter&) = delete;
    Waiter& operator=(const Waiter&) = delete;

    /// The last thing that the receiving thread does with it.
    virtual void signal(CUresult with) {
        result = with;
        // Released here, acquired in wait(): the caller sees all that the receiving thread wrote.
        m_done.store(1, std::memory_order_release);
        m_done.notify_one();
    }
    /// True if a thread waits, or will.
    virtual bool holds_thread() const { return true; }
    bool is_done() const { return m_done.load(std::memory_order_acquire) != 0; }
    void wait() { m_done.wait(0, std::memory_order_acquire); }

    /// Where parts of the payload go for the time being.
    CopyTarget place() const { return aside ? CopyTarget::linear(aside->data(), aside->size()) : target; }

    CopyTarget target;
    std::unique_ptr<Bytes> aside;  ///< as Session::Copy has it
    bool wants_payload = false;
    uint64_t received = 0;  ///< bytes of the payload, in parts; the receiving thread's
    uint64_t number = 0;    ///< of the call; 0 until it is registered
    uint64_t context = 0;   ///< token of that of the call. Set before it is registered
    CUresult result = CUDA_ERROR_UNKNOWN;
    protocol::Frame reply;  ///< for decoding the values

private:
    std::atomic<uint32_t> m_done{0};
};

}  // namespace warpline::client
