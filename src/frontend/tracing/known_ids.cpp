// SPDX-License-Identifier: Apache-2.0
#include "tessera/frontend/tracing/known_ids.h"

#include <functional>
#include <span>
#include <utility>

#include "tessera/frontend/tracing/inner.h"
#include "tracing/error_context.h"

namespace tessera {
namespace {

using detail::IdRange;
using detail::KnownElement;
using detail::OffsetRange;

// Returns the two smallest distinct values, or with `order` greater the two largest.
template <class T, class Order>
void note_ends(std::span<const T> values, std::optional<KnownElement>& first, std::optional<KnownElement>& second,
               Order order) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    const KnownElement here{static_cast<std::int64_t>(values[i]),  // NOLINT(bugprone-signed-char-misuse): a number
                            static_cast<std::int64_t>(i)};
    if (!first || order(here.value, first->value)) {
      second = std::exchange(first, here);
    } else if (here.value != first->value && (!second || order(here.value, second->value))) {
      second = here;
    }
  }
}

void check_element(const KnownElement& id, const IdRange& range) {
  require((id.value >= 0 && id.value < range.count) || id.value == range.ignored,
          "{} {} at element {} is not one of 0..{}", range.what, id.value, id.place, range.count - 1);
}

void check_values(const Literal& ids, const IdRange& range) {
  visit_dtype(ids.type().dtype(), [&]<class T>() {
    if constexpr (!is_float(kDTypeOf<T>)) {
      const auto given = ids.data<T>();
      for (std::size_t i = 0; i < given.size(); ++i)
        check_element({static_cast<std::int64_t>(given[i]),  // NOLINT(bugprone-signed-char-misuse): a number
                       static_cast<std::int64_t>(i)},
                      range);
    }
  });
}

// Values outside of the range are the smallest or the largest ones. One of them may be ignored.
void check_node(const Node& ids, const IdRange& range) {
  if (ids.host) return check_values(*ids.host, range);
  for (const auto& end : {ids.bounds.least, ids.bounds.second_least, ids.bounds.most, ids.bounds.second_most})
    if (end) check_element(*end, range);
}

void check_offset(const KnownElement& offset, const OffsetRange& range) {
  require(offset.place > 0 || offset.value == 0, "the first offset must be 0, got {}", offset.value);
  require(offset.value <= range.count, "offset {} at element {} is above {}, the number of ids", offset.value,
          offset.place, range.count);
}

void check_offset_values(const Literal& offsets, const OffsetRange& range) {
  visit_dtype(offsets.type().dtype(), [&]<class T>() {
    if constexpr (!is_float(kDTypeOf<T>)) {
      const auto given = offsets.data<T>();
      std::int64_t before = 0;
      for (std::size_t i = 0; i < given.size(); ++i) {
        const KnownElement here{static_cast<std::int64_t>(given[i]),  // NOLINT(bugprone-signed-char-misuse): a number
                                static_cast<std::int64_t>(i)};
        check_offset(here, range);
        require(here.value >= before, "offset {} at element {} is less than {}, the one before it", here.value,
                here.place, before);
        before = here.value;
      }
    }
  });
}

// The smallest offset must be the first one.
void check_offset_node(const Node& offsets, const OffsetRange& range) {
  if (offsets.host) return check_offset_values(*offsets.host, range);
  if (!offsets.bounds.least || !offsets.bounds.most) return;
  const KnownElement least = *offsets.bounds.least;
  check_offset(least, range);
  require(least.place == 0, "offset {} at element {} is less than the first one", least.value, least.place);
  check_offset(*offsets.bounds.most, range);
}

// Checks the value of a tensor now and, in a function that is being compiled, at every later call.
template <class Check>
void check_value(const Tensor& tensor, std::string_view function, std::initializer_list<const Tensor*> tensors,
                 const std::source_location& where, const Check& check) {
  if (tensor.is_null() || tensor.impl().stack) return;
  in_context(function, tensors, where, [&] { check(*tensor.impl().node); });
  const std::source_location call = trace().library_call.value_or(where);
  trace().check_at_later_calls(
      tensor, [function, check, call](const Node& later) { in_context(function, {}, call, [&] { check(later); }); });
}

}  // namespace

void detail::note_bounds(Node& node) {
  if (!node.is_given || !node.host || node.bounds.least || !is_integer(node.type.dtype()) ||
      is_narrow(node.type.dtype()))
    return;
  visit_dtype(node.host->type().dtype(), [&]<class T>() {
    if constexpr (!is_float(kDTypeOf<T>)) {
      const auto values = node.host->data<T>();
      note_ends(std::span<const T>(values), node.bounds.least, node.bounds.second_least, std::less<>());
      note_ends(std::span<const T>(values), node.bounds.most, node.bounds.second_most, std::greater<>());
    }
  });
}

void detail::check_ids(const Tensor& ids, const IdRange& range, std::initializer_list<const Tensor*> tensors,
                       const std::source_location& where) {
  check_value(ids, range.function, tensors, where, [range](const Node& node) { check_node(node, range); });
}

void detail::check_offsets(const Tensor& offsets, const OffsetRange& range,
                           std::initializer_list<const Tensor*> tensors, const std::source_location& where) {
  check_value(offsets, range.function, tensors, where, [range](const Node& node) { check_offset_node(node, range); });
}

}  // namespace tessera
