// The program that writes docs/configuration.md.
#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>

#include "common/config/options.h"

// warpline-options FILE            writes docs/configuration.md
// warpline-options --check FILE    fails if it is out of date
int main(int argc, char** argv) {
    const bool check = argc == 3 && std::strcmp(argv[1], "--check") == 0;
    const bool write = argc == 2 && argv[1][0] != '-';
    if (!write && !check) {
        std::fprintf(stderr, "usage: warpline-options [--check] FILE\n");
        return 2;
    }
    const std::string path = argv[argc - 1];
    const std::string wanted = warpline::config::documentation();
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
