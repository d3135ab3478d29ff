// SPDX-License-Identifier: Apache-2.0
#include "checkpoint_blocks.h"

#include <memory>
#include <optional>

#include "tessera/base/error.h"
#include "tessera/frontend/control/checkpoint.h"

namespace tessera::trainer {
namespace {

// The hooks open a checkpoint region before a block and close it after the block.
void checkpoint_calls_of(nn::Module& block) {
  const auto region = std::make_shared<std::optional<detail::CheckpointScope>>();
  const auto where = std::source_location::current();
  block.register_forward_pre_hook([region, where](nn::Module& module, std::vector<Tensor>& /*inputs*/) {
    region->reset();  // of a call that threw
    if (module.is_training()) region->emplace(where);
  });
  block.register_forward_hook(
      [region, where](nn::Module& /*module*/, const std::vector<Tensor>& /*inputs*/, std::vector<Tensor>& outputs) {
        if (!region->has_value()) return;
        region->reset();
        outputs = detail::kept(outputs, where);
      });
}

}  // namespace

void checkpoint_blocks(nn::PretrainedModel& model) {
  bool has_block = false;
  for (const auto& [path, module] : model.named_modules()) {
    if (module->class_name() != model.block_class()) continue;
    checkpoint_calls_of(*module);
    has_block = true;
  }
  require(has_block, "--gradient_checkpointing: {} has no repeated block {}", model.class_name(), model.block_class());
}

}  // namespace tessera::trainer
