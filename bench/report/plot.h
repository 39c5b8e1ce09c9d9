// Plots of a report's figures as SVG, which take their colours from the page (html.cpp).
#pragma once

#include <string>
#include <vector>

#include "bench/report/figure.h"

namespace warpline::bench {

/// Text as it may stand in HTML and SVG.
std::string escaped(const std::string& text);

/// @name One element `<figure class="plot">`; empty if there is nothing to draw. @{
/// A horizontal bar for each figure, those of one unit beneath each other on one scale: the median, and a line from the tenth
/// to the ninetieth percentile.
std::string bars(const Report& report, const std::vector<const Figure*>& figures);
/// A line for each series, over x by doublings; the limits as dashed lines.
std::string lines(const Report& report, const std::vector<const Figure*>& figures, const std::string& x_name);
/// For each figure the share of its values below …, over a logarithmic scale; the limits dashed. Only figures in microseconds.
std::string distribution(const Report& report, const std::vector<const Figure*>& figures);
/// @}

}  // namespace warpline::bench
