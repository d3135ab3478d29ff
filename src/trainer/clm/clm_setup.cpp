// SPDX-License-Identifier: Apache-2.0
// Builds the causal language model of the arguments.
#include <fmt/format.h>

#include <algorithm>

#include "flags/config_overrides.h"
#include "tessera/base/error.h"
#include "tessera/base/files.h"
#include "tessera/base/text.h"
#include "tessera/nn/embedding.h"
#include "tessera/trainer/clm.h"

namespace tessera::trainer {
namespace {

std::int64_t block_size_of(const TrainingArguments& arguments, std::int64_t positions) {
  constexpr std::int64_t kLongestByDefault = 1024;
  if (arguments.block_size == 0) return std::min(positions, kLongestByDefault);
  require(arguments.block_size <= positions, "--block_size {} is more than the {} positions of {}",
          arguments.block_size, positions, arguments.config_file());
  return arguments.block_size;
}

// Attention is sharded by heads.
std::string uneven_heads_note(const TrainingArguments& arguments, const ClmModel& setup) {
  if (arguments.tensor_parallel.empty()) return "";
  const std::int64_t heads = setup.model->shape().key_heads;
  const std::int64_t devices = setup.mesh.full_axis(arguments.tensor_parallel).size;
  const std::int64_t each = ceil_div(heads, devices);
  const std::int64_t idle = devices - ceil_div(heads, each);
  if (heads % devices == 0) return "";
  return fmt::format("{} heads over {} devices of {}: a device computes up to {}, {} compute none", heads, devices,
                     arguments.tensor_parallel, each, idle);
}

}  // namespace

ClmModel make_clm_model(const TrainingArguments& arguments) {
  ClmModel out;
  begin_setup(arguments, out);
  const std::string path = arguments.config_file();
  out.model = nn::make_causal_lm(with_overrides(arguments, read_file(path), path), name_with_overrides(arguments, path),
                                 weight_dtype(arguments), arguments.model_type);
  out.network = out.model.get();
  out.label_smoothing = arguments.label_smoothing_factor;
  out.block_size = block_size_of(arguments, out.model->shape().positions);
  if (!arguments.model_name_or_path.empty()) load_weights(arguments, arguments.model_name_or_path, out);
  if (arguments.neftune_noise_alpha.value_or(0) > 0)
    nn::add_embedding_noise(out.model->input_embedding(), *arguments.neftune_noise_alpha);
  // Experts are sharded before the model is divided into units.
  if (!arguments.expert_parallel.empty()) out.model->shard_experts(out.mesh, arguments.expert_parallel);
  finish_setup(arguments, out);
  if (std::string note = uneven_heads_note(arguments, out); !note.empty()) out.notes.push_back(std::move(note));
  return out;
}

}  // namespace tessera::trainer
