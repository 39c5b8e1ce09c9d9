// A batch of calls as work that has an order.
#pragma once

#include <memory>
#include <optional>

#include "protocol/codec/call_receiver.h"
#include "server/session/call_order.h"
#include "server/session/executor.h"

namespace warpline::server {

class Session;

/// The calls of one batch as work for the executor: a step is a call.
class BatchWork final : public OrderedWork, public std::enable_shared_from_this<BatchWork> {
public:
    /// @errors malformed
    static Result<std::shared_ptr<BatchWork>> create(Session& session, protocol::CallReceiver::Unit unit);

    // Cap'n Proto's destructors may throw, as far as the compiler knows.
    ~BatchWork() noexcept override {}

    bool step() override;
    bool is_last_step() const override { return m_reader->at_last(); }
    std::function<void()> overtaken() override;

private:
    friend class KeptBack;
    BatchWork(Session& session, protocol::CallReceiver::Unit unit) : m_session(session), m_unit(std::move(unit)) {}

    bool keep_back(const protocol::CallView& view);
    bool is_not_ready(const protocol::CallView& view);
    void serve(const protocol::CallView& view);
    void answer_not_ready(const protocol::CallView& view);
    /// The client gets its credit back when the last call of the batch has begun, those that were kept back included.
    void part_done();

    Session& m_session;
    protocol::CallReceiver::Unit m_unit;
    std::optional<protocol::BatchReader> m_reader;
    std::atomic<size_t> m_parts{1};  // calls kept back, and the rest of the batch
};

/// The very last work of a session: it comes when every call of the client has ended that no thread of the program waits for.
class LastWork final : public OrderedWork, public std::enable_shared_from_this<LastWork> {
public:
    /// @param done  called once
    LastWork(CallOrder& order, std::function<void()> done) : m_order(order), m_done(std::move(done)) {}
    bool step() override;

private:
    CallOrder& m_order;
    const std::function<void()> m_done;
    uint64_t m_number = 0;
};

}  // namespace warpline::server
