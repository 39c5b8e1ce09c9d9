// Messages of Cap'n Proto in and out of frames.
#pragma once

#include <capnp/message.h>
#include <capnp/serialize.h>
#include <kj/exception.h>

#include <type_traits>
#include <utility>

#include "common/base/bytes.h"
#include "common/base/result.h"
#include "protocol/codec/buffer.h"

namespace warpline::protocol {

/// Bytes as Cap'n Proto takes them; they are copied when a builder's setter gets them.
inline capnp::Data::Reader data_of(BytesView bytes) {
    return {reinterpret_cast<const capnp::byte*>(bytes.data()), bytes.size()};
}

/// Runs code that reads or writes Cap'n Proto messages; its exceptions become Error::malformed. Readers check pointers when
/// they are followed, so everything that touches a received message belongs inside of one of these.
///
/// `function` returns void, Result<void> or a Result<T>.
template <typename F>
auto guarded(F&& function) noexcept {
    using Returned = std::invoke_result_t<F>;
    if constexpr (std::is_void_v<Returned>) {
        try {
            function();
            return Result<void>{};
        } catch (const kj::Exception&) {
            return Result<void>{Error{Code::malformed, "a Cap'n Proto message is malformed"}};
        } catch (...) {
            return Result<void>{Error{Code::alloc_failed, "no memory for a message"}};
        }
    } else {
        try {
            return Returned(function());
        } catch (const kj::Exception&) {
            return Returned{Error{Code::malformed, "a Cap'n Proto message is malformed"}};
        } catch (...) {
            return Returned{Error{Code::alloc_failed, "no memory for a message"}};
        }
    }
}

/// Limits for reading one message of this many bytes: every word may be visited a few times (a hostile message can point at the
/// same words again and again), and structs nest at most 32 deep.
capnp::ReaderOptions reader_options(size_t message_bytes);

/// Checks the stream framing of one single-segment message at the start of `bytes` and returns its length, framing included.
///
/// @errors  malformed
Result<size_t> message_bytes_at(BytesView bytes);

/// Reads the message that `bytes` consists of: `function(typename Wire::Reader)`, inside of guarded().
template <typename Wire, typename F>
auto read_message(BytesView bytes, F&& function) noexcept {
    using Returned = std::invoke_result_t<F, typename Wire::Reader>;
    using Out = std::conditional_t<std::is_void_v<Returned>, Result<void>, Returned>;
    return guarded([&]() -> Out {
        size_t used = WL_TRY(message_bytes_at(bytes));
        if (used != bytes.size()) return Error{Code::malformed, "a message does not fill its frame"};
        kj::ArrayPtr<const capnp::word> words(reinterpret_cast<const capnp::word*>(bytes.data()), used / sizeof(capnp::word));
        capnp::FlatArrayMessageReader reader(words, reader_options(used));
        if constexpr (std::is_void_v<Returned>) {
            function(reader.getRoot<Wire>());
            return Result<void>{};
        } else {
            return function(reader.getRoot<Wire>());
        }
    });
}

/// The message as one segment with its framing, which is what travels.
///
/// @errors  alloc_failed. May throw kj::Exception: call it inside of guarded().
Result<Buffer> flatten(capnp::MessageBuilder& message);

/// Builds one message, of any size, with its framing: for the handshake and other rare frames.
/// `function(typename Wire::Builder)`.
///
/// @errors  alloc_failed, malformed (the builder was misused)
template <typename Wire, typename F>
Result<Buffer> build_message(F&& function) noexcept {
    return guarded([&]() -> Result<Buffer> {
        capnp::MallocMessageBuilder message;
        function(message.initRoot<Wire>());
        return flatten(message);
    });
}

}  // namespace warpline::protocol
