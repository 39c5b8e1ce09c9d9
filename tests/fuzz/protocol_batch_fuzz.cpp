// The body of a batch, with several kinds of arguments. The first byte says where the payload begins.

#include <cstdlib>

#include "protocol/codec/batch.h"
#include "tests/fuzz/protocol_fuzz.h"

namespace {

using namespace warpline;

size_t read_as(const protocol::CallView& call, unsigned kind) {
    switch (kind % 4) {
        case 0: return call.args<wire::Drain>().getReason().size();
        case 1: return call.args<wire::Bulk>().getTotal() != 0;
        case 2: {
            auto device = call.args<wire::Device>();
            size_t bytes = device.getName().size() + device.getUuid().size() + device.getPciBusId().size();
            for (auto attribute : device.getAttributes()) bytes += attribute.getId() != 0;
            for (auto peer : device.getPeers()) bytes += peer.getAttributes().size();
            return bytes;
        }
        default: return call.args<wire::Hello>().getProgram().size() + call.args<wire::Hello>().getHost().size();
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    if (size < 1) return 0;
    size_t payload_bytes = std::min<size_t>(data[0], size - 1);
    size_t body_bytes = (size - 1 - payload_bytes) / 8 * 8;
    protocol::Buffer body;  // aligned, and of exactly this size for the address sanitizer
    if (!body.append(as_bytes(data + 1, body_bytes))) return 0;
    BytesView payload = as_bytes(data + 1 + body_bytes, payload_bytes);
    auto reader = protocol::BatchReader::open(body.view(), payload);
    if (!reader.ok()) return 0;
    for (unsigned kind = 0;; ++kind) {
        auto more = reader->next();
        if (!more.ok() || !*more) return 0;
        size_t bytes = 0;
        (void)protocol::guarded([&] { bytes = read_as(reader->call(), kind); });
        if (bytes > size * 16 + 4096) std::abort();  // a small message made us read much
    }
}

std::vector<Bytes> fuzz_seeds() {
    protocol::BatchBuilder batch;
    batch.begin(1);
    Bytes payload(40, std::byte{9});
    (void)batch.append<wire::Drain>(
        protocol::CallHeader{1, false, 2, 3}, 30, [](wire::Drain::Builder args) { args.setReason("a reason"); }, payload);
    (void)batch.append<wire::Bulk>(protocol::CallHeader{}, 30, [](wire::Bulk::Builder args) { args.setTotal(7); });
    (void)batch.append<wire::Device>(protocol::CallHeader{}, 200, [](wire::Device::Builder args) {
        args.setName("a device");
        args.initAttributes(20)[3].setId(9);
        args.initPeers(2)[1].initAttributes(3);
    });
    (void)batch.append<wire::Hello>(protocol::CallHeader{}, 100, [](wire::Hello::Builder args) { args.setProgram("program"); });
    protocol::Buffer body, bytes;
    batch.finish(body, bytes);
    Bytes seed{std::byte{40}};
    seed.insert(seed.end(), body.data(), body.data() + body.size());
    seed.insert(seed.end(), bytes.data(), bytes.data() + bytes.size());
    return {seed};
}
