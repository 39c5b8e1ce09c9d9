// warpline-gpu-probe: asks a CUDA driver a few thousand small questions and writes its answers as JSON:
//     {"question-id": {"result": code, "values": {"name": value, …}}, …}
// See runner.h for the words that stand in place of a code. What NVIDIA's driver answers is in tests/gpu/expected.json.
#include <fnmatch.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "tests/gpu/probe/runner.h"

namespace warpline::probe {

std::string quoted(const std::string& words) {
    std::string text = "\"";
    for (unsigned char c : words) {
        char escaped[8];
        if (c == '"' || c == '\\') {
            (text += '\\') += static_cast<char>(c);
        } else if (c < 0x20 || c > 0x7e) {
            std::snprintf(escaped, sizeof escaped, "\\u%04x", c);
            text += escaped;
        } else {
            text += static_cast<char>(c);
        }
    }
    return text + "\"";
}

void Asker::text(const std::string& name, const std::string& words) { m_values.emplace_back(name, quoted(words)); }

void Asker::list(const std::string& name, const std::vector<std::string>& names) {
    std::string json = "[";
    for (const std::string& each : names) json += (json.size() > 1 ? ", " : "") + quoted(each);
    m_values.emplace_back(name, json + "]");
}

namespace {

constexpr const char* k_usage =
    "usage: warpline-gpu-probe [--driver PATH] [--out FILE] [--only GLOB]… [--seconds N] [--keep-stderr] [--list]\n"
    "Asks the CUDA driver at PATH (default libcuda.so.1) and writes {\"question\": {\"result\": code, \"values\": {…}}} to "
    "FILE\n"
    "(default standard output). --only keeps the questions that match one of the patterns; --list only names them.\n";

Questions all_questions() {
    Questions all;
    add_start(all);
    add_contexts(all);
    add_attributes(all);
    add_images(all);
    add_jit(all);
    add_launches(all);
    add_graphs(all);
    add_captures(all);
    add_streams(all);
    add_host_memory(all);
    add_resets(all);
    add_generated(all);
    return all;
}

int main_of(int argc, char** argv) {
    RunOptions options;
    std::string out;
    std::vector<std::string> only;
    bool list = false;
    for (int i = 1; i < argc; ++i) {
        const std::string flag = argv[i];
        auto value = [&]() -> const char* {
            if (i + 1 < argc) return argv[++i];
            std::fputs(k_usage, stderr);
            std::exit(2);
        };
        if (flag == "--driver") {
            options.driver = value();
        } else if (flag == "--out") {
            out = value();
        } else if (flag == "--only") {
            only.emplace_back(value());
        } else if (flag == "--seconds") {
            options.seconds = std::max(1, std::atoi(value()));
        } else if (flag == "--keep-stderr") {
            options.keep_stderr = true;
        } else if (flag == "--list") {
            list = true;
        } else {
            std::fputs(k_usage, stderr);
            return flag == "--help" ? 0 : 2;
        }
    }
    Questions questions = all_questions();
    if (!only.empty()) {
        std::erase_if(questions, [&](const Question& question) {
            return std::none_of(only.begin(), only.end(),
                                [&](const std::string& glob) { return ::fnmatch(glob.c_str(), question.id.c_str(), 0) == 0; });
        });
    }
    if (list) {
        for (const Question& question : questions) std::printf("%s\n", question.id.c_str());
        return 0;
    }
    if (!driver_loads(options)) return 2;
    const Answers answers = ask(questions, options);
    std::FILE* file = out.empty() ? stdout : std::fopen(out.c_str(), "w");
    if (!file) {
        std::perror(out.c_str());
        return 2;
    }
    const char* before = "{\n";
    for (const auto& [id, json] : answers) {
        std::fprintf(file, "%s%s: %s", before, quoted(id).c_str(), json.c_str());
        before = ",\n";
    }
    std::fputs(answers.empty() ? "{}\n" : "\n}\n", file);
    return std::fclose(file) == 0 ? 0 : 2;
}

}  // namespace
}  // namespace warpline::probe

int main(int argc, char** argv) { return warpline::probe::main_of(argc, argv); }
