// SPDX-License-Identifier: Apache-2.0
#include "executable/absent_world.h"

#include <algorithm>

#include "tessera/base/error.h"
#include "tessera/base/text.h"
#include "tessera/lowering/rank_groups.h"

namespace tessera {
namespace {

[[noreturn]] void refuse(const std::string& name) {
  throw InternalError(fmt::format("{}: this program was compiled for ranks that do not exist, so it cannot run", name));
}

}  // namespace

std::shared_ptr<ProcessGroup> AbsentWorld::split(const std::vector<std::vector<int>>& groups, const std::string& name) {
  const std::vector<int> members = own_group(groups, rank_);
  std::vector<int> nodes;
  if (!nodes_.empty())
    for (const int member : members) nodes.push_back(at(nodes_, member));
  const auto place = std::find(members.begin(), members.end(), rank_) - members.begin();
  return std::make_shared<AbsentWorld>(static_cast<int>(place), isize(members), std::move(nodes), name);
}

void AbsentWorld::all_gather(std::span<const std::byte> /*in*/, std::span<std::byte> /*out*/,
                             const CollectiveLabel& /*label*/) {
  refuse(name_);
}
void AbsentWorld::reduce_scatter(std::span<const std::byte> /*in*/, std::span<std::byte> /*out*/, DType /*dtype*/,
                                 Reduction /*op*/, const CollectiveLabel& /*label*/) {
  refuse(name_);
}
void AbsentWorld::all_reduce(std::span<const std::byte> /*in*/, std::span<std::byte> /*out*/, DType /*dtype*/,
                             Reduction /*op*/, const CollectiveLabel& /*label*/) {
  refuse(name_);
}
void AbsentWorld::all_to_all(std::span<const std::byte> /*in*/, std::span<std::byte> /*out*/,
                             const CollectiveLabel& /*label*/) {
  refuse(name_);
}
void AbsentWorld::permute(std::span<const std::byte> /*in*/, std::span<std::byte> /*out*/,
                          const std::vector<std::pair<int, int>>& /*pairs*/, const CollectiveLabel& /*label*/) {
  refuse(name_);
}
void AbsentWorld::broadcast(std::span<std::byte> /*data*/, int /*root*/, const CollectiveLabel& /*label*/) {
  refuse(name_);
}
void AbsentWorld::barrier(const CollectiveLabel& /*label*/) { refuse(name_); }

}  // namespace tessera
