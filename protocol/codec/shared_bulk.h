// Parts of payloads that both ends of a session find in memory that they share.
#pragma once

#include <atomic>
#include <optional>

#include "protocol/codec/out_lane.h"

namespace warpline::protocol {

/// How the memory is used: parts to the server lie in slots, those to the client where the server has them.
struct SharedLayout {
    static constexpr size_t k_slots = 64;  ///< one bit of Progress.freedSlots each

    uint64_t to_server_bytes = 0;  ///< at the beginning; 0: there is no shared memory
    uint64_t to_client_bytes = 0;  ///< behind it

    uint64_t total_bytes() const { return to_server_bytes + to_client_bytes; }
    size_t slot_bytes() const { return static_cast<size_t>(to_server_bytes / k_slots); }
    MutableBytesView to_server(MutableBytesView memory) const { return memory.first(to_server_bytes); }
    MutableBytesView to_client(MutableBytesView memory) const {
        return total_bytes() <= memory.size() ? memory.subspan(to_server_bytes, to_client_bytes) : MutableBytesView{};
    }
    /// @errors  malformed: nobody would divide memory so
    static Result<SharedLayout> checked(uint64_t to_server_bytes, uint64_t to_client_bytes);
};

/// The sending side: what a lane's writer asks where the payload of a frame lies.
class SharedOut {
public:
    virtual ~SharedOut() = default;
    /// Where the payload is in the memory of this direction; it is put there if it was elsewhere. Nothing: it has no place
    /// there, and travels as bytes. @thread the lane's writer
    virtual std::optional<uint64_t> place(OutFrame& frame) = 0;
    /// How long parts are best.
    virtual size_t part_bytes() const = 0;
    /// Parts lie there before they are queued: sending one is a few bytes' work.
    virtual bool has_parts_already() const = 0;
    /// False: a part that is sent now has no place there.
    virtual bool has_room() const = 0;
    /// The peer has done with these slots. @errors malformed: it never had one of them @thread any
    virtual Result<void> freed(uint64_t slots) = 0;

    /// In all, placed. @thread any
    uint64_t bytes() const { return m_bytes.load(std::memory_order_relaxed); }
    void count(uint64_t bytes) { m_bytes.fetch_add(bytes, std::memory_order_relaxed); }

private:
    std::atomic<uint64_t> m_bytes{0};
};

/// A client's: copies parts into slots. A slot is the server's from then on, also when the connection is lost (the frame is
/// sent again, and lies there already), until the server says that it has done with it.
class SharedSlots final : public SharedOut {
public:
    explicit SharedSlots(MutableBytesView memory) : m_memory(memory) {}

    std::optional<uint64_t> place(OutFrame& frame) override;
    size_t part_bytes() const override { return m_memory.size() / SharedLayout::k_slots; }
    bool has_parts_already() const override { return false; }
    Result<void> freed(uint64_t slots) override;
    bool has_room() const override { return free_slots() != 0; }
    uint64_t free_slots() const { return m_free.load(std::memory_order_relaxed); }

private:
    const MutableBytesView m_memory;
    std::atomic<uint64_t> m_free{~uint64_t{0}};
};

/// A server's: what is sent lies in shared memory already, and goes back to its owner with the frame, or travels as bytes.
class SharedStaging final : public SharedOut {
public:
    SharedStaging(BytesView memory, size_t part_bytes) : m_memory(memory), m_part_bytes(part_bytes) {}

    std::optional<uint64_t> place(OutFrame& frame) override;
    size_t part_bytes() const override { return m_part_bytes; }
    bool has_parts_already() const override { return true; }
    bool has_room() const override { return true; }
    Result<void> freed(uint64_t slots) override;

private:
    const BytesView m_memory;
    const size_t m_part_bytes;
};

/// A server's receiving side: slots that hold parts until calls have used them. Nothing that the client says of them is
/// believed: whoever names bytes that are in use harms his own.
class SharedArrivals final : public PlaceOwner {
public:
    explicit SharedArrivals(MutableBytesView memory) : m_memory(memory) {}

    MutableBytesView memory() const { return m_memory; }
    /// @param bytes  lie in the memory
    Place place(MutableBytesView bytes) { return {bytes, *this}; }
    void give_back(std::byte* data) override;
    /// What has been given back since the last time, for Progress. @thread any
    uint64_t take_freed() { return m_freed.exchange(0, std::memory_order_acq_rel); }

private:
    const MutableBytesView m_memory;
    std::atomic<uint64_t> m_freed{0};
};

}  // namespace warpline::protocol
