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
  if (ids.is_null() || ids.impl().stack) return;
  in_context(range.function, tensors, where, [&] { check_node(*ids.impl().node, range); });
  const std::source_location call = trace().library_call.value_or(where);
  trace().check_at_later_calls(ids, [range, call](const Node& later) {
    in_context(range.function, {}, call, [&] { check_node(later, range); });
  });
}

}  // namespace tessera
