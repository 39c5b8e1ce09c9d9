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
    /// Is given the result, and what has come: the call's number, the reply.
    using OnReply = std::function<void(CUresult, const Waiter&)>;
    /// @param on_reply  called by the receiving thread, or by the one that ends the session: must not send, nor wait
    explicit Watch(OnReply on_reply) : m_on_reply(std::move(on_reply)) {}
    /// @param target  of the reply's payload; valid as long as on_reply
    Watch(const CopyTarget& target, OnReply on_reply) : Waiter(target), m_on_reply(std::move(on_reply)) {}

    void signal(CUresult with) override {
        m_on_reply(with, *this);
        delete this;
    }
    bool holds_thread() const override { return false; }

private:
    OnReply m_on_reply;
};

}  // namespace warpline::client
