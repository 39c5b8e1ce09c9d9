#pragma once

// What generated dispatch code is made of: reading a call's arguments, answering it. Heavy (Cap'n Proto): hooks include
// server/session/call.h instead.

#include <cstring>
#include <vector>

#include "common/base/function_ref.h"
#include "protocol/codec/batch.h"
#include "protocol/codec/message.h"
#include "server/session/call.h"
#include "server/session/call_order.h"
#include "server/session/device_numbers.h"
#include "server/session/session.h"
#include "server/session/struct_bytes.h"

namespace warpline::server {

/// How one call is served. `serve` fails only if the client broke the protocol (or the connection is gone): the session ends
/// then.
struct DispatchEntry {
    cuda::CallId id = cuda::CallId::none;
    bool needs_context = true;
    Result<void> (*serve)(ServerCall& call) = nullptr;
    /// What the call has to do with. Inside of protocol::guarded(), with the call that has been read.
    void (*touch)(const protocol::CallView& view, Footprint& footprint) = nullptr;
};

/// The entry of a call, or null if this number does not travel.
const DispatchEntry* find_dispatch(uint16_t id);

/// Reads the arguments: `fill(Wire::Reader)`, with everything that Cap'n Proto checks only when it is looked at.
Result<void> read_args(ServerCall& call, FunctionRef<void(capnp::AnyPointer::Reader)> read);
template <typename Wire, typename F>
Result<void> read_args(ServerCall& call, F&& fill) {
    const auto read = [&](capnp::AnyPointer::Reader args) { fill(args.getAs<Wire>()); };
    return read_args(call, FunctionRef<void(capnp::AnyPointer::Reader)>(read));
}

inline std::vector<uint64_t> copy_list(capnp::List<uint64_t>::Reader list) {
    std::vector<uint64_t> values(list.size());
    for (unsigned i = 0; i < list.size(); ++i) values[i] = list[i];
    return values;
}
inline BytesView view_of(capnp::Data::Reader data) { return as_bytes(data.begin(), data.size()); }
inline std::string_view view_of(capnp::Text::Reader text) { return {text.begin(), text.size()}; }

template <typename Builder>
void fill_list(Builder list, const std::vector<uint64_t>& values) {
    for (size_t i = 0; i < values.size(); ++i) list.set(static_cast<unsigned>(i), values[i]);
}
using protocol::data_of;
/// An array of exactly `count` elements. False if the bytes are of another length.
template <typename T>
bool read_array(BytesView bytes, uint64_t count, std::vector<T>& out) {
    if (bytes.size() / sizeof(T) != count || bytes.size() % sizeof(T) != 0) return false;
    out.resize(count);
    if (count > 0) std::memcpy(out.data(), bytes.data(), bytes.size());
    return true;
}

/// Arrays that a client asks us to make room for, in elements of one byte: no call of CUDA's answers with more.
inline constexpr uint64_t k_max_answer_bytes = 16u << 20;

/// Ends a call whose reply has no fields besides the result.
Result<void> finish(ServerCall& call, CUresult result);

/// Ends a call: `fill(Wire::Builder)` sets the fields of the reply. @param blob_words what its lists and texts take
template <typename Wire, typename F>
Result<void> finish(ServerCall& call, CUresult result, unsigned blob_words, F&& fill) {
    if (!call.wants_reply()) return finish(call, result);
    return call.session().send_reply(call, result, capnp::_::structSize<Wire>().total() + blob_words,
                                     [&](capnp::AnyPointer::Builder values) { fill(values.initAs<Wire>()); });
}

}  // namespace warpline::server
