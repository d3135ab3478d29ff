// SPDX-License-Identifier: Apache-2.0
// Device memory of a rank. A DeviceArray is a cheap handle; its memory returns to the rank's pool with the last handle.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "tessera/tensor/literal.h"

namespace tessera {

class DeviceMemory;  // src/runtime/memory.h

/// An array in a rank's device memory, row-major. Immutable while shared; an executable that takes the only handle of a donated
/// argument writes a result into its memory.
class DeviceArray {
 public:
  /// No array.
  DeviceArray() = default;
  /// Undefined content. `type` is an array.
  static DeviceArray uninitialized(Type type);
  static DeviceArray zeros(Type type);
  /// Copies from the host; counted as a transfer to the device.
  static DeviceArray from_literal(const Literal& literal);

  /// Copies to the host; counted as a transfer from the device.
  [[nodiscard]] Literal to_literal() const;
  [[nodiscard]] const Type& type() const { return type_; }
  [[nodiscard]] std::span<const std::byte> bytes() const;
  /// For whoever fills a fresh array.
  [[nodiscard]] std::span<std::byte> mutable_bytes();
  [[nodiscard]] bool is_null() const { return memory_ == nullptr; }
  [[nodiscard]] bool shares_memory_with(const DeviceArray& other) const { return memory_ == other.memory_; }
  /// No other array shares the memory, which nothing but arrays holds.
  [[nodiscard]] bool is_unique() const { return memory_.use_count() == 1; }
  /// The same memory under other dims of the same count.
  [[nodiscard]] DeviceArray reshaped(Dims dims) const;
  void reset() { memory_.reset(); }

 private:
  Type type_;
  std::shared_ptr<DeviceMemory> memory_;
};

/// Bytes of the current rank's device memory: in arrays and arenas, the most so far, and kept for reuse.
struct MemoryInfo {
  std::int64_t used = 0;
  std::int64_t peak = 0;
  std::int64_t pooled = 0;
};
MemoryInfo memory_info();

/// Arrays from the leaves of literals, in pre-order, and back.
std::vector<DeviceArray> to_device(const std::vector<Literal>& literals);

}  // namespace tessera
