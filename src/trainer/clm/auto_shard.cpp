// SPDX-License-Identifier: Apache-2.0
#include "clm/auto_shard.h"

#include <fmt/format.h>

#include <span>

#include "tessera/base/error.h"
#include "tessera/base/memory_limit.h"
#include "tessera/base/options.h"
#include "tessera/base/text.h"
#include "tessera/frontend/execution/runtime.h"
#include "tessera/trainer/layout_search.h"

namespace tessera::trainer {
namespace {

// What rank 0 tells the others.
struct Found {
  Layout layout;
  bool fits = true;
  double seconds = 0;
  std::int64_t peak_bytes = 0;
};

Found search(const TrainingArguments& arguments, std::int64_t devices) {
  LayoutSearchOptions wanted;
  wanted.arguments = arguments;
  wanted.devices = devices;
  wanted.machine = MachineModel::load(arguments.auto_shard);
  const std::string& limit = options().text("TESSERA_MEMORY_LIMIT");
  if (!limit.empty() && limit != "0") wanted.memory = parse_bytes(limit, "TESSERA_MEMORY_LIMIT");
  const LayoutPlan best = find_layouts(wanted).front();
  return {best.layout, best.fits, best.cost.seconds, best.cost.peak_bytes};
}

}  // namespace

TrainingArguments with_best_layout(TrainingArguments arguments) {
  const std::int64_t devices = device_count();
  // The same batch for all meshes.
  if (!arguments.global_batch_size) arguments.global_batch_size = arguments.micro_batch_rows(devices);
  arguments.per_device_train_batch_size.reset();
  const auto world = joined_world();
  Found found;
  if (world->rank() == 0) found = search(arguments, devices);
  if (world->size() > 1) world->broadcast(std::as_writable_bytes(std::span(&found, 1)), 0, {0, "the best layout"});
  const auto memory = format_bytes(static_cast<double>(found.peak_bytes));
  require(found.fits,
          "--auto_shard: no layout fits into TESSERA_MEMORY_LIMIT={}; the least memory of a rank is {}, with {}",
          options().text("TESSERA_MEMORY_LIMIT"), memory, found.layout.flags());
  const bool recompute = arguments.gradient_checkpointing;
  found.layout.apply_to(arguments);
  arguments.gradient_checkpointing |= recompute;
  arguments.notes.push_back(
      fmt::format("--auto_shard {} chose {}, planned with {:.4g} ms for a micro-batch and {} of memory",
                  arguments.auto_shard, found.layout.flags(), 1e3 * found.seconds, memory));
  arguments.auto_shard.clear();  // as if the user had given the mesh
  return arguments;
}

}  // namespace tessera::trainer
