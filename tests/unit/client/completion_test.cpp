// Questions about work that goes on: one of them travels, the server's news answers the others.
#include "client/call/completion.h"

#include <gtest/gtest.h>

#include "client/gen/copy_calls.gen.h"
#include "client/gen/event_calls.gen.h"
#include "client/gen/stream_calls.gen.h"
#include "tests/unit/client/fake_server.h"

namespace warpline::client {
namespace {

using cuda::CallId;
using test::FakeServer;
using test::SeenCall;
using test::SessionFixture;

/// A server whose device is busy until the test says otherwise.
struct BusyServer {
    explicit BusyServer(bool quiet = false) : server(quiet) {
        server.on_call = [this](const SeenCall& seen) {
            if (!seen.header.wants_reply) return;
            const auto id = static_cast<CallId>(seen.header.id);
            if (id == CallId::cuEventQuery || id == CallId::cuStreamQuery) server.reply(seen.number, CUDA_ERROR_NOT_READY);
        };
    }
    /// The number of the newest call with this id, when `count` calls have come.
    uint64_t watch(size_t count, CallId id) {
        server.wait_for_calls(count);
        for (const SeenCall& seen : server.calls()) {
            if (static_cast<CallId>(seen.header.id) == id) return seen.number;
        }
        return 0;
    }
    FakeServer server;
};

struct RecordedEvent {
    explicit RecordedEvent(State& state) : entry(state.events.make()) { entry.object->record.store(state.next_record()); }
    CUresult query(Call call) const { return query_event(call, entry.token, *entry.object); }
    TokenTable<Event, HandleKind::event>::Entry entry;
};

/// Makes one, which is a call, too.
auto questions_about_a_stream(SessionFixture& client) {
    const uint64_t stream = client.state.streams.make().token;
    Call create = client.call();
    EXPECT_EQ(gen::issue_cuStreamCreate(create, stream, 0), CUDA_SUCCESS);
    return [&client, stream] {
        Call call = client.call();
        return query_stream(call, stream);
    };
}

template <typename Query>
void poll_until(CUresult expected, Query query) {
    CUresult result;
    while ((result = query()) == CUDA_ERROR_NOT_READY) std::this_thread::yield();
    EXPECT_EQ(result, expected);
}

TEST(Completion, A2_a_loop_that_polls_an_event_costs_one_round_trip) {
    BusyServer busy;
    SessionFixture client(busy.server);
    RecordedEvent event(client.state);
    for (int i = 0; i < 1000; ++i) ASSERT_EQ(event.query(client.call()), CUDA_ERROR_NOT_READY);
    EXPECT_EQ(client.session->stats().blocking_round_trips, 1u);
    const uint64_t watch = busy.watch(2, CallId::cuEventSynchronize);
    ASSERT_NE(watch, 0u);
    busy.server.reply(watch, CUDA_SUCCESS);
    poll_until(CUDA_SUCCESS, [&] { return event.query(client.call()); });
    EXPECT_EQ(client.session->stats().blocking_round_trips, 1u);
    event.entry.object->record.store(client.state.next_record());  // recorded anew: unknown again
    EXPECT_EQ(event.query(client.call()), CUDA_ERROR_NOT_READY);
    EXPECT_EQ(client.session->stats().blocking_round_trips, 2u);
}

TEST(Completion, A2_an_answer_about_a_stream_holds_until_it_may_have_got_work) {
    BusyServer busy;
    SessionFixture client(busy.server);
    const auto query = questions_about_a_stream(client);
    for (int i = 0; i < 1000; ++i) ASSERT_EQ(query(), CUDA_ERROR_NOT_READY);
    EXPECT_EQ(client.session->stats().blocking_round_trips, 1u);
    busy.server.reply(busy.watch(3, CallId::cuStreamSynchronize), CUDA_SUCCESS);
    poll_until(CUDA_SUCCESS, query);
    RecordedEvent event(client.state);
    EXPECT_EQ(event.query(client.call()), CUDA_ERROR_NOT_READY);  // a question gives it none
    EXPECT_EQ(query(), CUDA_SUCCESS);
    Call create = client.call();  // this may have
    ASSERT_EQ(gen::issue_cuStreamCreate(create, client.state.streams.make().token, 0), CUDA_SUCCESS);
    const uint64_t before = client.session->stats().blocking_round_trips;
    EXPECT_EQ(query(), CUDA_ERROR_NOT_READY);
    EXPECT_EQ(client.session->stats().blocking_round_trips, before + 1);
}

// The program does nothing but ask: a writer that naps for an hour would have the news come after it.
TEST(Completion, B2_who_asks_whether_work_is_done_sends_it_on_its_way) {
    BusyServer busy(true);
    SessionFixture client(busy.server);
    const auto ask_stream = questions_about_a_stream(client);
    ASSERT_EQ(ask_stream(), CUDA_ERROR_NOT_READY);
    busy.server.reply(busy.watch(3, CallId::cuStreamSynchronize), CUDA_SUCCESS);
    poll_until(CUDA_SUCCESS, ask_stream);

    RecordedEvent event(client.state);
    ASSERT_EQ(event.query(client.call()), CUDA_ERROR_NOT_READY);
    busy.server.reply(busy.watch(5, CallId::cuEventSynchronize), CUDA_SUCCESS);
    poll_until(CUDA_SUCCESS, [&] { return event.query(client.call()); });

    // Watched from its record on, as it was asked about before: the first question sends both.
    event.entry.object->record.store(client.state.next_record());
    Call record = client.call();
    expect_question(record, event.entry.token, *event.entry.object);
    const uint64_t waits = client.session->stats().blocking_round_trips;
    ASSERT_EQ(event.query(client.call()), CUDA_ERROR_NOT_READY);
    EXPECT_EQ(client.session->stats().blocking_round_trips, waits);
    busy.server.wait_for_calls(6);
    busy.server.reply(busy.server.calls().back().number, CUDA_SUCCESS);
    poll_until(CUDA_SUCCESS, [&] { return event.query(client.call()); });
}

// Whether work has left when the program asks depends on the writer, which is seldom as fast: not in all of many rounds.
TEST(Completion, B2_of_what_has_not_left_nobody_is_asked) {
    constexpr uint64_t k_rounds = 200;
    BusyServer busy(true);
    SessionFixture client(busy.server);
    auto context = client.state.contexts.make();
    auto stream = client.state.streams.make(), idle = client.state.streams.make();
    stream.object->context = idle.object->context = context.token;
    const auto call = [&] {
        Call made = client.call();
        made.context = context.token;
        return made;
    };
    const auto query = [&](uint64_t token) {
        Call asking = call();
        return query_stream(asking, token);
    };
    const auto trips = [&] { return client.session->stats().blocking_round_trips; };
    const auto give_work = [&] {
        Call work = call();
        work.stream = stream.token;
        ASSERT_EQ(gen::issue_cuMemcpyDtoDAsync_v2(work, 0, 0, 4, stream.token), CUDA_SUCCESS);
    };
    for (uint64_t i = 0; i < k_rounds; ++i) {
        give_work();
        ASSERT_EQ(query(stream.token), CUDA_ERROR_NOT_READY);
    }
    EXPECT_LT(trips(), k_rounds);
    // Events, each of which is asked about for the first time.
    const uint64_t before = trips();
    for (uint64_t i = 0; i < k_rounds; ++i) {
        RecordedEvent event(client.state);
        Call record = call();
        ASSERT_EQ(gen::issue_cuEventRecord(record, event.entry.token, stream.token), CUDA_SUCCESS);
        event.entry.object->given.store(record.number);
        ASSERT_EQ(event.query(call()), CUDA_ERROR_NOT_READY);
    }
    EXPECT_LT(trips(), before + k_rounds);
    // What another stream was given says nothing of this one.
    give_work();
    const uint64_t asked = trips();
    EXPECT_EQ(query(idle.token), CUDA_ERROR_NOT_READY);
    EXPECT_EQ(trips(), asked + 1);
}

TEST(Completion, synchronisation_answers_for_earlier_records_only) {
    BusyServer busy;
    SessionFixture client(busy.server);
    auto context = client.state.contexts.make();
    RecordedEvent earlier(client.state);
    context.object->synced.store(client.state.records());
    RecordedEvent later(client.state);
    for (RecordedEvent* event : {&earlier, &later}) event->entry.object->context = context.token;
    EXPECT_EQ(earlier.query(client.call()), CUDA_SUCCESS);
    EXPECT_EQ(client.session->stats().blocking_round_trips, 0u);
    EXPECT_EQ(later.query(client.call()), CUDA_ERROR_NOT_READY);
}

TEST(Completion, B2_a_context_without_work_says_nothing_of_another_ones_streams) {
    BusyServer busy;
    SessionFixture client(busy.server);
    auto own = client.state.contexts.make(), other = client.state.contexts.make();
    auto beside = client.state.streams.make(), within = client.state.streams.make();
    beside.object->context = other.token;
    within.object->context = own.token;
    Call call = client.call();
    call.context = own.token;
    ASSERT_EQ(gen::issue_cuStreamCreate(call, beside.token, 0), CUDA_SUCCESS);
    EXPECT_FALSE(is_context_known_idle(call));
    own.object->idle_at.store(call.number);
    EXPECT_TRUE(is_context_known_idle(call));
    EXPECT_TRUE(is_known_done(call, within.token));
    EXPECT_TRUE(is_known_done(call, 0));
    EXPECT_FALSE(is_known_done(call, beside.token));
    note_done(call, beside.token);
    EXPECT_TRUE(is_known_done(call, beside.token));
    ASSERT_EQ(gen::issue_cuStreamCreate(call, client.state.streams.make().token, 0), CUDA_SUCCESS);
    for (const uint64_t stream : {uint64_t{0}, within.token, beside.token}) EXPECT_FALSE(is_known_done(call, stream));
}

TEST(Completion, B2_queries_behind_a_wait_for_the_context_do_not_travel) {
    BusyServer busy;
    SessionFixture client(busy.server);
    auto context = client.state.contexts.make();
    auto used = client.state.streams.make(), other = client.state.streams.make();
    used.object->context = other.object->context = context.token;
    const auto call = [&] {
        Call made = client.call();
        made.context = context.token;
        return made;
    };
    const auto give_work_to = [&](uint64_t stream) {
        Call given = call();
        given.stream = stream;
        EXPECT_EQ(gen::issue_cuStreamWaitEvent(given, stream, 0, 0), CUDA_SUCCESS);
    };
    const auto query = [&](uint64_t stream) {
        Call asking = call();
        return query_stream(asking, stream);
    };
    constexpr uint64_t k_legacy = 0, k_per_thread = 2;
    const auto trips = [&] { return client.session->stats().blocking_round_trips; };
    give_work_to(used.token);
    context.object->idle_at.store(client.session->last_number());  // waited for
    for (const uint64_t stream : {k_legacy, k_per_thread, used.token, other.token}) EXPECT_EQ(query(stream), CUDA_SUCCESS);
    EXPECT_EQ(trips(), 0u);
    // Work of one stream leaves the others as they are, but for the one that waits for all.
    give_work_to(used.token);
    for (const uint64_t stream : {k_per_thread, other.token}) EXPECT_EQ(query(stream), CUDA_SUCCESS);
    EXPECT_EQ(trips(), 0u);
    for (const uint64_t stream : {k_legacy, used.token}) EXPECT_EQ(query(stream), CUDA_ERROR_NOT_READY);
    EXPECT_EQ(trips(), 2u);
    // What may be about any stream is about all.
    give_work_to(Call::k_unknown_stream);
    for (const uint64_t stream : {k_legacy, k_per_thread, used.token, other.token})
        EXPECT_EQ(query(stream), CUDA_ERROR_NOT_READY);
    EXPECT_EQ(trips(), 6u);
}

TEST(Completion, a_failure_of_watched_work_is_told) {
    BusyServer busy;
    SessionFixture client(busy.server);
    RecordedEvent event(client.state);
    EXPECT_EQ(event.query(client.call()), CUDA_ERROR_NOT_READY);
    busy.server.reply(busy.watch(2, CallId::cuEventSynchronize), CUDA_ERROR_ILLEGAL_ADDRESS);
    while (client.session->sticky_error() == CUDA_SUCCESS) std::this_thread::yield();
    EXPECT_EQ(client.session->sticky_error(), CUDA_ERROR_ILLEGAL_ADDRESS);
}

TEST(Completion, the_end_of_the_session_ends_watches) {
    BusyServer busy;
    SessionFixture client(busy.server);
    RecordedEvent event(client.state);
    EXPECT_EQ(event.query(client.call()), CUDA_ERROR_NOT_READY);
    busy.server.drop();
    poll_until(CUDA_ERROR_DEVICE_UNAVAILABLE, [&] { return event.query(client.call()); });
}

TEST(Completion, more_than_the_most_watches_are_asked_about_each_time) {
    BusyServer busy;
    SessionFixture client(busy.server);
    std::vector<RecordedEvent> events;
    for (int i = 0; i < Session::k_max_watches + 1; ++i) events.emplace_back(client.state);
    for (int round = 0; round < 3; ++round) {
        for (const RecordedEvent& event : events) ASSERT_EQ(event.query(client.call()), CUDA_ERROR_NOT_READY);
    }
    EXPECT_EQ(client.session->stats().blocking_round_trips, events.size() + 2);
}

}  // namespace
}  // namespace warpline::client
