// Manual pages of programs, made of what they say at --help.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace warpline::config {

/// Gives a program the option `--manual-page FILE`, which writes its page to a file and ends it. The option itself is not
/// shown: the build asks for it. To be called last, when the app has all of its options, name and description.
///
/// @param see_also  other pages, as "warpline(1)"
void add_manual_page(CLI::App& app, int section, const std::vector<std::string>& see_also);

}  // namespace warpline::config
