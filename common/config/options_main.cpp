// The program that writes docs/configuration.md, and the manual pages of configuration files.
#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>

#include "common/config/manual_text.h"
#include "common/config/options.h"

using namespace warpline::config;

namespace {

int write_manual(const char* name, const std::string& path) {
    for (const Program program : {Program::server, Program::client, Program::software}) {
        if (to_string(program) == name) return manual::write(path, manual_of_options(program)) ? 0 : 1;
    }
    std::fprintf(stderr, "there is no program '%s'\n", name);
    return 2;
}

}  // namespace

// warpline-options FILE            writes docs/configuration.md
// warpline-options --check FILE    fails if it is out of date
// warpline-options --manual server|client|software FILE
int main(int argc, char** argv) {
    if (argc == 4 && std::strcmp(argv[1], "--manual") == 0) return write_manual(argv[2], argv[3]);
    const bool check = argc == 3 && std::strcmp(argv[1], "--check") == 0;
    const bool write = argc == 2 && argv[1][0] != '-';
    if (!write && !check) {
        std::fprintf(stderr, "usage: warpline-options [--check | --manual PROGRAM] FILE\n");
        return 2;
    }
    const std::string path = argv[argc - 1];
    const std::string wanted = documentation();
    if (check) {
        std::ifstream file(path, std::ios::binary);
        std::ostringstream found;
        found << file.rdbuf();
        if (found.str() == wanted) return 0;
        std::fprintf(stderr, "%s is out of date: run warpline-options %s and commit it\n", path.c_str(), path.c_str());
        return 1;
    }
    std::ofstream file(path, std::ios::binary);
    file << wanted;
    file.close();
    if (file) return 0;
    std::fprintf(stderr, "cannot write %s\n", path.c_str());
    return 1;
}
