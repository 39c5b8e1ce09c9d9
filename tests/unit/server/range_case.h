// What the generated tests of ranges of memory are made of.
#pragma once

#include <vector>

#include "tests/unit/server/fake_client.h"

namespace warpline::server::test {

/// A call that names device memory by an address, generated from the API description (`ranges`).
struct RangeCase {
    const char* name;  ///< "cuMemcpyDtoD_v2.srcDevice"
    bool has_extent;   ///< `number` matters: it is given to every parameter that says how much is touched
    bool null_ok;      ///< address 0 names nothing
    bool in_window;    ///< the address need not be mapped
    /// @param good  for the call's other addresses
    FakeReply (*send)(FakeClient& client, uint64_t address, uint64_t good, uint64_t number);
};

const std::vector<RangeCase>& range_cases();

}  // namespace warpline::server::test
