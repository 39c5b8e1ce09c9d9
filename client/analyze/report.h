// An analysis as text, and as JSON.
#pragma once

#include <string>
#include <vector>

#include "client/analyze/account.h"
#include "client/analyze/simulate.h"

namespace warpline::analyze {

/// For people: tables, the longest first. Ends with a newline.
std::string as_text(const Trace& trace, const Account& account, const std::vector<Prediction>& predictions);
/// For scripts: one object, with all rows.
std::string as_json(const Trace& trace, const Account& account, const std::vector<Prediction>& predictions);

}  // namespace warpline::analyze
