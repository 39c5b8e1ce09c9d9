// Tests of sequence numbers, acknowledgements and credits.
#include "protocol/codec/session_state.h"

#include <algorithm>

#include "cuda/abi/driver_settings.h"
#include "protocol/session/item_sender.h"
#include "protocol/session/open.h"
#include "protocol/session/resume.h"
#include "protocol/session/status.h"
#include "tests/unit/protocol/frames.h"

namespace warpline::protocol {
namespace {

using namespace test;
using namespace std::chrono_literals;
using Verdict = ReceiveState::Verdict;

TEST(ReceiveState, AcceptsInOrderAndDropsDuplicates_C2) {
    ReceiveState state;
    EXPECT_EQ(*state.accept(header_of(FrameKind::batch, 1)), Verdict::accept);
    EXPECT_EQ(*state.accept(header_of(FrameKind::bulk, 2)), Verdict::accept);
    EXPECT_EQ(*state.accept(header_of(FrameKind::batch, 1)), Verdict::duplicate);
    EXPECT_EQ(*state.accept(header_of(FrameKind::bulk, 2)), Verdict::duplicate);
    EXPECT_EQ(*state.accept(header_of(FrameKind::ping)), Verdict::accept);
    EXPECT_EQ(*state.accept(header_of(FrameKind::event, 3)), Verdict::accept);
    EXPECT_EQ(state.received(), 3u);
}

TEST(ReceiveState, RefusesGapsAndMisnumberedFrames_F3) {
    ReceiveState state;
    EXPECT_EQ(state.accept(header_of(FrameKind::batch, 2)).error().code, Code::malformed);
    EXPECT_EQ(state.accept(header_of(FrameKind::batch, 0)).error().code, Code::malformed);
    EXPECT_EQ(state.accept(header_of(FrameKind::ping, 1)).error().code, Code::malformed);
    EXPECT_EQ(state.received(), 0u);
}

TEST(ReceiveState, AsksForAnAcknowledgementInTime) {
    ReceiveState state;
    for (uint64_t i = 1; i <= 63; ++i) (void)*state.accept(header_of(FrameKind::reply, i));
    EXPECT_FALSE(state.acknowledgement_due());
    (void)*state.accept(header_of(FrameKind::reply, 64));
    EXPECT_TRUE(state.acknowledgement_due());
    state.acknowledgement_left();
    EXPECT_FALSE(state.acknowledgement_due());
    FrameHeader large = header_of(FrameKind::bulk, 65);
    large.payload_bytes = 60;  // encoded
    large.payload_raw_bytes = 1u << 20;
    (void)*state.accept(large);
    EXPECT_TRUE(state.acknowledgement_due());
}

using Released = std::vector<std::string>;
auto into(Released& released) {
    return [&released](std::string item) { released.push_back(std::move(item)); };
}

/// Takes all that may be sent.
std::string take_all(ItemSender<std::string>& sender) {
    std::string out;
    while (sender.can_take()) out += *sender.take().item;
    return out;
}

TEST(ItemSender, SendsAgainWhatIsNotAcknowledged_C2) {
    ItemSender<std::string> sender(1000);
    Released released;
    for (const char* item : {"a", "b", "c", "d"}) sender.push(item, 10);
    EXPECT_EQ(take_all(sender), "abcd");
    ASSERT_TRUE(sender.acknowledge(1, into(released)).ok());
    EXPECT_EQ(released, Released{"a"});
    sender.detach();
    sender.push("e", 10);
    EXPECT_FALSE(sender.can_take());
    ASSERT_TRUE(sender.attach(2, into(released)).ok());
    EXPECT_EQ(released, (Released{"a", "b"}));
    EXPECT_EQ(take_all(sender), "cde");
    EXPECT_EQ(sender.sent_again(), 2u);
    ASSERT_TRUE(sender.acknowledge(5, into(released)).ok());
    EXPECT_EQ(sender.unacknowledged_bytes() + sender.unsent_bytes(), 0u);
    EXPECT_TRUE(sender.drained());
}

TEST(ItemSender, KeepsNoMoreThanItsBound_C2) {
    ItemSender<std::string> sender(25);
    Released released;
    for (int i = 0; i < 40; ++i) sender.push(std::string(1, static_cast<char>('a' + i % 26)), 10);
    EXPECT_EQ(take_all(sender), "ab");
    EXPECT_EQ(sender.unsent_bytes(), 380u);
    ASSERT_TRUE(sender.acknowledge(1, into(released)).ok());
    EXPECT_EQ(take_all(sender), "c");
    sender.detach();
    ASSERT_TRUE(sender.attach(1, into(released)).ok());
    EXPECT_EQ(take_all(sender), "bc");
    EXPECT_EQ(sender.unacknowledged_bytes(), 20u);
    // One item may always leave, whatever its size.
    ItemSender<std::string> small(1);
    small.push("large", 100);
    EXPECT_EQ(take_all(small), "large");
    EXPECT_FALSE(small.has_room());
}

TEST(ItemSender, RefusesWhatCannotBe_F3) {
    ItemSender<std::string> sender(1000);
    Released released;
    sender.push("a", 10);
    EXPECT_EQ(sender.acknowledge(1, into(released)).error().code, Code::malformed) << "it was not sent";
    sender.push("b", 10);
    EXPECT_EQ(take_all(sender), "ab");
    EXPECT_TRUE(sender.acknowledge(2, into(released)).ok());
    EXPECT_TRUE(sender.acknowledge(1, into(released)).ok()) << "an old one, late";
    sender.detach();
    EXPECT_EQ(sender.attach(1, into(released)).error().code, Code::malformed) << "it had two";
    EXPECT_EQ(sender.attach(3, into(released)).error().code, Code::malformed) << "there are two";
    EXPECT_FALSE(sender.attached());
    EXPECT_TRUE(sender.attach(2, into(released)).ok());
}

Result<Frame> resume_frame_of(Bytes bytes) {
    size_t at = 0;
    return read_resume_frame([&](MutableBytesView view) -> Result<void> {
        if (bytes.size() - at < view.size()) return Error{Code::connection_lost, "the end"};
        std::copy_n(bytes.begin() + static_cast<ptrdiff_t>(at), view.size(), view.begin());
        at += view.size();
        return {};
    });
}

TEST(Resume, BothSidesUnderstandOneAnother_C2) {
    ResumeRequest request{12345, false, {std::byte{1}, std::byte{2}}};
    const auto frame = resume_frame_of(*encode_resume(request));
    ASSERT_TRUE(frame.ok());
    const auto read = decode_resume(*frame);
    ASSERT_TRUE(read.ok());
    EXPECT_EQ(read->received, 12345u);
    EXPECT_FALSE(read->dead);
    EXPECT_EQ(read->session, request.session);
    request.dead = true;
    EXPECT_TRUE(decode_resume(*resume_frame_of(*encode_resume(request)))->dead);
    const auto answer = decode_resume_answer(*resume_frame_of(*encode_resume_answer({99, Code::denied, "no"})));
    ASSERT_TRUE(answer.ok());
    EXPECT_EQ(answer->received, 99u);
    EXPECT_EQ(answer->refused, Code::denied);
    EXPECT_EQ(answer->reason, "no");
}

TEST(Resume, RefusesWhatIsNone_F3) {
    EXPECT_EQ(resume_frame_of(frame_bytes(header_of(FrameKind::ping), {})).error().code, Code::malformed);
    EXPECT_EQ(resume_frame_of(frame_bytes(header_of(FrameKind::resume), Bytes(5000))).error().code, Code::malformed);
    EXPECT_FALSE(resume_frame_of(Bytes(48)).ok());
    Bytes cut = *encode_resume({});
    cut.pop_back();
    EXPECT_EQ(resume_frame_of(cut).error().code, Code::connection_lost);
}

Result<Frame> status_frame_of(const Bytes& bytes) {
    size_t at = 0;
    return read_single_frame(FrameKind::status, [&](MutableBytesView into) -> Result<void> {
        if (bytes.size() - at < into.size()) return Error{Code::connection_lost, "cut"};
        std::memcpy(into.data(), bytes.data() + at, into.size());
        at += into.size();
        return {};
    });
}

Result<Frame> open_frame_of(const Bytes& bytes) {
    size_t at = 0;
    return read_single_frame(FrameKind::open, [&](MutableBytesView into) -> Result<void> {
        if (bytes.size() - at < into.size()) return Error{Code::connection_lost, "cut"};
        std::memcpy(into.data(), bytes.data() + at, into.size());
        at += into.size();
        return {};
    });
}

TEST(Open, BothSidesUnderstandOneAnother_F1) {
    const auto request = decode_open(*open_frame_of(*encode_open({"1.2.3", cuda::abi::k_eager_loading})));
    ASSERT_TRUE(request.ok());
    EXPECT_EQ(request->client_version, "1.2.3");
    EXPECT_EQ(request->driver_settings, cuda::abi::k_eager_loading);
    OpenAnswer said;
    said.session.fill(std::byte{5});
    said.key[31] = std::byte{9};
    said.expires_seconds = 30;
    auto answer = decode_open_answer(*open_frame_of(*encode_open_answer(said)));
    ASSERT_TRUE(answer.ok());
    EXPECT_EQ(answer->refused, Code::ok);
    EXPECT_EQ(answer->session, said.session);
    EXPECT_EQ(answer->key, said.key);
    EXPECT_EQ(answer->expires_seconds, 30u);
    said.refused = Code::quota;
    said.reason = "the server is full";
    answer = decode_open_answer(*open_frame_of(*encode_open_answer(said)));
    ASSERT_TRUE(answer.ok());
    EXPECT_EQ(answer->refused, Code::quota);
    EXPECT_EQ(answer->reason, said.reason);
    EXPECT_EQ(answer->key, SessionKey{}) << "who is refused gets no key";
}

TEST(Open, RefusesWhatIsNone_F3) {
    EXPECT_EQ(open_frame_of(*encode_resume({})).error().code, Code::malformed);
    EXPECT_EQ(decode_open(*open_frame_of(*encode_open({"1", uint64_t{1} << 63}))).error().code, Code::malformed)
        << "settings that mean nothing";
    // An answer without a key, as a question is.
    EXPECT_EQ(decode_open_answer(*open_frame_of(*encode_open({"", 0}))).error().code, Code::malformed);
}

TEST(Status, BothSidesUnderstandOneAnother_B5) {
    const auto request = decode_status_request(*status_frame_of(*encode_status_request({"1.2.3", 7, true})));
    ASSERT_TRUE(request.ok());
    EXPECT_EQ(request->client_version, "1.2.3");
    EXPECT_EQ(request->claim_below, 7u);
    EXPECT_TRUE(request->wants_load);
    const ServerStatus said{"here", "4.5.6", 3, 64, 2, true, 8, 12080, true, true, {{97, 80, 20}, {std::nullopt, 40, 0}}, {}};
    const auto status = decode_status(*status_frame_of(*encode_status(said)));
    ASSERT_TRUE(status.ok());
    EXPECT_EQ(status->server_name, "here");
    EXPECT_EQ(status->server_version, "4.5.6");
    EXPECT_EQ(status->sessions, 3u);
    EXPECT_EQ(status->max_sessions, 64u);
    EXPECT_EQ(status->workers_ready, 2u);
    EXPECT_EQ(status->device_count, 8u);
    EXPECT_EQ(status->driver_version, 12080);
    EXPECT_TRUE(status->draining);
    EXPECT_TRUE(status->software_driver);
    EXPECT_TRUE(status->claimed);
    ASSERT_EQ(status->devices.size(), 2u);
    EXPECT_EQ(status->devices[0].utilisation_percent, 97u);
    EXPECT_EQ(status->devices[0].total_bytes, 80u);
    EXPECT_EQ(status->devices[0].free_bytes, 20u);
    EXPECT_EQ(status->devices[1].utilisation_percent, std::nullopt);
    EXPECT_EQ(status->devices[1].total_bytes, 40u);
}

TEST(Status, TellsWhatNvmlSays_A5) {
    EXPECT_FALSE(decode_status_request(*status_frame_of(*encode_status_request({"1", 0, true})))->wants_sheets);
    EXPECT_TRUE(decode_status_request(*status_frame_of(*encode_status_request({"1", 0, false, true})))->wants_sheets);
    ServerStatus said;
    DeviceSheet sheet;
    sheet.name = "Some GPU";
    sheet.uuid = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
    sheet.pci_bus_id = "0000:41:00.0";
    sheet.total_bytes = uint64_t{80} << 30;
    sheet.compute_major = 9;
    sheet.compute_minor = 1;
    sheet.multiprocessors = 132;
    sheet.answers = Bytes(1'000, std::byte{7});
    sheet.processes = {{"here", 4'711, 12}, {"there", 1, 2}};
    said.sheets = {sheet, {}};
    const auto status = decode_status(*status_frame_of(*encode_status(said)));
    ASSERT_TRUE(status.ok());
    ASSERT_EQ(status->sheets.size(), 2u);
    const DeviceSheet& told = status->sheets[0];
    EXPECT_EQ(told.name, sheet.name);
    EXPECT_EQ(told.uuid, sheet.uuid);
    EXPECT_EQ(told.pci_bus_id, sheet.pci_bus_id);
    EXPECT_EQ(told.total_bytes, sheet.total_bytes);
    EXPECT_EQ(told.compute_major * 10 + told.compute_minor, 91u);
    EXPECT_EQ(told.multiprocessors, 132u);
    EXPECT_EQ(told.answers, sheet.answers);
    ASSERT_EQ(told.processes.size(), 2u);
    EXPECT_EQ(told.processes[1].host, "there");
    EXPECT_EQ(told.processes[0].pid, 4'711u);
    EXPECT_EQ(told.processes[0].bytes, 12u);
    EXPECT_TRUE(status->sheets[1].answers.empty());
    EXPECT_TRUE(decode_status(*status_frame_of(*encode_status({})))->sheets.empty());
}

TEST(Status, RefusesWhatIsNone_F3) {
    EXPECT_EQ(status_frame_of(*encode_resume({})).error().code, Code::malformed);
    Bytes cut = *encode_status({});
    cut.pop_back();
    EXPECT_EQ(status_frame_of(cut).error().code, Code::connection_lost);
}

TEST(Credit, IsSpentAndComesBack_B2) {
    CreditAccount account;
    account.set_limits({1000, 3});
    EXPECT_TRUE(account.can_spend(1000, 1));
    EXPECT_FALSE(account.can_spend(1001, 1));
    account.spend(400, 1);
    account.spend(400, 1);
    EXPECT_FALSE(account.can_spend(300, 1));
    EXPECT_TRUE(account.can_spend(200, 1));
    account.spend(100, 1);
    EXPECT_FALSE(account.can_spend(1, 1));
    EXPECT_TRUE(account.progress(2, 800).ok());
    EXPECT_EQ(account.bytes_in_flight(), 100u);
    EXPECT_EQ(account.calls_in_flight(), 1u);
    EXPECT_TRUE(account.progress(1, 400).ok());  // an old report changes nothing
    EXPECT_EQ(account.bytes_in_flight(), 100u);
    EXPECT_EQ(account.progress(4, 900).error().code, Code::malformed);
    EXPECT_EQ(account.progress(3, 901).error().code, Code::malformed);
}

TEST(Credit, GrantNoticesWhoTakesTooMuch_F3) {
    CreditGrant grant({1000, 10});
    EXPECT_TRUE(grant.received(1000, 1).ok());
    EXPECT_EQ(grant.received(1, 1).error().code, Code::quota);
    CreditGrant calls({1000, 2});
    EXPECT_TRUE(calls.received(1, 2).ok());
    EXPECT_EQ(calls.received(1, 1).error().code, Code::quota);
}

TEST(Credit, GrantReportsByQuarters_B2) {
    CreditGrant grant({1000, 1000});
    ASSERT_TRUE(grant.received(600, 6).ok());
    EXPECT_FALSE(grant.done(249, 1).has_value());
    auto progress = grant.done(1, 1);
    ASSERT_TRUE(progress.has_value());
    EXPECT_EQ(progress->bytes, 250u);
    EXPECT_EQ(progress->calls, 2u);
    EXPECT_FALSE(grant.done(100, 1).has_value());
    EXPECT_EQ(grant.report().bytes, 350u);
}

TEST(Credit, GrantReportsBeforeAPeerThatStaysNearWaits_B7) {
    CreditGrant grant({1 << 20, 65536});
    ASSERT_TRUE(grant.received(4096, 4096).ok());
    for (uint64_t i = 1; i < k_progress_calls; ++i) ASSERT_FALSE(grant.done(1, 1));
    EXPECT_EQ(grant.done(1, 1)->calls, k_progress_calls);
}

// Whatever the sizes, a spender who waits gets its credit: reports that are kept back never add up to what the largest item
// needs.
TEST(Credit, NeverStandsStill_B2) {
    for (uint64_t limit : {1ull, 3ull, 7ull, 100ull, 1000ull}) {
        for (uint64_t item : {uint64_t{1}, limit / 4, limit / 2, limit - limit / 4}) {
            if (item == 0) continue;
            CreditAccount account;
            account.set_limits({limit, 5});
            CreditGrant grant({limit, 5});
            ASSERT_LE(item, account.largest_item_bytes());
            for (int i = 0; i < 100; ++i) {
                ASSERT_TRUE(account.can_spend(item, 1)) << limit << " " << item << " " << i;
                account.spend(item, 1);
                ASSERT_TRUE(grant.received(item, 1).ok());
                auto progress = grant.done(item, 1);
                ASSERT_TRUE(!progress || account.progress(progress->calls, progress->bytes).ok());
            }
        }
    }
}

}  // namespace
}  // namespace warpline::protocol
