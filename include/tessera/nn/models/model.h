// SPDX-License-Identifier: Apache-2.0
// Interfaces of models that Hugging Face's folders describe. They have a configuration and named inputs and outputs.
// Language models also have the functions that training and generation need.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "tessera/frontend/sharding/mark_sharding.h"
#include "tessera/frontend/tensor/functions.h"
#include "tessera/nn/activation_sharding.h"
#include "tessera/nn/generation/key_value_cache.h"
#include "tessera/nn/module.h"

namespace tessera::nn {

class Embedding;

/// Tensors by the names of Hugging Face's forward(): input_ids, attention_mask, labels, pixel_values, ….
using ModelInputs = std::map<std::string, Tensor, std::less<>>;
/// The results of a model.
struct ModelOutput {
  Tensor loss;  // null without labels
  Tensor logits;
  std::map<std::string, Tensor, std::less<>> others{};  // further results by Hugging Face's names
};
/// Returns the input `name`, or a null tensor.
Tensor input_of(const ModelInputs& inputs, std::string_view name);
/// Error, with the nearest known name, if there is an input that is not in `known`; error if one of `needed` is
/// missing.
void check_inputs(std::string_view model, const ModelInputs& inputs, const std::vector<std::string>& needed,
                  const std::vector<std::string>& optional);

/// A model that from_pretrained() makes and save_pretrained() writes.
class PretrainedModel : public Module {
 public:
  /// The text of config.json.
  [[nodiscard]] virtual std::string config_json() const = 0;
  /// Calls the model with named inputs. Errors: an input that the model does not have; a required input is missing.
  virtual ModelOutput run(const ModelInputs& inputs) = 0;
  /// The class of the repeated block. By default, each block is an FSDP unit.
  [[nodiscard]] virtual std::string_view block_class() const = 0;
  /// Shards the products of the model over an axis. Error unless the model overrides it.
  virtual void shard_tensor_parallel(const Mesh& mesh, const std::string& axis);
};

/// The sizes of a causal language model.
struct CausalShape {
  std::string_view family;  // GPT-2
  std::int64_t layers = 0;
  std::int64_t width = 0;
  std::int64_t heads = 0;
  std::int64_t key_heads = 0;  // the number of groups of heads that share keys
  std::int64_t head_size = 0;
  std::int64_t vocabulary = 0;
  std::int64_t positions = 0;
};
/// Inputs in addition to the tokens.
struct CausalInputs {
  Tensor attention_mask{};  // [b, t]: 0 for padding, to which no position attends; null: no padding
  Tensor position_ids{};    // integers [b, t], or [1, t] for all texts; null: 0 … t - 1
};
/// Error unless the inputs have these dims for tokens [b, t].
void check_causal_inputs(const Tensor& tokens, const CausalInputs& inputs);
/// Booleans [b, 1, 1, t]: true for the keys whose attention_mask [b, t] is not 0. Null for a null mask.
Tensor seen_keys(const Tensor& attention_mask);

/// The sum of the losses and the number of labels. Training adds `auxiliary`, a scalar that includes its coefficient,
/// to the mean of a batch. It is null if the model has no such loss.
struct CausalLossParts : CrossEntropyParts {
  Tensor auxiliary{};
};

/// A language model that predicts the next token.
class CausalLM : public PretrainedModel {
 public:
  [[nodiscard]] virtual CausalShape shape() const = 0;
  /// Shards the experts of a mixture over an axis. Error unless the model overrides it.
  virtual void shard_experts(const Mesh& mesh, const std::string& axis);
  /// s32 or s64 [b, t] -> [b, t, vocabulary].
  Tensor logits(const Tensor& tokens, const CausalInputs& inputs = {});
  /// The mean cross entropy of predicting labels[.., i + 1] from tokens[.., 0..i], plus the auxiliary loss. Labels of
  /// -100 are ignored.
  Tensor forward(const Tensor& tokens, const Tensor& labels);
  /// The parts of this loss. Smooths labels as cross_entropy_parts() does.
  CausalLossParts loss_parts(const Tensor& tokens, const Tensor& labels, const CausalInputs& inputs = {},
                             double label_smoothing = 0);
  /// The embedding of the tokens. Error unless the model overrides it.
  [[nodiscard]] virtual Embedding& input_embedding();
  /// Takes input_ids. Optional inputs are labels, attention_mask and position_ids.
  ModelOutput run(const ModelInputs& inputs) override;

  // ---- generation (tessera/nn/generation/generate.h) ----------------------------------------------------------------

  /// Adds the tokens ids s32 [batch, time] to the cache. Returns the logits of the last token of each text: [batch,
  /// vocabulary]. Error unless the model overrides it.
  virtual Tensor step(const Tensor& ids, const StepPlace& place, KeyValueCache& cache);
  /// Error unless the model overrides it.
  [[nodiscard]] virtual CacheSizes cache_sizes() const;
  /// The axis over which the heads are sharded, if there is one. The cache is sharded in the same way.
  [[nodiscard]] virtual std::optional<ActivationSharding> head_sharding() const { return std::nullopt; }

 protected:
  struct Output {
    Tensor logits;
    Tensor auxiliary{};
  };
  /// Traces the model. Called within its trace scope.
  virtual Output compute(const Tensor& tokens, const CausalInputs& inputs) = 0;

 private:
  Output traced(const Tensor& tokens, const CausalInputs& inputs);
};

}  // namespace tessera::nn
