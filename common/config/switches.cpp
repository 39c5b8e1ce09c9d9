// The words of `disable`.
#include "common/config/switches.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace warpline::config {

namespace {
constexpr std::array<std::string_view, k_optimisation_count> k_words = {
    "aes",   "batching", "cache",    "compact", "compression", "congestion", "lanes",
    "parts", "polling",  "prefetch", "reading", "shm",         "spin",       "turns"};
}

Switches::Switches(const Settings& settings, std::string& problem) {
    for (const std::string& word : settings.text_list("disable")) {
        const auto found = std::find(k_words.begin(), k_words.end(), word);
        if (found != k_words.end()) {
            m_left_out.set(static_cast<size_t>(found - k_words.begin()));
        } else if (word == "all") {
            m_left_out.set();
        } else {
            problem = "no optimisation is called '" + word + "' (" + settings.origin("disable") + "); there are all";
            for (const std::string_view known : k_words) problem.append(", ").append(known);
        }
    }
}

}  // namespace warpline::config
