// SPDX-License-Identifier: Apache-2.0
// Puts a model on a mesh and makes its optimizer, as the arguments specify.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <regex>

#include "checkpoint_blocks.h"
#include "tessera/base/error.h"
#include "tessera/base/files.h"
#include "tessera/base/json_object.h"
#include "tessera/base/options.h"
#include "tessera/base/rank_context.h"
#include "tessera/base/text.h"
#include "tessera/checkpoint/pretrained.h"
#include "tessera/frontend/execution/runtime.h"
#include "tessera/frontend/sharding/mark_sharding.h"
#include "tessera/optim/factory.h"
#include "tessera/trainer/parameter_groups.h"
#include "tessera/trainer/task.h"

namespace tessera::trainer {

Mesh mesh_of(const TrainingArguments& arguments) {
  const std::string text = arguments.mesh_or_default();
  if (!arguments.dry_run) {
    try {
      return Mesh::parse(text, device_count());
    } catch (Error& error) {  // about the number of ranks: check() has already checked the text
      throw error.prefix(arguments.what_gave("mesh") + ": ")
          .note("  mpirun -np N and --virtual_ranks N create N ranks; --dry_run plans for any mesh without them");
    }
  }
  const bool is_open = text.find("=-1") != std::string::npos;
  Mesh mesh = Mesh::parse(text, is_open ? device_count() : 0);
  plan_for_devices(mesh.device_count());
  return mesh;
}

namespace {

WrapPolicy wrap_policy(const FsdpConfig& config, nn::Module& model) {
  if (!config.wraps)
    return [](const nn::Module& /*module*/, bool /*recurse*/, std::int64_t /*parameters*/) { return false; };
  if (config.min_num_params > 0) return size_based_auto_wrap_policy(config.min_num_params);
  if (config.transformer_layer_cls_to_wrap.empty()) return {};
  const std::set<std::string> classes(config.transformer_layer_cls_to_wrap.begin(),
                                      config.transformer_layer_cls_to_wrap.end());
  check_classes(model, classes);
  return transformer_auto_wrap_policy(classes);
}

std::optional<DType> named_dtype(std::string_view name) {
  if (name.empty()) return std::nullopt;
  return name == "bfloat16" ? DType::kBF16 : name == "float16" ? DType::kF16 : DType::kF32;
}

// Nullopt: that of the weights. check_fsdp_config() refuses contradictions.
std::optional<DType> compute_dtype(const TrainingArguments& arguments, const FsdpConfig& config) {
  if (arguments.bf16 || config.compute_dtype == "bfloat16") return DType::kBF16;
  if (arguments.fp16 || config.compute_dtype == "float16") return DType::kF16;
  return std::nullopt;
}

// The modules whose complete names match one of the patterns.
std::vector<const nn::Module*> ignored_modules(const FsdpConfig& config, nn::Module& model) {
  const auto modules = model.named_modules();
  std::vector<const nn::Module*> out;
  for (const std::string& pattern : config.ignored_modules) {
    const std::size_t before = out.size();
    const std::regex matches(pattern);
    for (const auto& [path, module] : modules)
      if (std::regex_match(path, matches)) out.push_back(module);
    require(
        out.size() > before, "{}: no module has a name that matches \"{}\"",
        [&] { return config.what_gave("ignored_modules"); }, pattern);
  }
  return out;
}

// Every rank finds its place in the groups, because the configuration is the same for all ranks.
void set_groups(const FsdpConfig& config, FsdpOptions& options) {
  if (config.sharding_groups.empty()) return;
  options.sharding_groups = config.sharding_groups;
  options.sharding_rank = 0;
  options.sharding_world_size = isize(config.sharding_groups.front());
  const int rank = RankContext::current().rank();
  for (const auto& group : config.sharding_groups) {
    const auto place = std::find(group.begin(), group.end(), rank);
    if (place == group.end()) continue;
    options.sharding_rank = place - group.begin();
    options.sharding_world_size = isize(group);
  }
}

FsdpOptions fsdp_options(const FsdpMode& mode, const FsdpConfig& config, const TrainingSetup& setup) {
  FsdpOptions out;
  out.mesh = setup.mesh;
  out.auto_wrap_policy = wrap_policy(config, *setup.network);
  out.ignored_modules = ignored_modules(config, *setup.network);
  out.shard_param_on_dim_0 = config.shard_param_on_dim_0;
  out.disable_reshard_on_root = config.disable_reshard_on_root;
  out.debug = config.debug;
  out.reshard_after_forward = config.reshard_after_forward.value_or(mode.reshard_after_forward);
  // Gradients that are computed in float32 are already reduced in it.
  out.mixed_precision.param_dtype = setup.compute_dtype;
  if (setup.compute_dtype) out.mixed_precision.reduce_dtype = named_dtype(config.reduce_dtype);
  out.buffer_dtype = named_dtype(config.buffer_dtype);
  set_groups(config, out);
  return out;
}

// Shards the model before it is divided into units, because FSDP's axis must be minor to the tensor-parallel axes.
void shard(const TrainingArguments& arguments, const FsdpConfig& config, TrainingSetup& out) {
  const FsdpMode mode = parse_fsdp_mode(arguments.fsdp);
  if (mode.offload) out.notes.emplace_back("--fsdp: offload has no effect: weights already are in host memory");
  out.notes.insert(out.notes.end(), config.notes.begin(), config.notes.end());
  require(mode.enabled || arguments.fsdp_config.empty(), "--fsdp_config needs --fsdp");
  if (arguments.gradient_checkpointing || config.activation_checkpointing) checkpoint_blocks(*out.network);
  out.compute_dtype = compute_dtype(arguments, config);
  if (out.compute_dtype) out.network->set_compute_dtype(*out.compute_dtype);
  if (!arguments.tensor_parallel.empty()) out.network->shard_tensor_parallel(out.mesh, arguments.tensor_parallel);
  if (arguments.full_determinism) {
    reduce_gradients_at_once(*out.network);
    options().set("TESSERA_PARTITION_SEARCH", "0");  // every mesh shards the rows of the batch, and nothing else
  }
  if (mode.enabled) out.units = fully_shard(*out.network, fsdp_options(mode, config, out));
}

// `--fsdp hybrid_shard`, and HYBRID_SHARD in --fsdp_config, replicate over one axis and shard over another.
std::string hybrid_note(const TrainingArguments& arguments, const FsdpConfig& config, const Mesh& mesh) {
  const FsdpMode mode = parse_fsdp_mode(arguments.fsdp);
  const bool is_of_config = config.hybrid.value_or(false);
  const auto is_sharded_over = [&](const char* name) { return mesh.has_axis(name) && mesh.full_axis(name).size > 1; };
  if (!mode.enabled || !(mode.hybrid || is_of_config)) return "";
  if (is_sharded_over("data") && is_sharded_over("fsdp")) return "";
  const bool reshards = config.reshard_after_forward.value_or(mode.reshard_after_forward).reshards();
  return fmt::format(
      "{} shards over fsdp and replicates over data, and {} does not have both axes, so this is {}; --mesh "
      "data=2,fsdp=-1 gives two replicas",
      is_of_config ? config.what_gave("hybrid") : "--fsdp " + arguments.fsdp, mesh.str(),
      reshards ? "full_shard" : "shard_grad_op");
}

// Names the axes that shard neither batches nor weights.
std::string unused_axes_note(const TrainingArguments& arguments, const TrainingSetup& setup) {
  std::vector<std::string> unused;
  for (const auto& axis : setup.mesh.axes()) {
    const bool has_rows = std::find(setup.data_axes.begin(), setup.data_axes.end(), axis.name) != setup.data_axes.end();
    if (axis.size > 1 && !has_rows && axis.name != arguments.tensor_parallel && axis.name != arguments.spatial_sharding)
      unused.push_back(axis.name);
  }
  if (unused.empty()) return "";
  return fmt::format(
      "nothing is sharded over {} of {}, so its ranks do the same work; batches are sharded over data and fsdp, "
      "weights over the axis of --tensor_parallel",
      fmt::join(unused, ", "), setup.mesh.str());
}

std::unique_ptr<optim::Optimizer> make_optimizer(const TrainingArguments& arguments, const nn::Module& model) {
  optim::OptimizerSettings settings{.learning_rate = arguments.learning_rate,
                                    .beta1 = arguments.adam_beta1,
                                    .beta2 = arguments.adam_beta2,
                                    .epsilon = arguments.adam_epsilon};
  settings.arguments = arguments.optim_args;
  if (arguments.optim == "sgd" && arguments.momentum > 0 && settings.arguments.find("momentum") == std::string::npos)
    settings.arguments += fmt::format("{}momentum={}", settings.arguments.empty() ? "" : ",", arguments.momentum);
  return optim::make_optimizer(arguments.optim, parameter_groups(model, arguments.weight_decay), settings);
}

}  // namespace

void begin_setup(const TrainingArguments& arguments, TrainingSetup& out) {
  out.mesh = mesh_of(arguments);
  set_default_mesh(out.mesh);
  manual_seed(static_cast<std::uint64_t>(arguments.seed));
  for (const auto& axis : out.mesh.axes()) {
    if (axis.name != "data" && axis.name != "fsdp" && axis.name != arguments.expert_parallel) continue;
    out.data_axes.push_back(axis.name);
    out.data_shards *= axis.size;
  }
}

void finish_setup(const TrainingArguments& arguments, TrainingSetup& out) {
  out.notes.insert(out.notes.end(), arguments.notes.begin(), arguments.notes.end());
  if (arguments.expected_ranks > 0 && arguments.expected_ranks != device_count())
    out.notes.push_back(
        fmt::format("{}: num_processes {} has no effect: there are {} ranks, as mpirun -np or --virtual_ranks says",
                    arguments.accelerate_config, arguments.expected_ranks, device_count()));
  const FsdpConfig config = FsdpConfig::of(arguments);
  shard(arguments, config, out);
  for (std::string& note : std::vector{hybrid_note(arguments, config, out.mesh), unused_axes_note(arguments, out)})
    if (!note.empty()) out.notes.push_back(std::move(note));
  out.optimizer = make_optimizer(arguments, *out.network);
  if (out.compute_dtype == DType::kF16) out.scaler = std::make_unique<optim::GradScaler>();
  if (std::string note = out.optimizer->note(); !note.empty()) out.notes.push_back(std::move(note));
}

DType weight_dtype(const TrainingArguments& arguments) {
  return arguments.dtype == "float64" ? DType::kF64 : DType::kF32;
}

LoadStateResult load_weights(const TrainingArguments& arguments, const std::string& folder, TrainingSetup& out,
                             const LoadStateOptions& options) {
  LoadStateResult result = load_pretrained(*out.network, folder, options);
  const bool is_new = arguments.do_train && arguments.resume_from_checkpoint.empty();
  if (result.converted_from.empty() || !is_new) return result;
  std::vector<std::string_view> types;
  for (const DType type : result.converted_from) types.push_back(dtype_name(type));
  out.notes.push_back(fmt::format("the weights in {} are {}; this run trains and saves them as {}", folder,
                                  fmt::join(types, " and "), dtype_name(weight_dtype(arguments))));
  return result;
}

data::InputSharding batch_sharding(const TrainingSetup& setup) {
  if (setup.data_shards == 1) return {};
  return PartitionSpec(std::vector{PartitionSpec::Entry(SpecEntry(setup.data_axes))});
}

data::LoaderOptions train_loader_options(const TrainingArguments& arguments, const TrainingSetup& setup,
                                         std::int64_t rows) {
  data::LoaderOptions out{
      .batch_size = rows,
      .seed = static_cast<std::uint64_t>(arguments.data_seed.value_or(arguments.seed)),
      .shuffle = true,
      .drop_last = arguments.dataloader_drop_last,
      .num_workers = static_cast<int>(arguments.dataloader_num_workers),
      .mesh = setup.mesh,
      .input_sharding = batch_sharding(setup),
  };
  if (arguments.dataloader_prefetch_factor)
    out.prefetch_factor = static_cast<int>(*arguments.dataloader_prefetch_factor);
  return out;
}

Tensor place_rows(const TrainingSetup& setup, Tensor batch) {
  if (setup.data_shards == 1 || batch.sharding()) return batch;
  std::vector<PartitionSpec::Entry> spec(static_cast<std::size_t>(batch.ndim()));
  spec.front() = PartitionSpec::Entry(SpecEntry(setup.data_axes));
  mark_sharding(batch, setup.mesh, PartitionSpec(std::move(spec)));
  return batch;
}

BatchTensors::BatchTensors(const data::Batch& batch) {
  for (const data::Batch::Field& field : batch.fields) {
    names_.push_back(field.name);
    tensors_.push_back(batch.tensor(field.name));
    tensors_.back().set_name(field.name);
  }
}

BatchTensors BatchTensors::abstract(const data::Batch& batch) {
  BatchTensors out;
  for (const data::Batch::Field& field : batch.fields) {
    Tensor tensor = Tensor::abstract(field.type, field.name);
    if (!Sharding::from_spec(batch.mesh, field.spec, field.type.ndim()).is_replicated())
      mark_sharding(tensor, batch.mesh, field.spec);
    out.names_.push_back(field.name);
    out.tensors_.push_back(std::move(tensor));
  }
  return out;
}

data::Batch abstract_batch(const TrainingSetup& setup, const data::InputSharding& sharding, const data::Arrays& sample,
                           std::int64_t rows, const data::Collator* collator) {
  const data::StackCollator stack;
  // Without real rows, a collator uses only the names and types of the sample.
  data::RowsToMake one;
  one.rows = 1;
  if (const Type& type = sample.entries().front().second.type(); type.ndim() > 0) one.longest = type.dim(0);
  const data::Arrays arrays = (collator != nullptr ? *collator : stack).collate({sample}, one);
  data::Batch out;
  out.mesh = setup.mesh;
  out.rows = out.real_rows = rows;
  for (const auto& [name, row] : arrays.entries()) {
    Dims dims = row.type().dims();
    dims.front() = rows;
    const Type type = Type::array(row.type().dtype(), dims);
    out.fields.push_back({name, type, sharding.spec_of(name, type.ndim()), {}});
  }
  return out;
}

BatchTensors BatchTensors::with(const std::vector<Tensor>& tensors) const {
  BatchTensors out;
  out.names_ = names_;
  out.tensors_.assign(tensors.begin(), tensors.begin() + isize(names_));
  return out;
}

bool BatchTensors::has(std::string_view name) const {
  return std::find(names_.begin(), names_.end(), name) != names_.end();
}

Tensor BatchTensors::tensor(std::string_view name) const {
  const auto it = std::find(names_.begin(), names_.end(), name);
  require(it != names_.end(), "the batch has no array {}{}", name, [&] { return suggest_name(name, names_); });
  return tensors_[static_cast<std::size_t>(it - names_.begin())];
}

Tensor input_of(const TrainingSetup& setup, const BatchTensors& batch, std::string_view name) {
  Tensor out = batch.tensor(name);
  out.set_name(std::string(name));
  return place_rows(setup, out);
}

std::unique_ptr<data::Loader> make_train_loader(const TrainingArguments& arguments,
                                                std::shared_ptr<const data::Source> samples,
                                                data::LoaderOptions options) {
  if (arguments.max_train_samples)
    samples = std::make_shared<FirstSamples>(std::move(samples), *arguments.max_train_samples);
  options.shuffle = arguments.train_sampling_strategy != "sequential";
  options.group_by_length = arguments.train_sampling_strategy == "group_by_length";
  return std::make_unique<data::Loader>(std::move(samples), std::move(options));
}

}  // namespace tessera::trainer
