// SPDX-License-Identifier: Apache-2.0
// Scalars in TensorBoard's event files.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tessera::trainer {

/// The checksum CRC-32C (Castagnoli) of a text.
std::uint32_t crc32c(std::string_view text);

/// An event file: records with a length and checksums, each of which is a protocol buffer of the type Event.
class EventFile {
 public:
  /// Creates DIR/events.out.tfevents.TIME.HOST.PID.0, and the folder. Error if it cannot be written.
  explicit EventFile(const std::string& folder);
  /// Appends an event with scalars. Error if it cannot be written.
  void write(std::int64_t step, const std::vector<std::pair<std::string, double>>& scalars);
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace tessera::trainer
