// Readers for what cuModuleLoadData and cuLibraryLoadData are given: fatbin wrappers, fatbins, cubins, PTX text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "common/base/bytes.h"
#include "common/base/function_ref.h"
#include "common/base/result.h"
#include "cuda/image/image_info.h"

namespace warpline::cuda::image {

/// The largest container, entry or decompressed payload that we accept: cuDNN's and cuBLASLt's largest modules have tens of
/// MiB.
inline constexpr uint64_t k_max_image_bytes = uint64_t{1} << 30;
/// The most entries of one fatbin and the most relocatable fatbins of one wrapper.
inline constexpr uint32_t k_max_entries = 65536;

enum class Container : uint8_t { fatbin, cubin, ptx };
enum class EntryKind : uint8_t { ptx, cubin, other };
enum class Compression : uint8_t { none, lz4, zstd };

/// One code of an image. `stored` points into the image's bytes.
struct Entry {
    EntryKind kind = EntryKind::other;
    Compression compression = Compression::none;
    bool arch_specific = false;    ///< sm_90a: runs on exactly that compute capability
    bool family_specific = false;  ///< sm_100f: runs on later members of the family
    bool relocatable = false;      ///< of -rdc=true, or linked at run time: goes with the image's other relocatable entries
    bool alone = false;            ///< a translation unit by itself, where others are the entries of one of the image's parts
    uint16_t raw_kind = 0;         ///< as found: 1 PTX, 2 cubin
    uint32_t arch = 0;             ///< 10 × major + minor: 75, 90, 120
    uint64_t flags = 0;            ///< as found
    uint64_t raw_bytes = 0;        ///< size after decompression
    BytesView stored;
};

/// A code, decompressed; a view of the image's own bytes if it was stored as it is, so the image must outlive it then.
class Payload {
public:
    explicit Payload(BytesView view) : m_bytes(view) {}
    explicit Payload(Bytes bytes) : m_bytes(std::move(bytes)) {}
    BytesView view() const {
        if (const auto* view = std::get_if<BytesView>(&m_bytes)) return *view;
        return std::get<Bytes>(m_bytes);
    }
    /// For PTX: without the terminating zero.
    std::string_view text() const;

private:
    std::variant<BytesView, Bytes> m_bytes;
};

/// Decompresses an entry.
///
/// @errors  malformed (the payload is not what the header says), quota (larger than k_max_image_bytes), alloc_failed
/// @thread  any
Result<Payload> decompress(const Entry& entry);

/// A container, its entries listed. Immutable once made; any thread may read it.
class Image {
public:
    /// Reads what a `code` argument of the driver points at: fatbin wrapper (versions 1 and 2), fatbin, ELF or PTX text. The
    /// size is not told and follows from the headers. The image refers to the caller's memory until own() is called.
    ///
    /// @errors  bad_argument (null), malformed, quota (larger than k_max_image_bytes)
    /// @source  CUDA Driver API 13.0, Module Management, cuModuleLoadData
    static Result<Image> from_pointer(const void* code);

    /// Reads bytes that came from elsewhere: a fatbin, a cubin, PTX text, or the upload form of an image (see parts()). Never
    /// reads outside of them. Refers to them until own() is called.
    static Result<Image> from_bytes(BytesView bytes);

    Image(Image&&) = default;
    Image& operator=(Image&&) = default;
    Image(const Image&) = delete;
    Image& operator=(const Image&) = delete;

    /// Copies the bytes, so that the image no longer refers to the caller's.
    ///
    /// @errors  alloc_failed
    Result<void> own();

    Container container() const { return m_container; }
    /// Found in a wrapper, as compilers put it into programs, where libcudart finds it.
    bool in_wrapper() const { return m_in_wrapper; }
    const std::vector<Entry>& entries() const { return m_entries; }

    /// The container as found, wrapper taken off. A driver's cuModuleLoadData accepts it.
    BytesView bytes() const { return m_parts.front(); }

    /// bytes() and, for -rdc=true images, the relocatable fatbins of the wrapper. Concatenated in this order they are the
    /// upload form: from_bytes() reads it back to an equal image, and a driver that is given it finds bytes() at its start.
    const std::vector<BytesView>& parts() const { return m_parts; }
    uint64_t upload_bytes() const;

    /// The code that NVIDIA's driver takes for a device of compute capability 10 × major + minor: the highest fitting cubin,
    /// else the highest PTX to compile. nullptr: CUDA_ERROR_NO_BINARY_FOR_GPU.
    const Entry* select(uint32_t compute_capability) const;

    /// The PTX that whoever can execute any takes: the lowest architecture that is plain (no sm_90a, no sm_100f) and not above
    /// `compute_capability_max`. Cubins do not count; relocatable PTX does not either. nullptr: there is none.
    ///
    /// @param special_too  without plain PTX, the lowest that is for special architectures will do
    const Entry* select_ptx(uint32_t compute_capability_max, bool special_too = false) const;

    /// What NVIDIA's driver links for such a device of a -rdc=true image whose linked code does not fit it: for each
    /// translation unit what select() would take, in link order. The units of CUDA's own libraries have machine code for every
    /// device and PTX for the newest only. Empty if some unit has nothing for the device, or if the image is not relocatable.
    std::vector<const Entry*> select_linkable(uint32_t compute_capability) const;

    /// The PTX modules of a -rdc=true image to be linked by whoever executes PTX, one per translation unit, in link order.
    /// Empty if some unit has no usable PTX, or if the image is not relocatable.
    std::vector<const Entry*> select_linkable_ptx(uint32_t compute_capability_max, bool special_too = false) const;

private:
    Image() = default;
    static Result<Image> from_wrapper(const void* code);
    Result<void> add_part(BytesView bytes, bool relocatable);
    void set_bare(Container container, BytesView bytes);
    std::vector<const Entry*> select_units(FunctionRef<void(const Entry&, const Entry*&)> take) const;

    Container m_container = Container::fatbin;
    bool m_in_wrapper = false;
    Bytes m_owned;
    std::vector<BytesView> m_parts;
    std::vector<Entry> m_entries;
    std::vector<uint32_t> m_part_of_entry;
};

/// PTX texts that belong together as one image, a fatbin with a translation unit for each, in this order: what the software GPU
/// answers where NVIDIA's driver links a cubin. Texts are PTX; one that says no architecture counts as the oldest.
Bytes make_linked_ptx(const std::vector<std::string>& texts);

/// Reads kernels and globals from a code: a cubin's sections and symbols, or the text of PTX.
///
/// @errors  malformed, quota, unsupported (neither PTX nor cubin)
/// @thread  any
Result<ImageInfo> read_info(const Entry& entry);
Result<ImageInfo> read_cubin_info(BytesView cubin);
Result<ImageInfo> read_ptx_info(std::string_view ptx);

/// The PTX that a cubin was made from, if it was made with line information (-lineinfo, -G): one text, or of a linked cubin
/// those of its units, in their order. Empty if there is none.
///
/// @errors  malformed
/// @thread  any
Result<std::vector<std::string>> read_debug_ptx(BytesView cubin);

}  // namespace warpline::cuda::image
