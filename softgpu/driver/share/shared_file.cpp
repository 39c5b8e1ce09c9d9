// Makes, adopts and opens files in memory, and believes only those that are sealed and say what they are.
#include "softgpu/driver/share/shared_file.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <string>
#include <string_view>

#include "common/base/file_size.h"
#include "softgpu/exec/rounding.h"

namespace warpline::softgpu::driver {

namespace {

constexpr std::array<char, 8> k_file_magic = {'W', 'L', 's', 'o', 'f', 't', '0', '1'};
constexpr int k_seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
constexpr const char* k_name = "softgpu-shared";
constexpr const char* k_names_folder = "/dev/shm/";
constexpr std::string_view k_named = "softgpu-shared-";

bool choose_id(SharedId& id) { return getrandom(id.data(), sizeof(id), 0) == static_cast<ssize_t>(sizeof(id)); }

std::string name_of(int pid, const SharedId& id) {
    std::array<char, 48> numbers{};
    std::snprintf(numbers.data(), numbers.size(), "%d-%016llx%016llx", pid, static_cast<unsigned long long>(id[0]),
                  static_cast<unsigned long long>(id[1]));
    return k_names_folder + std::string(k_named) + numbers.data();
}

/// Processes that end without further ado, or are killed, leave their names behind.
void remove_stale_names() {
    DIR* folder = opendir(k_names_folder);
    if (folder == nullptr) return;
    while (const dirent* entry = readdir(folder)) {
        std::string_view name = entry->d_name;
        if (!name.starts_with(k_named)) continue;
        std::string pid(name.substr(k_named.size(), name.find('-', k_named.size()) - k_named.size()));
        if (access(("/proc/" + pid).c_str(), F_OK) != 0) unlink((k_names_folder + std::string(name)).c_str());
    }
    closedir(folder);
}

}  // namespace

bool SharedFile::write_header(int fd, Header& header, SharedKind kind, uint64_t data_bytes, const SharedOwner& owner) {
    header.magic = k_file_magic;
    header.kind = kind;
    header.location_type = static_cast<int32_t>(owner.location.type);
    header.location_id = owner.location.id;
    header.data_bytes = data_bytes;
    header.device = owner.device;
    return resize_file(fd, data_bytes + k_page_bytes) &&
           pwrite(fd, &header, sizeof(header), static_cast<off_t>(data_bytes)) == static_cast<ssize_t>(sizeof(header));
}

SharedFilePtr SharedFile::create(SharedKind kind, uint64_t data_bytes, const SharedOwner& owner) {
    int fd = memfd_create(k_name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0) return nullptr;
    Header header;
    bool made = choose_id(header.id) && write_header(fd, header, kind, data_bytes, owner) &&
                // Nobody can make it shorter under the feet of who has mapped it.
                fcntl(fd, F_ADD_SEALS, k_seals) == 0;
    if (made) return SharedFilePtr(new SharedFile(fd, header));
    close(fd);
    return nullptr;
}

SharedFilePtr SharedFile::create_named(SharedKind kind, uint64_t data_bytes, const SharedOwner& owner) {
    remove_stale_names();
    Header header;
    if (!choose_id(header.id)) return nullptr;
    std::string name = name_of(getpid(), header.id);
    int fd = ::open(name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) return nullptr;
    if (write_header(fd, header, kind, data_bytes, owner)) return SharedFilePtr(new SharedFile(fd, header, std::move(name)));
    close(fd);
    unlink(name.c_str());
    return nullptr;
}

SharedFilePtr SharedFile::open_named(int pid, SharedKind kind, const SharedId& id) {
    int fd = ::open(name_of(pid, id).c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) return nullptr;
    auto header = read_header(fd, kind, Sort::named);
    if (header && header->id == id) return SharedFilePtr(new SharedFile(fd, *header));
    close(fd);
    return nullptr;
}

std::optional<SharedFile::Header> SharedFile::read_header(int fd, SharedKind kind, Sort sort) {
    struct stat status {};
    int seals = fcntl(fd, F_GET_SEALS), mode = fcntl(fd, F_GETFL);
    if (sort == Sort::sealed && (seals < 0 || (seals & k_seals) != k_seals)) return std::nullopt;
    if (mode < 0 || (mode & O_ACCMODE) != O_RDWR) return std::nullopt;
    if (fstat(fd, &status) != 0 || status.st_size <= static_cast<off_t>(k_page_bytes)) return std::nullopt;
    // Files that have a name cannot be sealed: only their user's processes can make them shorter.
    if (sort == Sort::named && status.st_uid != geteuid()) return std::nullopt;
    auto data_bytes = static_cast<uint64_t>(status.st_size) - k_page_bytes;
    Header header;
    if (pread(fd, &header, sizeof(header), static_cast<off_t>(data_bytes)) != static_cast<ssize_t>(sizeof(header))) {
        return std::nullopt;
    }
    bool good = header.magic == k_file_magic && header.kind == kind && header.data_bytes == data_bytes;
    return good ? std::optional(header) : std::nullopt;
}

SharedFilePtr SharedFile::adopt(int fd, SharedKind kind) {
    auto header = read_header(fd, kind, Sort::sealed);
    if (!header) return nullptr;
    int own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    return own >= 0 ? SharedFilePtr(new SharedFile(own, *header)) : nullptr;
}

SharedFilePtr SharedFile::open(int pid, int fd, SharedKind kind, const SharedId& id) {
    if (pid <= 0 || fd < 0) return nullptr;
    std::string path = "/proc/" + std::to_string(pid) + "/fd/" + std::to_string(fd);
    // Looked at before it is opened: the number may name a terminal or a pipe by now.
    std::array<char, 64> target{};
    ssize_t length = readlink(path.c_str(), target.data(), target.size());
    std::string wanted = std::string("/memfd:") + k_name;
    if (length < 0 || !std::string_view(target.data(), static_cast<size_t>(length)).starts_with(wanted)) return nullptr;
    int own = ::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (own < 0) return nullptr;
    auto header = read_header(own, kind, Sort::sealed);
    if (header && header->id == id) return SharedFilePtr(new SharedFile(own, *header));
    close(own);
    return nullptr;
}

SharedFile::~SharedFile() {
    if (!m_name.empty()) unlink(m_name.c_str());
    close(m_fd);
}

CUmemLocation SharedFile::location() const {
    CUmemLocation location{};
    location.type = static_cast<CUmemLocationType>(m_header.location_type);
    location.id = m_header.location_id;
    return location;
}

int SharedFile::duplicate() const { return fcntl(m_fd, F_DUPFD_CLOEXEC, 0); }

bool SharedFile::map_at(uint64_t address, uint64_t size_bytes, uint64_t offset) const {
    void* mapped = mmap(reinterpret_cast<void*>(address), size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, m_fd,
                        static_cast<off_t>(offset));
    return mapped != MAP_FAILED;
}

uint64_t SharedFile::map_anywhere(uint64_t size_bytes, uint64_t offset) const {
    void* mapped = mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, m_fd, static_cast<off_t>(offset));
    return mapped != MAP_FAILED ? reinterpret_cast<uint64_t>(mapped) : 0;
}

void SharedFile::discard(uint64_t offset, uint64_t size_bytes) const {
    fallocate(m_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset), static_cast<off_t>(size_bytes));
}

}  // namespace warpline::softgpu::driver
