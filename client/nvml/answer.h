// What exported functions are made of.
#pragma once

#include <atomic>
#include <cstdint>
#include <initializer_list>
#include <optional>

#include "client/nvml/library.h"
#include "cuda/nvml/sheet.h"

namespace warpline::client::nvml {

/// A device of a snapshot.
struct Known {
    SnapshotPtr snapshot;
    size_t index = 0;
    const protocol::DeviceSheet& sheet() const { return snapshot->devices()[index]; }
    const std::string& uuid() const { return snapshot->uuids[index]; }
};

/// The handle of a device: its place among the server's, for ever.
void* handle_of(size_t index) noexcept;
/// @return success, uninitialized, invalid argument (no handle), GPU is lost (the server has fewer now)
int find_device(void* device, Age age, Known& out) noexcept;

/// What the server's NVML answered to a question. Nothing: it was not asked, or there is no NVML.
std::optional<cuda::nvml::Answer> answer_to(const Known& device, uint16_t question);

/// Writes a text with its end. @return success, invalid argument (no buffer), insufficient size
int give_text(std::string_view text, char* out, uint32_t length) noexcept;

/// The answer to one of `count` questions from the place `first` on, whose inputs are these. Generated entry points are this.
int answer(void* device, size_t first, size_t count, std::initializer_list<uint32_t> inputs,
           std::initializer_list<void*> outputs, uint32_t text_bytes) noexcept;
/// The same of two devices. @param otherwise  the value of the pairs that the server has none of; nothing: that is an error
int answer_pair(void* device, void* other, size_t first, size_t count, std::initializer_list<uint32_t> inputs,
                std::optional<uint32_t> otherwise, uint32_t* output) noexcept;
int answer_system(size_t question, char* text, uint32_t length) noexcept;

/// Not supported, and one line of the log.
int refuse(const char* function, std::atomic<bool>& told) noexcept;

}  // namespace warpline::client::nvml
