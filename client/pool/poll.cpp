// Connections and threads of a poll.
#include "client/pool/poll.h"

#include <deque>

#include "common/base/mutex.h"
#include "common/base/quiet_thread.h"
#include "common/net/socket.h"

namespace warpline::client {

namespace {

std::chrono::milliseconds left_until(StatusConnection::Clock::time_point deadline) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - StatusConnection::Clock::now());
    return std::max(left, std::chrono::milliseconds(1));
}

}  // namespace

Result<std::unique_ptr<StatusConnection>> StatusConnection::open(const Identity& identity, const std::string& server,
                                                                 Clock::time_point deadline, std::string& why,
                                                                 const std::function<void()>& reached) {
    const auto endpoint = net::parse_endpoint(server);
    if (!endpoint.ok()) {
        why = "'" + server + "' is not a server address; write host:port, unix:PATH or vsock:CID:PORT";
        return endpoint.error();
    }
    net::Socket socket = WL_TRY(net::dial(*endpoint, left_until(deadline), why));
    if (reached) reached();
    auto channel = WL_TRY(identity.greet(std::move(socket), *endpoint, {}, std::nullopt, left_until(deadline), why));
    return std::unique_ptr<StatusConnection>(new StatusConnection(endpoint->to_string(), std::move(channel)));
}

Result<protocol::ServerStatus> StatusConnection::ask(protocol::StatusRequest request, Clock::time_point deadline,
                                                     std::string& why) {
    const auto began = Clock::now();
    request.client_version = WARPLINE_VERSION;
    const auto exchange = [&]() -> Result<protocol::ServerStatus> {
        const Bytes asked = WL_TRY(protocol::encode_status_request(request));
        const BytesView pieces[] = {asked};
        WL_TRY(m_channel->write(pieces));
        const auto frame = WL_TRY(protocol::read_single_frame(
            protocol::FrameKind::status, [&](MutableBytesView bytes) { return m_channel->read_exact(bytes, deadline); },
            request.wants_sheets ? protocol::k_status_with_sheets_bytes : protocol::k_single_frame_bytes));
        return protocol::decode_status(frame);
    };
    auto status = exchange();
    m_round_trip_ms = std::chrono::duration<double, std::milli>(Clock::now() - began).count();
    if (!status.ok()) {
        const std::string explanation = m_channel->explain();
        why = m_server + ": " + (explanation.empty() ? status.error().what : explanation);
    }
    return status;
}

struct Poll::State {
    explicit State(Identity as) : identity(std::move(as)) {}
    const Identity identity;
    Mutex mutex;
    ConditionVariable changed;
    std::deque<Answer> answers WL_GUARDED_BY(mutex);
    size_t awaited WL_GUARDED_BY(mutex) = 0;  // not yet given to the caller
    size_t slow WL_GUARDED_BY(mutex) = 0;     // without an answer, and it is not the network that owes it: some_are_slow()

    void add(Answer answer, bool was_slow) WL_EXCLUDES(mutex) {
        MutexLock lock(mutex);
        if (was_slow) --slow;
        answers.push_back(std::move(answer));
        changed.notify_all();
    }
};

Poll::Poll(const std::vector<std::string>& servers, Identity identity, Clock::time_point deadline, bool wants_load,
           std::function<void(const std::string& server, const Error& error)> failed)
    : m_state(std::make_shared<State>(std::move(identity))) {
    {
        MutexLock lock(m_state->mutex);
        m_state->awaited = m_state->slow = servers.size();
    }
    for (size_t index = 0; index < servers.size(); ++index) {
        const auto ask = [state = m_state, server = servers[index], index, deadline, wants_load, failed] {
            Answer answer;
            answer.index = index;
            bool is_slow = true;
            const auto dialling = [&](bool dials) {
                MutexLock lock(state->mutex);
                is_slow = !dials;
                dials ? --state->slow : ++state->slow;
            };
            const auto outcome = [&]() -> Result<void> {
                dialling(true);
                answer.connection =
                    WL_TRY(StatusConnection::open(state->identity, server, deadline, answer.why, [&] { dialling(false); }));
                answer.status = WL_TRY(answer.connection->ask({{}, 0, wants_load}, deadline, answer.why));
                return {};
            }();
            if (!outcome.ok()) {
                answer.connection.reset();
                answer.error = outcome.error();
                if (failed) failed(server, answer.error);
                if (answer.why.empty()) answer.why = server + ": " + outcome.error().what;
            }
            state->add(std::move(answer), is_slow);
        };
        if (const auto started = start_quiet_thread(ask); !started.ok()) {
            Answer answer;
            answer.index = index;
            answer.error = started.error();
            answer.why = servers[index] + ": " + started.error().what;
            m_state->add(std::move(answer), true);
        }
    }
}

std::optional<Poll::Answer> Poll::next(Clock::time_point until) {
    MutexLock lock(m_state->mutex);
    while (m_state->answers.empty()) {
        if (m_state->awaited == 0 || !m_state->changed.wait_until(m_state->mutex, until)) break;
    }
    if (m_state->answers.empty()) return std::nullopt;
    Answer answer = std::move(m_state->answers.front());
    m_state->answers.pop_front();
    --m_state->awaited;
    return answer;
}

bool Poll::all_heard() const {
    MutexLock lock(m_state->mutex);
    return m_state->awaited == 0;
}

bool Poll::some_are_slow() const {
    MutexLock lock(m_state->mutex);
    return m_state->slow > 0;
}

}  // namespace warpline::client
