// What the wire costs, from the socket upwards: the limits against which the driver cases are to be read.

#include <sys/socket.h>

#include <functional>
#include <thread>
#include <vector>

#include "bench/case.h"
#include "bench/connections.h"
#include "cuda/gen/call_id.gen.h"
#include "protocol/codec/batch.h"
#include "protocol/schema/launch.capnp.h"

namespace warpline::bench {

namespace {

using Transfer = std::function<bool(std::byte* data, size_t size)>;

bool whole(int fd, std::byte* data, size_t size, bool receive) {
    while (size > 0) {
        ssize_t n = receive ? ::recv(fd, data, size, 0) : ::send(fd, data, size, MSG_NOSIGNAL);
        if (n <= 0) return false;
        data += n;
        size -= static_cast<size_t>(n);
    }
    return true;
}

bool read_whole(net::TlsChannel& channel, std::byte* data, size_t size) {
    while (size > 0) {
        auto n = channel.read({data, size});
        if (!n.ok()) return false;
        data += *n;
        size -= *n;
    }
    return true;
}

bool write_whole(net::TlsChannel& channel, const std::byte* data, size_t size) {
    BytesView view{data, size};
    return channel.write({&view, 1}).ok();
}

/// One byte there and back, many times.
Metrics ping_pong(const Transfer& send, const Transfer& receive, const Transfer& echo_receive, const Transfer& echo_send) {
    constexpr int k_rounds = 5000;
    std::thread echo([&] {
        std::byte b{};
        for (int i = 0; i < k_rounds; ++i)
            if (!echo_receive(&b, 1) || !echo_send(&b, 1)) return;
    });
    std::vector<uint64_t> samples;
    bool good = true;
    for (int i = 0; i < k_rounds && good; ++i) {
        std::byte sent{static_cast<unsigned char>(i)}, got{};
        uint64_t began = now_ns();
        good = send(&sent, 1) && receive(&got, 1) && got == sent;
        samples.push_back(now_ns() - began);
    }
    echo.join();
    if (!good) return Error{Code::connection_lost, "the connection broke"};
    return distribution(samples, "us", 1e3);
}

/// Many mebibytes one way; the other end looks at each one's first byte.
Metrics throughput(const Transfer& send, const Transfer& receive) {
    constexpr size_t k_chunk = 1 << 20, k_count = 512;
    std::vector<std::byte> out(k_chunk), in(k_chunk);
    bool good = true;
    uint64_t began = now_ns();
    std::thread receiver([&] {
        for (size_t i = 0; i < k_count && good; ++i)
            good = receive(in.data(), k_chunk) && in[0] == std::byte(i) && in[k_chunk - 1] == std::byte(255 - i % 256);
    });
    for (size_t i = 0; i < k_count; ++i) {
        out[0] = std::byte(i);
        out[k_chunk - 1] = std::byte(255 - i % 256);
        if (!send(out.data(), k_chunk)) break;
    }
    receiver.join();
    if (!good) return Error{Code::connection_lost, "what arrived is not what was sent"};
    double seconds = static_cast<double>(now_ns() - began) * 1e-9;
    return std::vector<Metric>{{"throughput", static_cast<double>(k_chunk * k_count) / seconds * 1e-9, "GB/s"}};
}

Metrics tcp(bool round_trips) {
    auto sockets = WL_TRY(tcp_pair());
    int a = sockets.first.fd(), b = sockets.second.fd();
    auto sender = [](int fd) { return [fd](std::byte* d, size_t n) { return whole(fd, d, n, false); }; };
    auto receiver = [](int fd) { return [fd](std::byte* d, size_t n) { return whole(fd, d, n, true); }; };
    return round_trips ? ping_pong(sender(a), receiver(a), receiver(b), sender(b)) : throughput(sender(a), receiver(b));
}

Metrics tls(bool round_trips) {
    TlsPair pair = WL_TRY(tls_pair());
    auto sender = [](net::TlsChannel& c) { return [&c](std::byte* d, size_t n) { return write_whole(c, d, n); }; };
    auto receiver = [](net::TlsChannel& c) { return [&c](std::byte* d, size_t n) { return read_whole(c, d, n); }; };
    net::TlsChannel &a = *pair.client, &b = *pair.server;
    return round_trips ? ping_pong(sender(a), receiver(a), receiver(b), sender(b)) : throughput(sender(a), receiver(b));
}

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

}  // namespace

std::vector<Case> transport_cases() {
    return {
        {"encode", "launch-sized calls into batches, and out of them", false, encode},
        {"tcp_pingpong", "one byte there and back, plain TCP on loopback", false, [] { return tcp(true); }},
        {"tls_pingpong", "one byte there and back, TLS 1.3 with client certificates", false, [] { return tls(true); }},
        {"tcp_bulk", "512 MiB one way, plain TCP on loopback", false, [] { return tcp(false); }},
        {"tls_bulk", "512 MiB one way, TLS 1.3 with client certificates", false, [] { return tls(false); }},
    };
}

}  // namespace warpline::bench
