// Connections of the benchmark's with itself.
#pragma once

#include <memory>
#include <utility>

#include "common/net/tls.h"

namespace warpline::bench {

/// Two connected TCP sockets on loopback.
Result<std::pair<net::Socket, net::Socket>> tcp_pair();

struct TlsPair {
    std::unique_ptr<net::TlsChannel> client, server;
};

/// The same with TLS and certificates, which are made for it.
Result<TlsPair> tls_pair();

}  // namespace warpline::bench
