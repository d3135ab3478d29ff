// SPDX-License-Identifier: Apache-2.0
#include "executable/split_world.h"

#include "tessera/base/text.h"

namespace tessera {

std::shared_ptr<ProcessGroup> split_into(ProcessGroup& world, const RankGroups& groups) {
  std::string key;
  for (const auto& group : groups) key += "{" + join(std::vector<std::int64_t>(group.begin(), group.end()), ",") + "}";
  return world.split(groups, key);
}

}  // namespace tessera
