// SPDX-License-Identifier: Apache-2.0
// What a kernel needs while it runs, laid out when it is made: so the plan knows it beforehand.
#pragma once

#include <cstdint>

#include "tessera/base/text.h"
#include "tessera/schedule/schedule.h"

namespace tessera {

/// Parts of a workspace, one behind the other, each at a cache line.
class WorkspaceLayout {
 public:
  /// Gives the offset of a new part.
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
