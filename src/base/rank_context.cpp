// SPDX-License-Identifier: Apache-2.0
#include "tessera/base/rank_context.h"

#include "tessera/base/error.h"

namespace tessera {
namespace {
thread_local RankContext* current_context = nullptr;
}  // namespace

std::size_t RankContext::new_slot() {
  static std::atomic<std::size_t> next{0};
  const std::size_t slot = next++;
  ensure(slot < kMostTypes, "a rank context holds objects of at most {} types", kMostTypes);
  return slot;
}

RankContext& RankContext::current() {
  if (current_context != nullptr) return *current_context;
  static thread_local RankContext alone(0, 1);
  return alone;
}

RankContext* RankContext::exchange_current(RankContext* context) {
  RankContext* previous = current_context;
  current_context = context;
  return previous;
}

}  // namespace tessera
