#pragma once

// A question to a driver, and what its answer consists of.

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tests/gpu/probe/driver.h"
#include "tests/gpu/probe/fixtures.h"

namespace warpline::probe {

/// What has been done in the process before the question.
enum class Stage : uint8_t {
    loaded,       ///< nothing: before cuInit
    initialised,  ///< cuInit(0); no context is current
    context,      ///< the primary context of device 0 is current
};

/// What a question is given, and where it puts the values that belong to its answer.
class Asker {
public:
    Asker(const Driver& asked, Fixtures& objects) : driver(asked), fixtures(objects) {}

    void value(const std::string& name, int64_t number) { m_values.emplace_back(name, std::to_string(number)); }
    void text(const std::string& name, const std::string& words);
    /// Names, as a JSON list.
    void list(const std::string& name, const std::vector<std::string>& names);
    const std::vector<std::pair<std::string, std::string>>& values() const { return m_values; }

    const Driver& driver;
    Fixtures& fixtures;

private:
    std::vector<std::pair<std::string, std::string>> m_values;  // name, JSON
};

/// Returns the CUresult that the question is about.
using Body = std::function<int(Asker&)>;

struct Question {
    std::string id;
    Stage stage = Stage::context;
    /// Questions of one group share a process as long as all goes well; an empty group is a process of its own.
    std::string group;
    Body body;
};

/// In quotes, with what JSON wants escaped.
std::string quoted(const std::string& words);

using Questions = std::vector<Question>;

/// Adds questions of one stage and one group.
class Group {
public:
    Group(Questions& all, Stage stage, std::string name) : m_all(all), m_stage(stage), m_name(std::move(name)) {}
    void operator()(std::string id, Body body) const { m_all.push_back({std::move(id), m_stage, m_name, std::move(body)}); }

private:
    Questions& m_all;
    Stage m_stage;
    std::string m_name;
};

/// 1 if the call wrote to the variable that held `before`.
template <typename T>
int64_t written(T now, T before) {
    return now == before ? 0 : 1;
}

// --- the questions, file by file ---
void add_generated(Questions& all);
void add_start(Questions& all);
void add_contexts(Questions& all);
void add_attributes(Questions& all);
void add_images(Questions& all);
void add_jit(Questions& all);
void add_launches(Questions& all);
void add_graphs(Questions& all);
void add_captures(Questions& all);
void add_streams(Questions& all);
void add_host_memory(Questions& all);
void add_resets(Questions& all);

}  // namespace warpline::probe
