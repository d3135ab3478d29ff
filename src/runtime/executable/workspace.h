// SPDX-License-Identifier: Apache-2.0
// The temporary memory of a kernel, laid out when the kernel is created, so that the plan knows its size.
#pragma once

#include <cstdint>

#include "tessera/base/text.h"
#include "tessera/schedule/schedule.h"

namespace tessera {

/// Contiguous parts of a workspace, each aligned to a cache line.
class WorkspaceLayout {
 public:
  /// Returns the offset of a new part.
  std::int64_t add(std::int64_t bytes) {
    const std::int64_t offset = bytes_;
    bytes_ += ceil_div(bytes, kBufferAlignment) * kBufferAlignment;
    return offset;
  }
  [[nodiscard]] std::int64_t bytes() const { return bytes_; }

 private:
  std::int64_t bytes_ = 0;
};

}  // namespace tessera
