#pragma once

// For the generated encoders, and what stands in for one: everything here knows Cap'n Proto.

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "client/call/call.h"
#include "client/session/connection_to_server.h"
#include "client/session/session.h"
#include "client/session/waiter.h"
#include "client/session/watch.h"
#include "common/base/function_ref.h"
#include "common/log/log.h"
#include "protocol/codec/batch.h"
#include "protocol/codec/message.h"

namespace warpline::client {

/// Queues a call.
///
/// @param waiter  the caller will wait for the reply; nullptr: there is none
/// @param words   upper bound of the arguments' size
CUresult send(Call& call, Waiter* waiter, unsigned words, protocol::FillArgs fill, BytesView payload);
template <typename Wire, typename F>
CUresult send(Call& call, Waiter* waiter, unsigned words, F&& fill, BytesView payload = {}) {
    const auto fill_args = [&](capnp::AnyPointer::Builder args) { fill(args.initAs<Wire>()); };
    return send(call, waiter, words, protocol::FillArgs(fill_args), payload);
}

/// What travels with a call besides its arguments.
inline protocol::CallHeader header_of(const Call& call, bool wants_reply) {
    return {static_cast<uint16_t>(call.id), wants_reply, call.thread.number, call.scope(), call.subject};
}
/// Queues a launch, whose message is made already, with this header.
CUresult send_launch(Call& call, const protocol::CallHeader& header, const protocol::CallImage& image);

/// Waits for the reply of a call that was queued, as the context's scheduling flags say. @blocks for a round trip
CUresult wait(const Call& call, Waiter& waiter);

/// Reads the values of a reply: `read(typename Wire::Reader)`.
using ReadValues = FunctionRef<void(capnp::AnyPointer::Reader)>;
/// @param call  that it is the reply to
CUresult read_values(cuda::CallId call, const Waiter& waiter, ReadValues read);
template <typename Wire, typename F>
CUresult read_values(cuda::CallId call, const Waiter& waiter, F&& read) {
    const auto read_any = [&](capnp::AnyPointer::Reader values) { read(values.getAs<Wire>()); };
    return read_values(call, waiter, ReadValues(read_any));
}

inline capnp::Text::Reader wire_text(std::string_view text) { return capnp::Text::Reader(text.data(), text.size()); }
using protocol::data_of;
inline std::string text_of(capnp::Text::Reader text) { return std::string(text.begin(), text.size()); }
inline Bytes bytes_of(capnp::Data::Reader data) {
    auto view = as_bytes(data.begin(), data.size());
    return Bytes(view.begin(), view.end());
}
inline std::vector<uint64_t> list_of(capnp::List<uint64_t>::Reader list) {
    std::vector<uint64_t> out;
    out.reserve(list.size());
    for (uint64_t value : list) out.push_back(value);
    return out;
}

}  // namespace warpline::client
