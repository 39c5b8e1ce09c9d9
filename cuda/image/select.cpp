// Which entry of an image a device takes: machine code that fits, else the newest PTX that can be compiled for it.
#include <algorithm>
#include <utility>

#include "cuda/image/image.h"

namespace warpline::cuda::image {

namespace {

bool same_major(uint32_t a, uint32_t b) { return a / 10 == b / 10; }

// Machine code runs on its own and later minor versions of its major version; sm_90a only on 9.0.
bool cubin_fits(const Entry& entry, uint32_t capability) {
    if (entry.kind != EntryKind::cubin) return false;
    if (entry.arch_specific) return entry.arch == capability;
    return same_major(entry.arch, capability) && entry.arch <= capability;
}

bool ptx_fits(const Entry& entry, uint32_t capability) {
    if (entry.kind != EntryKind::ptx) return false;
    if (entry.arch_specific) return entry.arch == capability;
    if (entry.family_specific && !same_major(entry.arch, capability)) return false;
    return entry.arch <= capability;
}

bool is_special(const Entry& entry) { return entry.arch_specific || entry.family_specific; }

// Takes the entry if it is PTX that comes before the best one so far: plain before special, the lower architecture first.
void take_better_ptx(const Entry& entry, uint32_t capability_max, bool special_too, const Entry*& best) {
    if (entry.kind != EntryKind::ptx || entry.arch > capability_max || (is_special(entry) && !special_too)) return;
    if (best == nullptr || std::pair(is_special(entry), entry.arch) < std::pair(is_special(*best), best->arch)) best = &entry;
}

// Of two codes for one architecture the more specific one wins.
uint32_t rank(const Entry& entry) { return entry.arch * 4 + (entry.arch_specific ? 2 : entry.family_specific ? 1 : 0); }

// Takes the entry if a driver prefers it to the best one so far: machine code that fits before PTX that can be compiled.
void take_better(const Entry& entry, uint32_t capability, const Entry*& best) {
    if (!cubin_fits(entry, capability) && !ptx_fits(entry, capability)) return;
    const auto order = [](const Entry& code) { return std::pair(code.kind == EntryKind::cubin, rank(code)); };
    if (best == nullptr || order(entry) > order(*best)) best = &entry;
}

}  // namespace

const Entry* Image::select(uint32_t compute_capability) const {
    const Entry* best = nullptr;
    for (const Entry& entry : m_entries) {
        if (!entry.relocatable) take_better(entry, compute_capability, best);
    }
    return best;
}

std::vector<const Entry*> Image::select_linkable(uint32_t compute_capability) const {
    return select_units([&](const Entry& entry, const Entry*& best) { take_better(entry, compute_capability, best); });
}

const Entry* Image::select_ptx(uint32_t compute_capability_max, bool special_too) const {
    const Entry* best = nullptr;
    for (const Entry& entry : m_entries) {
        if (!entry.relocatable) take_better_ptx(entry, compute_capability_max, special_too, best);
    }
    return best;
}

std::vector<const Entry*> Image::select_linkable_ptx(uint32_t compute_capability_max, bool special_too) const {
    return select_units(
        [&](const Entry& entry, const Entry*& best) { take_better_ptx(entry, compute_capability_max, special_too, best); });
}

std::vector<const Entry*> Image::select_units(FunctionRef<void(const Entry&, const Entry*&)> take) const {
    std::vector<const Entry*> units(m_parts.size(), nullptr), alone;
    for (size_t i = 0; i < m_entries.size(); i++) {
        if (!m_entries[i].relocatable) continue;
        take(m_entries[i], m_entries[i].alone ? alone.emplace_back(nullptr) : units[m_part_of_entry[i]]);
    }
    units.erase(units.begin());  // the linked fatbin
    units.insert(units.end(), alone.begin(), alone.end());
    // Linking some of the units only would leave symbols undefined.
    if (std::find(units.begin(), units.end(), nullptr) != units.end()) return {};
    return units;
}

}  // namespace warpline::cuda::image
