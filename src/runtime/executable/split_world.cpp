// SPDX-License-Identifier: Apache-2.0
#include "executable/split_world.h"

#include <fmt/format.h>

#include "tessera/base/text.h"

namespace tessera {

std::shared_ptr<ProcessGroup> split_into(ProcessGroup& world, const RankGroups& groups) {
  std::string key;
  for (const auto& group : groups) key += fmt::format("{{{}}}", fmt::join(group, ","));
  return world.split(groups, key);
}

}  // namespace tessera
