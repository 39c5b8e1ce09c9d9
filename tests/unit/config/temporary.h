// Files and variables that a test sets and takes back.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <fstream>
#include <optional>
#include <string>
#include <vector>

namespace warpline::config {

/// A file with this text, for as long as the object lives.
class TemporaryFile {
public:
    explicit TemporaryFile(const std::string& text, const std::string& name = "server.toml") {
        m_folder = "/tmp/warpline-config-" + std::string(6, 'X');
        EXPECT_NE(mkdtemp(m_folder.data()), nullptr);
        path = m_folder + "/" + name;
        std::ofstream(path) << text;
    }
    ~TemporaryFile() {
        unlink(path.c_str());
        rmdir(m_folder.c_str());
    }
    std::string path;

private:
    std::string m_folder;
};

/// Environment variables that are restored at the end of the scope.
class Environment {
public:
    Environment() = default;
    Environment(const Environment&) = delete;
    Environment& operator=(const Environment&) = delete;
    ~Environment() {
        for (auto& [name, old] : m_old) {
            if (old)
                setenv(name.c_str(), old->c_str(), 1);
            else
                unsetenv(name.c_str());
        }
    }
    void set(const std::string& name, const std::string& value) {
        const char* old = getenv(name.c_str());
        m_old.emplace_back(name, old != nullptr ? std::optional<std::string>(old) : std::nullopt);
        setenv(name.c_str(), value.c_str(), 1);
    }

private:
    std::vector<std::pair<std::string, std::optional<std::string>>> m_old;
};

}  // namespace warpline::config
