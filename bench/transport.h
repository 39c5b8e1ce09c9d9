// What the wire does without Warpline: the limits against which its calls and copies are to be read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/base/result.h"

namespace warpline::bench {

enum class Wiring : uint8_t { tcp, tls, unix_socket };

/// Where the two threads of a ping-pong run. Left alone, they change between one core and two, and with that the time by ten.
enum class Placement : uint8_t { anywhere, one_core, two_cores };

/// How many cores this thread may run on.
int usable_cores();

/// One byte there and back over loopback, or a Unix socket, between two threads, many times.
/// @return nanoseconds of each @errors connection_lost, io, unsupported (two cores, and there is one)
Result<std::vector<uint64_t>> round_trips(Wiring wiring, int count, Placement placement = Placement::anywhere);

/// Mebibytes one way over one connection; the other end looks at the first and the last byte of each.
/// @return bytes per nanosecond @errors connection_lost, io
Result<double> rate(Wiring wiring, size_t mebibytes);

/// Memory that no cache has, over so many TLS connections, from one thread for each to one thread for each; all of it is
/// compared.
/// @return bytes per nanosecond @errors connection_lost, internal (what arrived is not what was sent), io
Result<double> tls_rate(size_t connections, const std::vector<uint32_t>& source, std::vector<uint32_t>& target);

/// The best of one, two and four connections. @errors as tls_rate()
Result<double> best_tls_rate(const std::vector<uint32_t>& source);

/// So many bytes of noise, which nothing can compress.
std::vector<uint32_t> random_words(size_t bytes, uint32_t seed = 1);

}  // namespace warpline::bench
