// SPDX-License-Identifier: Apache-2.0
// Models in Hugging Face's folders, with their names and layouts. A folder contains config.json, and model.safetensors
// or several files with model.safetensors.index.json.
//
//   auto model = from_pretrained<nn::LlamaForCausalLM>("llama");    reads no weights yet
//   auto any = from_pretrained("folder");                           the class that config.json names
//   fully_shard(*model, {.mesh = mesh});
//   …                                                               every rank reads its shards at the first use
//   save_pretrained(*model, "trained");
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "tessera/base/json_object.h"
#include "tessera/frontend/tensor/state_dict.h"
#include "tessera/nn/models/registry.h"
#include "tessera/nn/module.h"

namespace tessera {

/// Gives the parameters and buffers of the module the values of the safetensors files in `folder`. A rank reads only
/// the bytes of its shards, when a value is first needed, in the sharding that the variable has then. The files may be
/// deleted after this call. Floats are converted to the element type of the variable. Not collective. Errors: no such
/// folder; only torch's pickle files (the error explains how to convert them); a damaged file or index; names and
/// shapes that do not fit, all in one message. If two tensors are tied in the module, but have different values in the
/// files, ignores one of them and prints a warning.
LoadStateResult load_pretrained(nn::Module& module, const std::string& folder, const LoadStateOptions& options = {});

/// Returns a model with the configuration and the weights in `folder`.
template <class M>
std::unique_ptr<M> from_pretrained(const std::string& folder) {
  auto model = std::make_unique<M>(M::Config::from_file(folder + "/config.json"));
  load_pretrained(*model, folder);
  return model;
}

/// The same for the class that config.json names (nn::model_table()), with parameters of type `dtype`.
std::unique_ptr<nn::PretrainedModel> from_pretrained(const std::string& folder, DType dtype = DType::kF32);
/// The names that the files of a tokenizer have in a model folder: tokenizer.json, merges.txt, vocab.txt, ….
std::span<const std::string_view> tokenizer_file_names();
/// Copies the files of a tokenizer, if the folder `from` has any. Not collective.
void copy_tokenizer(const std::string& from, const std::string& to);

struct SavePretrainedOptions {
  /// A file has at most this size, unless a single tensor is larger.
  std::int64_t max_shard_bytes = 5'000'000'000;
};
/// Writes the state to safetensors files in `folder`, which is created if it does not exist. Collective: every rank
/// writes the elements that it holds, and no rank gathers a tensor. The new files are renamed after all of them are on
/// the disk, so readers see the old or the new files. Error, on all ranks, with the rank and the file that failed.
void save_state(const StateDict& state, const std::string& folder, const SavePretrainedOptions& options = {});
/// The content of config.json.
JsonObject config_json(const nn::PretrainedModel& model);
/// Writes the parameters and buffers with save_state(), and config.json.
void save_pretrained(const nn::PretrainedModel& model, const std::string& folder,
                     const SavePretrainedOptions& options = {});

}  // namespace tessera
