// SPDX-License-Identifier: Apache-2.0
// Device memory of a rank. A DeviceArray is a handle; the last handle returns the memory to the rank's pool.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "tessera/tensor/literal.h"

namespace tessera {

class DeviceMemory;   // src/runtime/executable/memory.h
class PinnedContent;  // pinned_content.h

/// An array in the device memory of a rank, row-major. It is immutable while several handles share it. If an executable
/// receives the only handle to a donated argument, it writes a result into the memory of the argument.
class DeviceArray {
 public:
  /// A null array.
  DeviceArray() = default;
  /// Allocates an array with undefined content. `type` must be an array.
  static DeviceArray uninitialized(Type type);
  static DeviceArray zeros(Type type);
  /// Copies from the host. Metrics count it as a transfer to the device.
  static DeviceArray from_literal(const Literal& literal);

  /// Copies to the host. Metrics count it as a transfer from the device.
  [[nodiscard]] Literal to_literal() const;
  [[nodiscard]] const Type& type() const { return type_; }
  [[nodiscard]] std::span<const std::byte> bytes() const;
  /// Mutable access, for code that fills a new array.
  [[nodiscard]] std::span<std::byte> mutable_bytes();
  [[nodiscard]] bool is_null() const { return memory_ == nullptr; }
  [[nodiscard]] bool shares_memory_with(const DeviceArray& other) const { return memory_ == other.memory_; }
  /// True if no other array shares the memory.
  [[nodiscard]] bool is_unique() const { return memory_.use_count() == 1; }
  /// Returns the same memory with other dims of the same element count.
  [[nodiscard]] DeviceArray reshaped(Dims dims) const;
  void reset() { memory_.reset(); }

  /// Keeps the present content for another thread, without a copy. Executables may still overwrite the array: they
  /// first copy the bytes that the other thread has not read. The content remains valid after the array is destroyed.
  /// Only the thread of the rank may call this function.
  [[nodiscard]] std::shared_ptr<PinnedContent> pin() const;
  [[nodiscard]] bool is_pinned() const;
  /// Must be called before the memory is overwritten. Calls PinnedContent::preserve() and ends the pin. Returns the
  /// number of copied bytes.
  std::int64_t preserve_pinned() const;

 private:
  Type type_;
  std::shared_ptr<DeviceMemory> memory_;
};

/// Bytes of device memory of the current rank: those in use by arrays and arenas, the most that were in use so far, and
/// those kept for reuse.
struct MemoryInfo {
  std::int64_t used = 0;
  std::int64_t peak = 0;
  std::int64_t pooled = 0;
};
/// Returns these numbers.
MemoryInfo memory_info();

/// Copies the leaves of literals, in pre-order, to arrays.
std::vector<DeviceArray> to_device(const std::vector<Literal>& literals);

}  // namespace tessera
