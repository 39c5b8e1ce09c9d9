// The body of a batch of compact calls, as a server takes it.

#include <cstdlib>

#include "protocol/codec/call_receiver.h"
#include "tests/fuzz/protocol_fuzz.h"

using namespace warpline;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    constexpr uint64_t k_credit = 1 << 20;
    protocol::CallReceiver receiver({k_credit, 10'000}, true);
    protocol::Frame frame;
    if (!frame.body.append(as_bytes(data, size / 8 * 8))) return 0;
    frame.header.kind = protocol::FrameKind::batch;
    frame.header.body_bytes = static_cast<uint32_t>(frame.body.size());
    auto unit = receiver.accept_batch(std::move(frame));
    if (!unit.ok()) return 0;
    if (unit->batch.body.size() > k_credit + protocol::k_batch_header_bytes) std::abort();  // more than there is credit for
    auto reader = protocol::BatchReader::open(unit->batch.body.view(), {});
    if (!reader.ok()) std::abort();  // what was expanded is well-formed
    for (;;) {
        auto more = reader->next();
        if (!more.ok() || !*more) return 0;
        (void)protocol::guarded([&] { (void)reader->call().args<wire::Drain>().getReason().size(); });
    }
}

std::vector<Bytes> fuzz_seeds() {
    protocol::BatchBuilder batch;
    batch.remember(protocol::RememberedCalls::k_most_calls);
    batch.begin(1);
    for (uint32_t i = 0; i < 12; ++i) {
        (void)batch.append<wire::Drain>(protocol::CallHeader{1, false, i % 2, 3, i % 3}, 40, [&](wire::Drain::Builder args) {
            args.setSecondsLeft(i * i * i * 1000);
            args.setReason(i % 4 == 0 ? "one reason that is long enough for a run"
                                      : "another reason of the same length, nearly");
        });
    }
    protocol::Buffer body, none;
    batch.finish(body, none);
    return {Bytes(body.data(), body.data() + body.size())};
}
