// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "files/model_files.h"
#include "on_all_ranks.h"
#include "tessera/base/error.h"
#include "tessera/base/files.h"
#include "tessera/base/json_object.h"
#include "tessera/base/text.h"
#include "tessera/checkpoint/pretrained.h"
#include "tessera/checkpoint/regions.h"
#include "tessera/frontend/execution/runtime.h"
#include "tessera/tensor/safetensors.h"

namespace tessera {
namespace {

// The types in files.
std::vector<std::pair<std::string, Type>> exported_types(const StateDict& state) {
  std::vector<std::pair<std::string, Type>> out;
  for (const NamedTensor& entry : state.entries())
    out.emplace_back(entry.name, entry.tensor.type().with_dims(entry.exported_dims));
  return out;
}

void write_own_elements(const StateDict& state, const ModelFile& file, int rank, OutputFile& out) {
  for (std::size_t i = 0; i < file.tensors.size(); ++i) {
    const Tensor tensor = current_value(state.entries()[file.tensors[i]].tensor);
    const StoredShard stored = stored_shard(tensor);
    const auto region = written_region(tensor.type(), stored.sharding, rank);
    if (!region) continue;
    const auto size = static_cast<std::int64_t>(dtype_size(tensor.dtype()));
    const std::uint64_t begin = file.begin_of(i);
    const auto shard =
        RegionBuffer::shard(tensor.type(), stored.sharding, region_of(tensor.type(), stored.sharding, rank));
    for_each_run(*region, shard, RegionBuffer::complete(tensor.type()),
                 [&](std::int64_t from, std::int64_t to, std::int64_t count) {
                   out.write(begin + static_cast<std::uint64_t>(to * size),
                             stored.shard.bytes().subspan(static_cast<std::size_t>(from * size),
                                                          static_cast<std::size_t>(count * size)));
                 });
  }
}

void write_own_files(const StateDict& state, const std::string& folder, const std::vector<ModelFile>& files, int rank) {
  for (const ModelFile& file : files) {
    OutputFile out(partial_path(folder, file), OutputFile::Mode::kExisting);
    write_own_elements(state, file, rank, out);
    out.finish();
  }
}

}  // namespace

void save_state(const StateDict& state, const std::string& folder, const SavePretrainedOptions& options) {
  const auto world = joined_world();
  const std::string what = "cannot save to " + folder;
  for (const NamedTensor& entry : state.entries()) (void)stored_shard(current_value(entry.tensor));  // collective
  const std::vector<ModelFile> files = divide_into_files(exported_types(state), options.max_shard_bytes);
  const bool is_first = world->rank() == 0;
  try {
    on_all_ranks(what, [&] {
      if (is_first) create_files(folder, files);
    });
    on_all_ranks(what, [&] { write_own_files(state, folder, files, world->rank()); });
    on_all_ranks(what, [&] {
      if (is_first) publish_files(folder, files);
    });
  } catch (const Error&) {
    if (is_first) remove_partial_files(folder, files);
    throw;
  }
}

namespace {

// PyTorch's name of the element type to which Hugging Face's libraries convert all parameters when they load them.
std::string torch_dtype_of(const nn::PretrainedModel& model) {
  std::optional<DType> common;
  for (const Tensor& parameter : model.parameters()) {
    const DType dtype = parameter.dtype();
    const bool has_double = dtype == DType::kF64 || common == DType::kF64;
    if (!common || common == dtype)
      common = dtype;
    else
      common = has_double ? DType::kF64 : DType::kF32;  // which have all values of the others
  }
  switch (common.value_or(DType::kF32)) {
    case DType::kF64: return "float64";
    case DType::kF16: return "float16";
    case DType::kBF16: return "bfloat16";
    default: return "float32";
  }
}

}  // namespace

JsonObject config_json(const nn::PretrainedModel& model) {
  JsonObject config = JsonObject::parse(model.config_json(), "config.json");
  config.set("architectures", std::vector<std::string>{std::string(model.class_name())});
  const std::string dtype = torch_dtype_of(model);
  config.set("dtype", dtype);        // transformers 5
  config.set("torch_dtype", dtype);  // earlier versions
  return config;
}

void save_pretrained(const nn::PretrainedModel& model, const std::string& folder,
                     const SavePretrainedOptions& options) {
  save_state(model.state_dict(), folder, options);
  on_all_ranks("cannot save to " + folder, [&] {
    if (joined_world()->rank() == 0) write_document(folder + "/config.json", config_json(model).str());
  });
}

}  // namespace tessera
