// Escapes, and the few macros that pages take.
#include "common/config/manual_text.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>

namespace warpline::config::manual {

namespace {

/// A character of more than one byte, as groff names it. `at` moves behind it.
std::string unicode(std::string_view words, size_t& at) {
    const auto first = static_cast<uint8_t>(words[at++]);
    const int more = first >= 0xF0 ? 3 : first >= 0xE0 ? 2 : 1;
    uint32_t code = first & (0x3Fu >> more);
    for (int i = 0; i < more && at < words.size(); ++i) code = code << 6 | (static_cast<uint8_t>(words[at++]) & 0x3F);
    char name[16];
    std::snprintf(name, sizeof name, "\\[u%04X]", code);
    return name;
}

std::string upper(std::string_view words) {
    std::string result(words);
    std::transform(result.begin(), result.end(), result.begin(),
                   [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; });
    return result;
}

}  // namespace

std::string text(std::string_view words) {
    std::string result;
    bool code = false;
    bool begins_line = true;
    for (size_t at = 0; at < words.size();) {
        const char c = words[at];
        if (static_cast<uint8_t>(c) >= 0x80) {
            result += unicode(words, at);
            begins_line = false;
            continue;
        }
        ++at;
        switch (c) {
            case '\\': result += "\\e"; break;
            case '-': result += "\\-"; break;
            case '\'': result += "\\(aq"; break;
            case '^': result += "\\(ha"; break;
            case '~': result += "\\(ti"; break;
            case '`': result += (code = !code) ? "\\fB" : "\\fP"; break;
            case '\n': result += "\n.br\n"; break;
            default: result += begins_line && c == '.' ? "\\&." : std::string(1, c);
        }
        begins_line = c == '\n';
    }
    return result;
}

std::string title(std::string_view page, int section, std::string_view group, std::string_view about) {
    const std::string number = std::to_string(section);
    return ".\\\" Made from the descriptions of the options.\n.TH \"" + text(upper(page)) + "\" " + number +
           " \"\" \"Warpline " WARPLINE_VERSION "\" \"" + text(group) + "\"\n" + manual::section("NAME") + text(page) +
           " \\- " + text(about) + "\n";
}

std::string section(std::string_view name) { return ".SH \"" + text(name) + "\"\n"; }

std::string entry(const std::string& tag, const std::string& explanation) { return ".TP\n" + tag + "\n" + explanation + "\n"; }

std::string bold(std::string_view words) { return "\\fB" + text(words) + "\\fP"; }

std::string italic(std::string_view words) { return "\\fI" + text(words) + "\\fP"; }

std::string paragraph(const std::string& written) { return ".PP\n" + written + "\n"; }

bool write(const std::string& path, const std::string& page) {
    std::ofstream file(path, std::ios::binary);
    file << page;
    file.close();
    if (file) return true;
    std::fprintf(stderr, "cannot write %s: %s\n", path.c_str(), std::strerror(errno));
    return false;
}

}  // namespace warpline::config::manual
