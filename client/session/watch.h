// Replies that nobody waits for, but somebody wants to hear of.
#pragma once

#include <functional>
#include <utility>

#include "client/session/waiter.h"

namespace warpline::client {

/// A reply that is told to a function instead of a waiting caller. Made with new and given to Call::background; once the call
/// is registered, the session signals it exactly once, and it deletes itself.
class Watch final : public Waiter {
public:
    /// @param on_reply  called by the receiving thread, or by the one that ends the session: must not send, nor wait
    explicit Watch(std::function<void(CUresult)> on_reply) : m_on_reply(std::move(on_reply)) {}
    /// @param target  of the reply's payload; valid as long as on_reply
    Watch(const CopyTarget& target, std::function<void(CUresult)> on_reply) : Waiter(target), m_on_reply(std::move(on_reply)) {}

    void signal(CUresult with) override {
        m_on_reply(with);
        delete this;
    }
    bool holds_thread() const override { return false; }

private:
    std::function<void(CUresult)> m_on_reply;
};

}  // namespace warpline::client
