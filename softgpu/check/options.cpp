// Reads SOFTGPU_CHECK.
#include "softgpu/check/options.h"

#include <algorithm>

namespace warpline::softgpu::check {

ParsedChecks parse_checks(std::string_view text) {
    constexpr struct {
        std::string_view name;
        Check check;
    } k_names[] = {{"memory", check_memory}, {"race", check_race}, {"init", check_init}, {"leak", check_leak}};
    ParsedChecks parsed;
    while (!text.empty()) {
        std::string_view word = text.substr(0, text.find(','));
        text.remove_prefix(std::min(text.size(), word.size() + 1));
        while (word.starts_with(' ')) word.remove_prefix(1);
        while (word.ends_with(' ')) word.remove_suffix(1);
        if (word.empty()) continue;
        auto found =
            std::find_if(std::begin(k_names), std::end(k_names), [&](const auto& known) { return known.name == word; });
        if (found != std::end(k_names)) {
            parsed.checks |= found->check;
        } else if (parsed.unknown.empty()) {
            parsed.unknown = word;
        }
    }
    return parsed;
}

}  // namespace warpline::softgpu::check
