// Files cut into chunks as payloads are.
#include "server/cache/warm_list.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <limits>
#include <vector>

#include "common/base/scope_guard.h"
#include "common/log/log.h"

namespace warpline::server {

namespace {

/// As of a link of 1 Gb/s: nobody has sent it yet.
constexpr double k_warm_ns_per_byte = 8;

struct Named {
    std::string tenant, file;
    uint64_t offset = 0;
    uint64_t bytes = std::numeric_limits<uint64_t>::max();
};

bool read_number(std::string_view text, uint64_t& number) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    return error == std::errc() && end == text.data() + text.size();
}

bool read_line(std::string_view line, Named& named) {
    std::vector<std::string_view> fields;
    while (true) {
        const size_t tab = line.find('\t');
        fields.push_back(line.substr(0, tab));
        if (tab == std::string_view::npos) break;
        line.remove_prefix(tab + 1);
    }
    if (fields.size() != 2 && fields.size() != 4) return false;
    named.tenant = fields[0];
    named.file = fields[1];
    if (named.tenant.empty() || named.file.empty()) return false;
    return fields.size() == 2 || (read_number(fields[2], named.offset) && read_number(fields[3], named.bytes));
}

/// @return how many bytes were taken in; -1: the file cannot be read
int64_t take_in(UploadStore& store, const UploadStore::Tenant& tenant, const Named& named) {
    const int fd = open(named.file.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) return -1;
    const ScopeGuard close_it([fd] { close(fd); });
    Bytes chunk(UploadStore::k_most_chunk_bytes);
    uint64_t done = 0;
    while (done < named.bytes) {
        const uint64_t wanted = std::min<uint64_t>(chunk.size(), named.bytes - done);
        uint64_t filled = 0;
        while (filled < wanted) {
            const ssize_t got =
                pread(fd, chunk.data() + filled, wanted - filled, static_cast<off_t>(named.offset + done + filled));
            if (got < 0) return -1;
            if (got == 0) break;
            filled += static_cast<uint64_t>(got);
        }
        if (filled >= UploadStore::k_least_chunk_bytes &&
            !store.add(tenant, BytesView(chunk).first(filled), k_warm_ns_per_byte).ok())
            return -1;
        done += filled;
        if (filled < wanted) break;
    }
    return static_cast<int64_t>(done);
}

}  // namespace

void warm(UploadStore& store, const std::string& path) {
    if (path.empty()) return;
    std::ifstream list(path);
    if (!list) WL_LOG(warn, "cache", "{}: the list of what is to be kept from the start cannot be read", path);
    std::string line;
    uint64_t bytes = 0;
    for (unsigned number = 1; std::getline(list, line); ++number) {
        if (line.empty() || line.front() == '#') continue;
        Named named;
        if (!read_line(line, named)) {
            WL_LOG(warn, "cache", "{}:{}: a line is TENANT, FILE and perhaps OFFSET and BYTES, with tabs in between", path,
                   number);
            continue;
        }
        const auto tenant = store.tenant(named.tenant);
        const int64_t taken = tenant.ok() ? take_in(store, **tenant, named) : -1;
        if (taken < 0) {
            WL_LOG(warn, "cache", "{}:{}: {} cannot be read (errno {})", path, number, named.file, errno);
            continue;
        }
        bytes += static_cast<uint64_t>(taken);
    }
    WL_LOG(info, "cache", "{}: {} bytes are there from the start", path, bytes);
}

}  // namespace warpline::server
