// Files in memory that processes share.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "cuda/abi/cuda_types.h"

namespace warpline::softgpu::driver {

/// What a shared file holds. A file of one kind is never taken for another.
enum class SharedKind : uint32_t {
    allocation = 1,  ///< of cuMemCreate
    pool,            ///< all memory of a pool
    chunk,           ///< memory of cuMemAlloc, since somebody asked for its handle
    event,           ///< what processes know of an interprocess event
};

using SharedId = std::array<uint64_t, 2>;

/// What memory belongs to: a place as the process that made it numbers its devices, and the device by its name on this machine.
struct SharedOwner {
    CUmemLocation location{};
    CUuuid device{};
};

/// Memory that other processes can map: a file in memory of fixed size, followed by a page that says what it is. Any thread
/// may call.
class SharedFile {
public:
    /// Null if the machine refuses (descriptors, memory). The file is sparse: bytes that nobody writes cost nothing.
    static std::shared_ptr<SharedFile> create(SharedKind kind, uint64_t data_bytes, const SharedOwner& owner);
    /// A file that another process made, by a descriptor that stays the caller's. Null if it is none of that kind.
    static std::shared_ptr<SharedFile> adopt(int fd, SharedKind kind);
    /// A file that has a name as long as it lives: processes find it that may not look into each other. What a process leaves
    /// behind that is killed goes when the next such file is made. Null as above.
    static std::shared_ptr<SharedFile> create_named(SharedKind kind, uint64_t data_bytes, const SharedOwner& owner);
    /// Another process's file of that sort, of the same user.
    static std::shared_ptr<SharedFile> open_named(int pid, SharedKind kind, const SharedId& id);
    /// The same as adopt(), by the numbers of the process and of its descriptor. `id` is that of the file which is meant:
    /// processes end, and numbers are given out again.
    static std::shared_ptr<SharedFile> open(int pid, int fd, SharedKind kind, const SharedId& id);
    ~SharedFile();
    SharedFile(const SharedFile&) = delete;
    SharedFile& operator=(const SharedFile&) = delete;

    /// Unique on this machine.
    const SharedId& id() const { return m_header.id; }
    uint64_t data_bytes() const { return m_header.data_bytes; }
    CUmemLocation location() const;
    /// The device that the memory belongs to.
    const CUuuid& device() const { return m_header.device; }
    int fd() const { return m_fd; }
    /// A new descriptor, or -1.
    int duplicate() const;

    /// Makes [offset, offset + size) appear at an address, in place of what is there.
    bool map_at(uint64_t address, uint64_t size_bytes, uint64_t offset) const;
    /// The same, wherever there is room; 0 if there is none.
    uint64_t map_anywhere(uint64_t size_bytes, uint64_t offset) const;
    /// The bytes are given back to the machine and read as zeros from now on, in every process.
    void discard(uint64_t offset, uint64_t size_bytes) const;

private:
    /// The first bytes of the last page.
    struct Header {
        std::array<char, 8> magic{};
        SharedKind kind{};
        int32_t location_type = 0, location_id = 0;
        uint32_t reserved = 0;
        uint64_t data_bytes = 0;
        SharedId id{};
        CUuuid device{};
    };
    enum class Sort : bool { sealed, named };
    SharedFile(int fd, const Header& header, std::string name = {}) : m_fd(fd), m_name(std::move(name)), m_header(header) {}
    static std::optional<Header> read_header(int fd, SharedKind kind, Sort sort);
    static bool write_header(int fd, Header& header, SharedKind kind, uint64_t data_bytes, const SharedOwner& owner);

    const int m_fd;
    const std::string m_name;  // of a file that we have made; empty: it has none
    const Header m_header;
};
using SharedFilePtr = std::shared_ptr<SharedFile>;  // shared: handles and mappings refer to one file

}  // namespace warpline::softgpu::driver
