// SPDX-License-Identifier: Apache-2.0
// Gathers small values and texts from all ranks, for checks and messages.
#pragma once

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "tessera/collectives/process_group.h"

namespace tessera {

template <class T>
std::vector<T> gather_from_ranks(ProcessGroup& world, const T& mine, const CollectiveLabel& label = {}) {
  std::vector<T> all(static_cast<std::size_t>(world.size()));
  world.all_gather(std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(all)), label);
  return all;
}

inline std::vector<std::string> gather_texts_from_ranks(ProcessGroup& world, const std::string& mine,
                                                        const CollectiveLabel& label = {}) {
  const auto sizes = gather_from_ranks(world, static_cast<std::uint64_t>(mine.size()), label);
  const std::size_t width = *std::max_element(sizes.begin(), sizes.end());
  std::string padded = mine;
  padded.resize(width);
  std::string all(width * sizes.size(), '\0');
  world.all_gather(std::as_bytes(std::span(padded)), std::as_writable_bytes(std::span(all)), label);
  std::vector<std::string> out;
  for (std::size_t i = 0; i < sizes.size(); ++i) out.push_back(all.substr(i * width, sizes[i]));
  return out;
}

}  // namespace tessera
