// What the wire costs, from the socket upwards: the limits against which the driver cases are to be read.

#include <cstring>
#include <vector>

#include "bench/case.h"
#include "bench/transport.h"
#include "common/net/tls.h"
#include "cuda/gen/call_id.gen.h"
#include "protocol/codec/batch.h"
#include "protocol/schema/launch.capnp.h"

namespace warpline::bench {

namespace {

/// Launch-sized calls encoded into batches, and read back.
Metrics encode() {
    constexpr uint32_t k_calls = 1000, k_batches = 50;
    protocol::BatchBuilder builder;
    protocol::Buffer body, payload;
    std::vector<std::byte> params(28, std::byte{7});
    uint64_t encode_ns = 0, decode_ns = 0;
    for (uint32_t batch = 0; batch < k_batches; ++batch) {
        uint64_t began = now_ns();
        builder.begin(uint64_t{batch} * k_calls + 1);
        for (uint32_t i = 0; i < k_calls; ++i) {
            auto added = builder.append<wire::CuLaunchKernel>(
                {static_cast<uint16_t>(cuda::CallId::cuLaunchKernel), false, 1, 42},
                capnp::_::structSize<wire::CuLaunchKernel>().total() + protocol::words_of_bytes(params.size()) + 8,
                [&](auto call) {
                    call.setGridX(i);
                    call.setBlockX(256);
                    auto data = call.initParams(static_cast<unsigned>(params.size()));
                    std::memcpy(data.begin(), params.data(), params.size());
                });
            if (!added.ok()) return added.error();
        }
        builder.finish(body, payload);
        uint64_t between = now_ns();
        encode_ns += between - began;
        auto reader = WL_TRY(protocol::BatchReader::open(body.view(), payload.view()));
        for (uint32_t i = 0; i < k_calls; ++i) {
            if (!WL_TRY(reader.next())) return Error{Code::malformed, "a call is missing", i};
            auto call = reader.call().args<wire::CuLaunchKernel>();
            if (call.getGridX() != i || call.getParams().size() != params.size())
                return Error{Code::malformed, "a call is wrong", i};
        }
        decode_ns += now_ns() - between;
    }
    constexpr double k_all = double{k_calls} * k_batches;
    return std::vector<Metric>{{"encode", static_cast<double>(encode_ns) / k_all, "ns/call"},
                               {"decode", static_cast<double>(decode_ns) / k_all, "ns/call"}};
}

Metrics pings(Wiring wiring) {
    auto samples = WL_TRY(round_trips(wiring, 5000));
    return distribution(samples, "us", 1e3);
}

constexpr size_t k_bulk_mib = 512;

Metrics bulk(Wiring wiring) { return std::vector<Metric>{{"throughput", WL_TRY(rate(wiring, k_bulk_mib)), "GB/s"}}; }

/// Beside what OpenSSL's own AES gives.
Metrics tls_bulk() {
    const double ours = WL_TRY(rate(Wiring::tls, k_bulk_mib));
    net::use_wide_aes(false);
    const auto narrow = rate(Wiring::tls, k_bulk_mib);
    net::use_wide_aes(true);
    const double openssl = WL_TRY(narrow);
    return std::vector<Metric>{
        {"throughput", ours, "GB/s"}, {"openssl_aes", openssl, "GB/s"}, {"of_openssl", ours / openssl, "ratio"}};
}

}  // namespace

std::vector<Case> transport_cases() {
    return {
        {"encode", "launch-sized calls into batches, and out of them", false, encode},
        {"tcp_pingpong", "one byte there and back, plain TCP on loopback", false, [] { return pings(Wiring::tcp); }},
        {"tls_pingpong", "one byte there and back, TLS 1.3 with client certificates", false, [] { return pings(Wiring::tls); }},
        {"unix_pingpong", "one byte there and back, over a Unix socket", false, [] { return pings(Wiring::unix_socket); }},
        {"tcp_bulk", "512 MiB one way, plain TCP on loopback", false, [] { return bulk(Wiring::tcp); }},
        {"tls_bulk", "512 MiB one way, TLS 1.3 with client certificates", false, tls_bulk},
    };
}

}  // namespace warpline::bench
