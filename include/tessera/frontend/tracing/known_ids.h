// SPDX-License-Identifier: Apache-2.0
// Checks of ids, labels and offsets whose values the host has passed. Embeddings and losses call them. Values that a
// program computes are not checked, because that would need a read in every step.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <source_location>
#include <string_view>

#include "tessera/frontend/tracing/node.h"

namespace tessera::detail {

/// The ids that a function accepts: 0..count-1, and `ignored`.
struct IdRange {
  std::string_view function;  // for messages; a literal
  std::string_view what;      // "id" or "label"; a literal
  std::int64_t count = 0;
  std::optional<std::int64_t> ignored{};
};

/// The offsets that a function accepts: the first one is 0, none is less than the one before it, or above `count`.
struct OffsetRange {
  std::string_view function;  // for messages; a literal
  std::int64_t count = 0;     // of the ids
};

/// Records the bounds of integers that the host has passed. Called before their complete value is discarded.
void note_bounds(Node& node);

/// Error if the host has passed an id outside of `range`. In a function that is being compiled, every later call checks
/// the ids that it receives. `tensors` and `where` are for the message.
void check_ids(const Tensor& ids, const IdRange& range, std::initializer_list<const Tensor*> tensors,
               const std::source_location& where);
/// The same for offsets. If the complete value of the offsets was discarded, because they were sharded, only the
/// smallest and the largest one are checked.
void check_offsets(const Tensor& offsets, const OffsetRange& range, std::initializer_list<const Tensor*> tensors,
                   const std::source_location& where);

}  // namespace tessera::detail
