// SPDX-License-Identifier: Apache-2.0
#include "marks.h"

#include <algorithm>

#include "plain.h"
#include "tessera/base/text.h"
#include "tessera/ops/control_flow.h"
#include "tessera/ops/structural.h"

namespace tessera {
namespace {

// Returns the value with sharding marks that carry the annotations of its leaves.
Value with_marks(Value value, const std::vector<Sharding>& leaves, std::size_t& next) {
  if (value.type().is_array()) {
    const Sharding& said = leaves[std::min(next++, leaves.size() - 1)];
    return says_something(said) ? ops::sharding_mark(value, said) : value;
  }
  if (!value.type().is_tuple()) return ++next, value;
  std::vector<Value> elements;
  for (int k = 0; k < isize(value.type().elements()); ++k)
    elements.push_back(with_marks(ops::get_tuple_element(value, k), leaves, next));
  return ops::tuple(*value.builder, elements);
}

}  // namespace

Value marked(Value value, const ShardingRef& sharding) {
  if (!sharding || std::none_of(sharding->begin(), sharding->end(), says_something)) return value;
  std::size_t next = 0;
  return with_marks(value, *sharding, next);
}

}  // namespace tessera
