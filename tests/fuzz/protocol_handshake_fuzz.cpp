// What is read before anybody is known: the preamble, Hello, and on the client HelloReply.

#include <cstdlib>

#include "protocol/codec/frame.h"
#include "protocol/codec/message.h"
#include "protocol/codec/preamble.h"
#include "protocol/schema/envelope.capnp.h"
#include "tests/fuzz/protocol_fuzz.h"

namespace {

using namespace warpline;

size_t read_hello(wire::Hello::Reader hello) {
    return hello.getProgram().size() + hello.getHost().size() + hello.getClientVersion().size() + hello.getUnused11().size() +
           hello.getUnused10().size() + hello.getVisibleDevices().size();
}

size_t read_reply(wire::HelloReply::Reader reply) {
    size_t bytes = reply.getError().size() + reply.getServerName().size() + reply.getTenant().size();
    bytes += reply.getLimits().getCreditBytes() != 0;
    for (auto device : reply.getDevices()) {
        bytes += device.getName().size() + device.getUuid().size() + device.getPciBusId().size() + device.getLimits().size();
        for (auto attribute : device.getAttributes()) bytes += attribute.getValue() != 0;
        for (auto peer : device.getPeers()) bytes += peer.getAttributes().size();
    }
    return bytes;
}

Bytes bytes_of(const Result<protocol::Buffer>& message) { return Bytes(message->data(), message->data() + message->size()); }

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    BytesView input = as_bytes(data, size);
    auto preamble = protocol::decode_preamble(input);
    if (preamble.ok() && std::memcmp(protocol::encode_preamble(*preamble).data(), data, protocol::k_preamble_bytes) != 0)
        std::abort();
    protocol::Buffer aligned;
    if (!aligned.append(input)) return 0;
    size_t bytes = 0;
    (void)protocol::read_message<wire::Hello>(aligned.view(), [&](wire::Hello::Reader hello) { bytes += read_hello(hello); });
    (void)protocol::read_message<wire::HelloReply>(aligned.view(),
                                                   [&](wire::HelloReply::Reader reply) { bytes += read_reply(reply); });
    if (bytes > size * 16 + 4096) std::abort();
    return 0;
}

std::vector<Bytes> fuzz_seeds() {
    auto preamble = protocol::encode_preamble({});
    auto hello = protocol::build_message<wire::Hello>([](wire::Hello::Builder out) {
        out.setVersionMax(protocol::k_protocol_version_max);
        out.setProgram("vector_add");
        out.setHost("node-17");
    });
    auto reply = protocol::build_message<wire::HelloReply>([](wire::HelloReply::Builder out) {
        out.setServerName("gpu1");
        out.initLimits().setCreditBytes(1 << 20);
        auto devices = out.initDevices(2);
        devices[0].setName("a device");
        devices[0].initAttributes(10)[2].setValue(5);
        devices[1].initPeers(1)[0].initAttributes(4);
        devices[1].initUuid(16);
    });
    return {Bytes(preamble.begin(), preamble.end()), bytes_of(hello), bytes_of(reply)};
}
