// Names of files, writing, and not believing what is read.
#include "server/cache/disk_chunks.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>

#include "common/base/scope_guard.h"
#include "common/log/log.h"

namespace warpline::server {

namespace {

constexpr const char* k_secret_name = "secret";
constexpr const char* k_unfinished_name = "unfinished";
/// Larger files are none of ours.
constexpr uint64_t k_most_file_bytes = 16u << 20;
/// Files are small on a disk, too, and are named one by one at the start.
constexpr uint64_t k_bytes_per_file = 16 * 1024;
/// Of chunks that were there before: nobody remembers what they cost.
constexpr double k_usual_ns_per_byte = 8;

std::string hex_of(const net::Digest& digest) {
    std::string text;
    for (const uint8_t byte : digest) text += log::format("{:02x}", byte);
    return text;
}

std::optional<net::Digest> digest_of(std::string_view text) {
    net::Digest digest;
    if (text.size() != digest.size() * 2) return std::nullopt;
    for (size_t i = 0; i < digest.size(); ++i) {
        const char* const begin = text.data() + 2 * i;
        const auto [end, error] = std::from_chars(begin, begin + 2, digest[i], 16);
        if (error != std::errc() || end != begin + 2) return std::nullopt;
    }
    return digest;
}

std::string path_of(const std::string& tenant, const net::Digest& digest) { return tenant + "/" + hex_of(digest); }

bool write_fully(int fd, BytesView bytes) {
    while (!bytes.empty()) {
        const ssize_t written = write(fd, bytes.data(), bytes.size());
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) return false;
        bytes = bytes.subspan(static_cast<size_t>(written));
    }
    return true;
}

bool read_fully(int fd, MutableBytesView bytes) {
    while (!bytes.empty()) {
        const ssize_t got = read(fd, bytes.data(), bytes.size());
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return false;
        bytes = bytes.subspan(static_cast<size_t>(got));
    }
    return true;
}

template <typename F>
void each_name(int folder, const char* name, F&& use) {
    const int fd = openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    const std::unique_ptr<DIR, int (*)(DIR*)> listing(fd >= 0 ? fdopendir(fd) : nullptr, &closedir);
    if (listing == nullptr) return;
    while (const dirent* entry = readdir(listing.get()))
        if (entry->d_name[0] != '.') use(std::string(entry->d_name));
}

}  // namespace

Result<std::unique_ptr<DiskChunks>> DiskChunks::open(const std::string& folder, uint64_t most_bytes, std::string& problem) {
    const auto refused = [&](const char* what) {
        problem = log::format("{}: {} (errno {})", folder, what, errno);
        return Error{Code::io, what, static_cast<uint32_t>(errno)};
    };
    if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) return refused("the folder cannot be made");
    const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return refused("the folder cannot be opened");
    auto chunks = std::unique_ptr<DiskChunks>(new DiskChunks(folder, fd, most_bytes));
    struct stat status {};
    if (fstat(fd, &status) != 0 || status.st_uid != geteuid() || (status.st_mode & 077) != 0) {
        errno = EPERM;
        return refused("the folder must belong to the user that the server's workers run as, and nobody else may look into it");
    }
    WL_TRY(chunks->read_secret(problem));
    chunks->scan();
    return chunks;
}

DiskChunks::DiskChunks(std::string folder, int fd, uint64_t most_bytes)
    : m_folder(std::move(folder)), m_fd(fd), m_index(most_bytes, most_bytes / k_bytes_per_file + 1) {}

DiskChunks::~DiskChunks() { close(m_fd); }

Result<void> DiskChunks::read_secret(std::string& problem) {
    const auto refused = [&](const char* what) {
        problem = log::format("{}/{}: {} (errno {})", m_folder, k_secret_name, what, errno);
        return Error{Code::io, what, static_cast<uint32_t>(errno)};
    };
    const MutableBytesView bytes{reinterpret_cast<std::byte*>(m_secret.data()), m_secret.size()};
    int fd = openat(m_fd, k_secret_name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0) {
        const ScopeGuard close_it([&] { close(fd); });
        struct stat status {};
        // A secret that is too short was being written when the machine stopped: no file depends on it yet.
        if (fstat(fd, &status) == 0 && status.st_size == static_cast<off_t>(bytes.size())) {
            if (!read_fully(fd, bytes)) return refused("the secret cannot be read");
            return {};
        }
    } else if (errno != ENOENT) {
        return refused("the secret cannot be opened");
    }
    m_secret = WL_TRY(net::random_key());
    unlinkat(m_fd, k_secret_name, 0);
    fd = openat(m_fd, k_secret_name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0) return refused("the secret cannot be written");
    const ScopeGuard close_it([&] { close(fd); });
    if (!write_fully(fd, bytes) || fsync(fd) != 0) return refused("the secret cannot be written");
    return {};
}

void DiskChunks::scan() {
    each_name(m_fd, ".", [this](const std::string& name) {
        if (digest_of(name)) scan_tenant(name);
    });
}

void DiskChunks::scan_tenant(const std::string& tenant) {
    each_name(m_fd, tenant.c_str(), [&](const std::string& name) {
        const auto digest = digest_of(name);
        struct stat status {};
        const std::string path = tenant + "/" + name;
        const bool is_ours = digest && fstatat(m_fd, path.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0 &&
                             S_ISREG(status.st_mode) && status.st_size > 0 &&
                             static_cast<uint64_t>(status.st_size) <= k_most_file_bytes;
        const ChunkIndex::Chunk chunk{static_cast<uint64_t>(status.st_size), -1};
        const auto gone = [this](const ChunkIndex::Name& lost, const ChunkIndex::Chunk&) {
            delete_file(lost.tenant, lost.digest);
        };
        if (!is_ours || !m_index.add(tenant, *digest, chunk, k_usual_ns_per_byte, gone)) unlinkat(m_fd, path.c_str(), 0);
    });
}

void DiskChunks::delete_file(const std::string& tenant, const net::Digest& digest) {
    unlinkat(m_fd, path_of(tenant, digest).c_str(), 0);
}

bool DiskChunks::write_file(const std::string& tenant, const net::Digest& digest, BytesView bytes) {
    if (mkdirat(m_fd, tenant.c_str(), 0700) != 0 && errno != EEXIST) return false;
    const int fd = openat(m_fd, k_unfinished_name, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0) return false;
    const bool written = write_fully(fd, bytes);
    return close(fd) == 0 && written && renameat(m_fd, k_unfinished_name, m_fd, path_of(tenant, digest).c_str()) == 0;
}

void DiskChunks::add(const std::string& tenant, const net::Digest& digest, BytesView bytes, double ns_per_byte) {
    if (bytes.empty() || bytes.size() > k_most_file_bytes) return;
    const auto gone = [this](const ChunkIndex::Name& lost, const ChunkIndex::Chunk&) { delete_file(lost.tenant, lost.digest); };
    if (!m_index.add(tenant, digest, {bytes.size(), -1}, ns_per_byte, gone)) return;
    if (write_file(tenant, digest, bytes)) return;
    if (!std::exchange(m_told, true))
        WL_LOG(warn, "cache", "{}: chunks cannot be written (errno {}); those that cannot be are kept in memory only", m_folder,
               errno);
    m_index.remove(tenant, digest);
}

std::optional<Bytes> DiskChunks::read(const std::string& tenant, const net::Digest& digest, const net::KeyedHash& hash) {
    const auto chunk = m_index.want(tenant, digest);
    if (!chunk) return std::nullopt;
    const int fd = openat(m_fd, path_of(tenant, digest).c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0) {
        const ScopeGuard close_it([&] { close(fd); });
        Bytes bytes(chunk->bytes);
        if (read_fully(fd, bytes)) {
            const auto is = hash.digest(bytes);
            if (is.ok() && *is == digest) return bytes;
        }
    }
    ++m_damaged;
    WL_LOG(warn, "cache", "{}: a chunk is not what it was, and is thrown away", m_folder);
    m_index.remove(tenant, digest);
    delete_file(tenant, digest);
    return std::nullopt;
}

}  // namespace warpline::server
