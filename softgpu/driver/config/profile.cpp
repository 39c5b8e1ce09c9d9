// What SOFTGPU_PROFILE says. Each switch is described once, in the table below.
#include "softgpu/driver/config/profile.h"

#include <span>

#include "softgpu/driver/config/words.h"

namespace warpline::softgpu::driver {

namespace {

using Hints = Profile::Hints;
using ComputeMode = Profile::ComputeMode;
using Loading = Profile::Loading;

/// What every driver of NVIDIA's does, as far as sources tell.
Profile strict_profile() {
    Profile profile;
    profile.serial_host_functions = true;
    profile.launch_queue = 1024;
    profile.calls_hold_context = true;
    profile.synchronise_breaks_captures = true;
    profile.host_allocations_wait = true;
    profile.pageable_staging_bytes = uint64_t{1} << 20;
    profile.foreign_copies = false;
    profile.loading = Loading::lazy;
    profile.context_bytes = Profile::k_usual_context_bytes;
    profile.context_ms = 20;
    profile.memory_before = false;
    profile.lost_events_told = false;
    return profile;
}

template <typename T>
struct Word {
    std::string_view text;
    T value;
};

template <typename T>
bool choose(std::span<const Word<T>> words, std::string_view text, T& out) {
    for (const Word<T>& word : words) {
        if (word.text != text) continue;
        out = word.value;
        return true;
    }
    return false;
}

constexpr Word<bool> k_yes_no[] = {{"yes", true}, {"no", false}};
constexpr Word<Hints> k_hints[] = {{"honoured", Hints::honoured}, {"ignored", Hints::ignored}, {"refused", Hints::refused}};
constexpr Word<ComputeMode> k_compute_modes[] = {
    {"shared", ComputeMode::shared}, {"exclusive", ComputeMode::exclusive}, {"prohibited", ComputeMode::prohibited}};
constexpr Word<bool> k_after_error[] = {{"called", true}, {"silent", false}};
constexpr Word<bool> k_in_capture[] = {{"refused", true}, {"by_mode", false}};
constexpr Word<bool> k_host_allocations[] = {{"wait", true}, {"free", false}};
constexpr Word<bool> k_context_calls[] = {{"held", true}, {"free", false}};
constexpr Word<bool> k_small_copies[] = {{"staged", true}, {"waited", false}};
constexpr Word<bool> k_pageable_async[] = {{"landed", true}, {"queued", false}};
constexpr Word<bool> k_foreign_copies[] = {{"anywhere", true}, {"where_accessible", false}};
constexpr Word<Loading> k_loading[] = {{"free", Loading::free}, {"lazy", Loading::lazy}, {"eager", Loading::eager}};
constexpr Word<bool> k_unknown_symbol[] = {{"success", false}, {"not_found", true}};
constexpr Word<bool> k_before_memory[] = {{"mapped", true}, {"unmapped", false}};
constexpr Word<bool> k_lost_events[] = {{"told", true}, {"awaited", false}};
constexpr Word<bool> k_host_functions[] = {{"serial", true}, {"parallel", false}};

bool read_number(std::string_view text, uint64_t& out) {
    std::string_view rest;
    auto value = parse_number(text, rest);
    if (!value || !rest.empty()) return false;
    out = *value;
    return true;
}

bool read_size(std::string_view text, uint64_t& out) {
    auto bytes = parse_size(text);
    if (bytes) out = *bytes;
    return bytes.has_value();
}

struct Switch {
    std::string_view name;
    std::string_view values;  ///< for people
    bool (*set)(Profile&, std::string_view);
};

constexpr Switch k_switches[] = {
    {"vmm", "yes, no", [](Profile& p, std::string_view v) { return choose<bool>(k_yes_no, v, p.vmm); }},
    {"peers", "yes, no", [](Profile& p, std::string_view v) { return choose<bool>(k_yes_no, v, p.peers); }},
    {"compute_mode", "shared, exclusive, prohibited",
     [](Profile& p, std::string_view v) { return choose<ComputeMode>(k_compute_modes, v, p.compute_mode); }},
    {"stream_values", "yes, no", [](Profile& p, std::string_view v) { return choose<bool>(k_yes_no, v, p.stream_values); }},
    {"mig", "yes, no", [](Profile& p, std::string_view v) { return choose<bool>(k_yes_no, v, p.mig); }},
    {"hints", "honoured, ignored, refused", [](Profile& p, std::string_view v) { return choose<Hints>(k_hints, v, p.hints); }},
    {"after_error", "called, silent",
     [](Profile& p, std::string_view v) { return choose<bool>(k_after_error, v, p.called_after_error); }},
    {"host_functions", "serial, parallel",
     [](Profile& p, std::string_view v) { return choose<bool>(k_host_functions, v, p.serial_host_functions); }},
    {"launch_queue", "a number of launches, 0: no limit",
     [](Profile& p, std::string_view v) { return read_number(v, p.launch_queue); }},
    {"context_calls", "held, free",
     [](Profile& p, std::string_view v) { return choose<bool>(k_context_calls, v, p.calls_hold_context); }},
    {"synchronise_in_capture", "refused, by_mode",
     [](Profile& p, std::string_view v) { return choose<bool>(k_in_capture, v, p.synchronise_breaks_captures); }},
    {"free_synchronises", "yes, no",
     [](Profile& p, std::string_view v) { return choose<bool>(k_yes_no, v, p.free_synchronises); }},
    {"host_allocations", "wait, free",
     [](Profile& p, std::string_view v) { return choose<bool>(k_host_allocations, v, p.host_allocations_wait); }},
    {"pageable_staging", "a size such as 64KiB",
     [](Profile& p, std::string_view v) { return read_size(v, p.pageable_staging_bytes); }},
    {"small_copies", "staged, waited",
     [](Profile& p, std::string_view v) { return choose<bool>(k_small_copies, v, p.small_copies_staged); }},
    {"pageable_async", "landed, queued",
     [](Profile& p, std::string_view v) { return choose<bool>(k_pageable_async, v, p.pageable_landed); }},
    {"foreign_copies", "anywhere, where_accessible",
     [](Profile& p, std::string_view v) { return choose<bool>(k_foreign_copies, v, p.foreign_copies); }},
    {"loading", "free, lazy, eager", [](Profile& p, std::string_view v) { return choose<Loading>(k_loading, v, p.loading); }},
    {"before_memory", "mapped, unmapped",
     [](Profile& p, std::string_view v) { return choose<bool>(k_before_memory, v, p.memory_before); }},
    {"unknown_symbol", "success, not_found",
     [](Profile& p, std::string_view v) { return choose<bool>(k_unknown_symbol, v, p.unknown_symbol_fails); }},
    {"lost_events", "told, awaited",
     [](Profile& p, std::string_view v) { return choose<bool>(k_lost_events, v, p.lost_events_told); }},
    {"context_bytes", "a size such as 256MiB, 0: nothing",
     [](Profile& p, std::string_view v) { return read_size(v, p.context_bytes); }},
    {"context_ms", "a number of milliseconds, 0: none",
     [](Profile& p, std::string_view v) { return read_number(v, p.context_ms); }},
};

std::string names_of_switches() {
    std::string names;
    for (const Switch& one : k_switches) names.append(names.empty() ? "" : ", ").append(one.name);
    return names;
}

bool apply(std::string_view word, Profile& profile, std::string& mistake) {
    size_t equals = word.find('=');
    std::string_view name = word.substr(0, equals);
    for (const Switch& one : k_switches) {
        if (one.name != name) continue;
        std::string_view value = equals != std::string_view::npos ? word.substr(equals + 1) : std::string_view();
        if (one.set(profile, value)) return true;
        mistake =
            "the values of " + std::string(name) + " are " + std::string(one.values) + ", not '" + std::string(value) + "'";
        return false;
    }
    mistake = "there is no switch '" + std::string(name) + "'; there are " + names_of_switches();
    return false;
}

}  // namespace

bool parse_profile(std::string_view text, Profile& profile, std::string& mistake) {
    profile = Profile();
    for (bool first = true; !text.empty(); first = false) {
        size_t comma = text.find(',');
        std::string_view word = text.substr(0, comma);
        text = comma != std::string_view::npos ? text.substr(comma + 1) : std::string_view();
        if (first && word == "generous") continue;
        if (first && word == "strict") {
            profile = strict_profile();
        } else if (!apply(word, profile, mistake)) {
            return false;
        }
    }
    if (profile.mig) profile.peers = false;  // instances are no peers
    return true;
}

}  // namespace warpline::softgpu::driver
