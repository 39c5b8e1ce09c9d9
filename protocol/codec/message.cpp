// What a message of Cap'n Proto may cost the one who reads it.
#include "protocol/codec/message.h"

namespace warpline::protocol {

capnp::ReaderOptions reader_options(size_t message_bytes) {
    capnp::ReaderOptions options;
    options.traversalLimitInWords = message_bytes / sizeof(capnp::word) * 8 + 256;
    options.nestingLimit = 32;
    return options;
}

Result<size_t> message_bytes_at(BytesView bytes) {
    uint32_t segments_minus_one = 0;
    uint32_t words = 0;
    if (!read_at(bytes, 0, segments_minus_one) || !read_at(bytes, 4, words))
        return Error{Code::malformed, "a message is cut off"};
    if (segments_minus_one != 0) return Error{Code::malformed, "a message has more than one segment"};
    if (words == 0) return Error{Code::malformed, "a message is empty"};
    size_t total = (size_t{words} + 1) * sizeof(capnp::word);
    if (total > bytes.size()) return Error{Code::malformed, "a message is longer than its frame"};
    return total;
}

namespace {

Result<Buffer> framed(kj::ArrayPtr<const capnp::word> segment) {
    Buffer out;
    auto words = static_cast<uint32_t>(segment.size());
    if (!out.resize((segment.size() + 1) * sizeof(capnp::word))) return Error{Code::alloc_failed, "no memory for a message"};
    std::memset(out.data(), 0, 4);
    std::memcpy(out.data() + 4, &words, sizeof words);
    std::memcpy(out.data() + 8, segment.begin(), segment.size() * sizeof(capnp::word));
    return out;
}

}  // namespace

Result<Buffer> flatten(capnp::MessageBuilder& message) {
    auto segments = message.getSegmentsForOutput();
    if (segments.size() == 1) return framed(segments[0]);
    auto root = message.getRoot<capnp::AnyPointer>().asReader();
    auto words = static_cast<unsigned>(root.targetSize().wordCount + 1);
    capnp::MallocMessageBuilder whole(words, capnp::AllocationStrategy::FIXED_SIZE);
    whole.setRoot(root);
    auto copied = whole.getSegmentsForOutput();
    if (copied.size() != 1) return Error{Code::internal, "a message could not be made one segment"};
    return framed(copied[0]);
}

}  // namespace warpline::protocol
