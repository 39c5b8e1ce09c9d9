// Memory of the program's own that kernels use at another address, and what the device is known to have there.
#pragma once

#include <vector>

#include "client/managed/page_region.h"
#include "common/base/bytes.h"

namespace warpline::client {

/// Registered memory (cuMemHostRegister): any bytes, also of a stack. They are compared with what the device is known to have.
struct MirroredRange {
    uint64_t host = 0;
    uint64_t size_bytes = 0;
    uint64_t device = 0;
    AddressRange block;  ///< of the device's memory
    uint64_t context = 0;
    Bytes twin;  ///< what the device had last; empty: nothing yet
    bool is_being_read = false;
    std::vector<AddressRange> written;  ///< to the device while it is being read, by the program's addresses
    uint64_t read_work = 0;             ///< the work after which it was read
    uint64_t changes = 0;               ///< of the twin
    bool read_only = false;             ///< was registered so: what kernels write there the program does not see

    /// A part of the memory that is read only if the device has changed it since.
    struct Asked {
        AddressRange part;  ///< offset and bytes
        uint64_t fingerprint = 0;
    };
    /// Which parts are read in any case: what the device has changed in one of the last readings, and all that is short. The
    /// others are asked about.
    void plan(std::vector<AddressRange>& parts, std::vector<Asked>& asked);
    /// The twin has become another one there.
    void note_written(AddressRange part);
    /// What a reading of this part has found, in whole pieces.
    void note_read(AddressRange part, bool is_changed);
    /// The part as pieces of which note_read() can tell.
    std::vector<AddressRange> pieces_of(AddressRange part) const;

private:
    struct Piece {
        uint64_t fingerprint = 0;
        bool is_known = false;  ///< the fingerprint is that of the twin
        uint8_t readings = 0;   ///< that are to come before it is asked about
    };
    void begin_pieces();
    std::vector<Piece> m_pieces;
};

}  // namespace warpline::client
