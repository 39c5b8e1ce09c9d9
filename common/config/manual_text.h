// The language of manual pages, man(7).
#pragma once

#include <string>
#include <string_view>

/// Pages have no date: the same sources give the same bytes.
namespace warpline::config::manual {

/// Text as it is to be read: nothing in it is a command. `Code` in backticks becomes bold.
std::string text(std::string_view words);
/// The beginning of a page, with its name and what it is about in a few words.
std::string title(std::string_view page, int section, std::string_view group, std::string_view about);
/// A heading.
std::string section(std::string_view name);
/// Something that is explained, and its explanation; `tag` is in this language already.
std::string entry(const std::string& tag, const std::string& explanation);
std::string bold(std::string_view words);
std::string italic(std::string_view words);
std::string paragraph(const std::string& written);

/// Writes a page to a file. False, with a line on stderr, if that fails.
bool write(const std::string& path, const std::string& page);

}  // namespace warpline::config::manual
