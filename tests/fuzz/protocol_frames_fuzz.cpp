// Everything that arrives on a connection, from either side, through the link to those who read its messages.

#include <cstdlib>

#include "protocol/codec/call_receiver.h"
#include "protocol/codec/link.h"
#include "tests/fuzz/protocol_fuzz.h"

namespace {

using namespace warpline;
using protocol::Frame;
using protocol::FrameKind;

/// Reads all that is in a frame, as client and server do.
struct Reader : protocol::Link::Handler {
    Result<void> on_frame(Frame frame) override {
        ++frames;
        switch (frame.header.kind) {
            case FrameKind::batch: return on_batch(std::move(frame));
            case FrameKind::bulk: return receiver.accept_bulk(std::move(frame));
            case FrameKind::reply:
                return protocol::read_message<wire::Reply>(frame.body.view(), [](wire::Reply::Reader reply) {
                    (void)reply.getCall(), (void)reply.getValues().getAs<wire::Drain>().getReason().size();
                });
            case FrameKind::event:
                return protocol::read_message<wire::Event>(frame.body.view(), [](wire::Event::Reader event) {
                    if (event.isDrain()) (void)event.getDrain().getReason().size();
                    if (event.isCopyDone()) (void)event.getCopyDone().getBytes();
                });
            default: return {};
        }
    }
    Result<void> on_batch(Frame frame) {
        auto unit = WL_TRY(receiver.accept_batch(std::move(frame)));
        auto reader = WL_TRY(protocol::BatchReader::open(unit.batch.body.view(), unit.batch.payload.view()));
        while (WL_TRY(reader.next())) {
            const protocol::CallView& call = reader.call();
            size_t bytes = call.payload.size();
            WL_TRY(protocol::guarded([&] { bytes += call.args<wire::Drain>().getReason().size(); }));
            if (bytes > unit.batch.body.size() * 8 + unit.batch.payload.size()) std::abort();
        }
        (void)receiver.grant().done(unit.cost_bytes, unit.calls);
        return {};
    }
    Result<protocol::Place> place_payload(uint64_t, uint64_t, uint64_t, size_t bytes) override {
        if (frames % 2 == 0) return protocol::Place{};
        place.resize(bytes);
        return protocol::Place(MutableBytesView(place));
    }

    size_t frames = 0;
    Bytes place;
    protocol::CallReceiver receiver{{1 << 20, 1000}};
};

struct UnknownLane : protocol::LaneMeter {
    protocol::Deliveries deliveries() const override { return {}; }
    void renew(uint8_t) override {}
};

/// All that an outbox has, encoded by one codec.
Bytes encoded_output_of(protocol::Outbox& outbox, compress::Codec codec) {
    outbox.encoding().agree(compress::k_all_codecs, compress::Choice{codec, 0});
    UnknownLane lane;
    protocol::FrameEncoder encoder(outbox.encoding(), lane);
    Bytes out;
    std::vector<protocol::OutFrame*> frames;
    while (outbox.take(protocol::k_command_lane, frames, 0)) {
        std::vector<BytesView> views;
        encoder.encode(frames, views);
        for (BytesView view : views) out.insert(out.end(), view.begin(), view.end());
        frames.clear();
        outbox.sent(protocol::k_command_lane);
    }
    return out;
}

Bytes output_of(protocol::Outbox& outbox) {
    Bytes out;
    std::vector<BytesView> views;
    while (outbox.take(protocol::k_command_lane, views, 0)) {
        for (BytesView view : views) out.insert(out.end(), view.begin(), view.end());
        views.clear();
        outbox.sent(protocol::k_command_lane);
    }
    return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    Reader reader;
    protocol::LinkOptions options;
    options.receive_limits = {64 * 1024, 64 * 1024};
    options.codecs = compress::k_all_codecs;
    protocol::Link link(reader, options);
    BytesView rest = as_bytes(data, size);
    while (!rest.empty()) {
        MutableBytesView space = link.receive_space();
        size_t count = std::min(space.size(), rest.size());
        std::memcpy(space.data(), rest.data(), count);
        rest = rest.subspan(count);
        auto received = link.received(count);
        if (!received.ok()) {
            if (received.error().code == Code::internal) std::abort();
            break;
        }
    }
    return 0;
}

std::vector<Bytes> fuzz_seeds() {
    std::vector<Bytes> seeds;
    Bytes payload(300, std::byte{7});
    {
        protocol::Outbox outbox;
        for (uint32_t i = 0; i < 5; ++i) {
            (void)outbox.add_call<wire::Drain>(
                protocol::CallHeader{5, true, 1, 2}, 20,
                [&](wire::Drain::Builder args) { args.setReason("arguments of a call"); }, [](uint64_t) {},
                BytesView(payload).first(i * 10));
        }
        seeds.push_back(output_of(outbox));
    }
    {
        protocol::Outbox outbox;
        (void)outbox.add_message<wire::Event>(protocol::FrameKind::event, 32,
                                              [](wire::Event::Builder event) { event.initDrain().setReason("maintenance"); });
        (void)outbox.add_message<wire::Event>(
            protocol::FrameKind::event, 32, [](wire::Event::Builder event) { event.initCopyDone().setBytes(300); }, payload);
        (void)outbox.add_bulk(4, 0, 300, protocol::Place(MutableBytesView(payload)));
        (void)outbox.add_message<wire::Reply>(protocol::FrameKind::reply, 64, [](wire::Reply::Builder reply) {
            reply.setCall(4);
            reply.initProgress();
            reply.getValues().initAs<wire::Drain>().setReason("values");
        });
        outbox.add_ping(protocol::k_command_lane);
        seeds.push_back(output_of(outbox));
    }
    {
        protocol::BatchBuilder batch;
        batch.begin(1);
        (void)batch.append_streamed<wire::Drain>(
            protocol::CallHeader{}, 4, [](wire::Drain::Builder) {}, 600);
        protocol::Outbox outbox;
        protocol::Buffer body, none;
        batch.finish(body, none);
        (void)outbox.add_body(protocol::FrameKind::batch, std::move(body));
        (void)outbox.add_bulk(1, 0, 600, protocol::Place(MutableBytesView(payload)));
        (void)outbox.add_bulk(1, 300, 600, protocol::Place(MutableBytesView(payload)));
        seeds.push_back(output_of(outbox));
    }
    for (uint8_t codec = 1; codec < compress::k_codec_count; ++codec) {
        Bytes numbers(6000);
        for (size_t i = 0; i < numbers.size(); ++i)
            numbers[i] = static_cast<std::byte>(i % 4 == 3 ? i / 1500 : i % 4 == 2 ? i / 40 : 0);
        protocol::Outbox outbox;
        for (uint32_t i = 0; i < 40; ++i) {
            (void)outbox.add_call<wire::Drain>(
                protocol::CallHeader{5, true, 1, 2}, 20,
                [&](wire::Drain::Builder args) { args.setReason("arguments of a call"); }, [](uint64_t) {},
                BytesView(numbers).first(i));
        }
        (void)outbox.add_message<wire::Event>(
            protocol::FrameKind::event, 32, [](wire::Event::Builder event) { event.initCopyDone().setBytes(6000); }, numbers);
        (void)outbox.add_bulk(4, 0, 6000, protocol::Place(MutableBytesView(numbers)));
        seeds.push_back(encoded_output_of(outbox, static_cast<compress::Codec>(codec)));
    }
    return seeds;
}
