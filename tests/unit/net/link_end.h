// One end of a connection, with a link and the threads that move its bytes, as tests of both use it.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/net/channel_pump.h"
#include "common/net/link_user.h"
#include "protocol/codec/link.h"
#include "tests/unit/net/tls_pair.h"

namespace warpline::net::test {

inline constexpr unsigned k_event_words = 16;

/// One end of a connection that notes what happens to it.
struct End : protocol::Link::Handler {
    explicit End(std::unique_ptr<TlsChannel> channel, protocol::LinkOptions options = {}, PumpOptions pump_options = {})
        : link(*this, options), pump(std::move(channel), user_of(link), pump_options) {}
    ~End() override {
        pump.stop();
        pump.join();
    }

    Result<void> on_frame(protocol::Frame frame) override {
        if (handle) return handle(std::move(frame));
        MutexLock lock(mutex);
        frames.push_back(std::move(frame));
        changed.notify_all();
        return {};
    }
    void on_ended(const Error& error, const std::string& why) override {
        MutexLock lock(mutex);
        end_error = error;
        end_why = why;
        ended = true;
        changed.notify_all();
    }
    Result<protocol::Place> place_payload(uint64_t, uint64_t offset, uint64_t, size_t bytes) override {
        if (place.empty()) return protocol::Place{};
        return protocol::Place(MutableBytesView(place).subspan(offset, bytes));
    }

    void wait_for_frames(size_t count) {
        MutexLock lock(mutex);
        while (frames.size() < count && !ended) changed.wait(mutex);
    }
    Error wait_for_end() {
        MutexLock lock(mutex);
        while (!ended) changed.wait(mutex);
        return end_error;
    }
    size_t frame_count() {
        MutexLock lock(mutex);
        return frames.size();
    }

    std::function<Result<void>(protocol::Frame)> handle;
    Bytes place;
    Mutex mutex;
    ConditionVariable changed;
    std::vector<protocol::Frame> frames WL_GUARDED_BY(mutex);
    bool ended WL_GUARDED_BY(mutex) = false;
    Error end_error WL_GUARDED_BY(mutex){Code::ok};
    std::string end_why WL_GUARDED_BY(mutex);
    protocol::Link link;
    ChannelPump pump;
};

inline Result<void> send_host_call(End& end, uint64_t id, protocol::Urgency urgency = protocol::Urgency::writer) {
    return end.link.outbox().add_message<wire::Event>(
        protocol::FrameKind::event, k_event_words, [&](wire::Event::Builder event) { event.initHostCall().setId(id); }, {},
        urgency);
}

inline uint64_t host_call_id(const protocol::Frame& frame) {
    auto id = protocol::read_message<wire::Event>(
        frame.body.view(), [](wire::Event::Reader event) -> Result<uint64_t> { return event.getHostCall().getId(); });
    return id.ok() ? *id : ~uint64_t{0};
}

}  // namespace warpline::net::test
