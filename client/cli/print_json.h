// JSON on standard output.
#pragma once

#include <cstdio>
#include <nlohmann/json.hpp>

namespace warpline::cli {

/// Prints a value for programs to read, and a newline. Of text that is no UTF-8, which others may have chosen, what is not is
/// replaced.
inline void print_json(const nlohmann::json& value) {
    std::puts(value.dump(2, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
}

}  // namespace warpline::cli
