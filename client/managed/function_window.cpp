// Growing where a function goes on, shrinking where it is too slow.
#include "client/managed/function_window.h"

#include <algorithm>

namespace warpline::client {

namespace {

constexpr uint64_t k_factor = 4;

bool lies_in(uint64_t address, AddressRange range) { return address - range.base < range.size_bytes; }

}  // namespace

void FunctionWindow::begin(uint64_t function) {
    if (function == m_function) return;
    m_function = function;
    m_known.clear();
    m_last = 0;
}

const FunctionWindow::Known* FunctionWindow::find(uint64_t region) const {
    const auto found = m_known.find(region);
    return found == m_known.end() ? nullptr : &found->second;
}

uint64_t FunctionWindow::window_at(AddressRange region, uint64_t address) const {
    const Known* const known = find(region.base);
    if (!known) {
        // Who has gone through one piece of memory goes through the next one, too; who has looked at little does so again.
        const Known* const last = find(m_last);
        return last ? std::max(last->brought.window_bytes, k_first) : k_first;
    }
    const auto& [what, window] = known->brought;
    if (lies_in(address, what) || !known->steady) return window / k_factor;
    const uint64_t before = std::min(window, what.base);
    const bool goes_on = lies_in(address, {what.base - before, before + what.size_bytes + window});
    return goes_on ? std::min(window * k_factor, k_last) : window;
}

FunctionWindow::Choice FunctionWindow::choose(AddressRange region, uint64_t unit_bytes, uint64_t address) const {
    const uint64_t window = std::max(window_at(region, address), unit_bytes);
    const uint64_t begin = std::max(address / window * window, region.base);
    const uint64_t end = std::min(address / window * window + window, region.end());
    const Known* const known = find(region.base);
    // What it has left behind is given back with the question, and is not to be fetched again with it.
    const bool goes_forward = known && address >= known->brought.what.base;
    const uint64_t from = goes_forward ? address - (address - region.base) % unit_bytes : begin;
    return {{from, end - from}, window};
}

void FunctionWindow::note(AddressRange region, const Choice& brought, bool steady) {
    m_last = region.base;
    m_known[m_last] = {brought, steady};
}

}  // namespace warpline::client
