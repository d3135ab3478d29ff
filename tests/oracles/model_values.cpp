// SPDX-License-Identifier: Apache-2.0
// Writes the values of a model in a Hugging Face folder: logits, loss, gradients, and the losses of a training.
//
//   model_values FOLDER INPUTS.safetensors OUTPUTS.safetensors [--train] [--steps N] [--learning_rate R]
//     [--weight_decay W] [--dtype float32|float64] [--mesh M] [--fsdp] [--tensor_parallel AXIS] [--expert_parallel AXIS]
//     [--virtual_ranks N]
//
// INPUTS contains the inputs of forward() by their names. OUTPUTS contains `logits`, `loss` and `gradient.NAME` for each
// parameter, and with --steps the `losses` of N steps of AdamW on the same inputs. --train uses training mode, and adds
// `buffer.NAME` for each buffer after the call. The rows of the inputs are sharded over all axes of the mesh but that of
// --tensor_parallel.
#include <fmt/format.h>

#include <map>

#include "tessera/base/argument_parser.h"
#include "tessera/base/text.h"
#include "tessera/checkpoint/pretrained.h"
#include "tessera/checkpoint/save.h"
#include "tessera/frontend/execution/runtime.h"
#include "tessera/fsdp/fsdp.h"
#include "tessera/optim/optimizer.h"
#include "tessera/tensor/safetensors.h"

namespace tessera {
namespace {

struct Arguments {
  std::string folder, inputs, outputs, mesh, tensor_parallel, expert_parallel, dtype = "float32";
  bool train = false, fsdp = false;
  std::int64_t steps = 0;
  double learning_rate = 1e-3, weight_decay = 0;
};

Arguments parse(int argc, char** argv) {
  Arguments out;
  std::vector<char*> flags{argv[0]};
  std::vector<std::string*> places{&out.folder, &out.inputs, &out.outputs};
  for (int i = 1; i < argc; ++i) {
    if (i <= 3)
      *places[static_cast<std::size_t>(i - 1)] = argv[i];
    else
      flags.push_back(argv[i]);
  }
  ArgumentParser parser("model_values", "Writes the values of a model: model_values FOLDER INPUTS OUTPUTS [flags]");
  parser.flag("train", out.train, "training mode")
      .flag("steps", out.steps, "steps of AdamW")
      .flag("learning_rate", out.learning_rate, "of AdamW")
      .flag("weight_decay", out.weight_decay, "of AdamW")
      .flag("dtype", out.dtype, "of the parameters: float32 or float64")
      .flag("mesh", out.mesh, "the mesh; default: data over all ranks")
      .flag("fsdp", out.fsdp, "shard the blocks as FSDP units")
      .flag("tensor_parallel", out.tensor_parallel, "the axis that shards products")
      .flag("expert_parallel", out.expert_parallel, "the axis that shards the experts of a mixture");
  require(argc >= 4, "usage: model_values FOLDER INPUTS.safetensors OUTPUTS.safetensors [flags]");
  parser.parse(static_cast<int>(flags.size()), flags.data());
  return out;
}

nn::ModelInputs read_inputs(const Arguments& arguments, const Mesh& mesh) {
  SpecEntry rows;
  for (const auto& axis : mesh.axes())
    if (axis.name != arguments.tensor_parallel && axis.size > 1) rows.push_back(axis.name);
  nn::ModelInputs out;
  for (auto& [name, literal] : read_safetensors(arguments.inputs).tensors) {
    const bool is_double = arguments.dtype == "float64" && literal.type().dtype() == DType::kF32;
    Tensor input = Tensor::from_host(std::move(literal));
    if (is_double) input = Tensor::from_host(input.to(DType::kF64).to_host());
    std::vector<PartitionSpec::Entry> spec(static_cast<std::size_t>(input.ndim()));
    spec.front() = PartitionSpec::Entry(rows);
    if (!rows.empty()) mark_sharding(input, mesh, PartitionSpec(std::move(spec)));
    out.emplace(name, std::move(input));
  }
  return out;
}

void shard(const Arguments& arguments, const Mesh& mesh, nn::PretrainedModel& model) {
  if (!arguments.expert_parallel.empty()) {
    auto* const decoder = dynamic_cast<nn::CausalLM*>(&model);
    require(decoder != nullptr, "--expert_parallel needs a mixture of experts; {} is none", model.class_name());
    decoder->shard_experts(mesh, arguments.expert_parallel);
  }
  if (!arguments.tensor_parallel.empty()) model.shard_tensor_parallel(mesh, arguments.tensor_parallel);
  if (!arguments.fsdp) return;
  const auto policy = transformer_auto_wrap_policy({std::string(model.block_class())});
  (void)fully_shard(model, {.mesh = mesh, .auto_wrap_policy = policy});
}

StateDict values_of(nn::PretrainedModel& model, const nn::ModelInputs& inputs) {
  const nn::ModelOutput output = model.run(inputs);
  StateDict out;
  out.add({"logits", output.logits, {}});
  for (const auto& [name, value] : output.others) out.add({name, value, {}});
  if (!output.loss.is_null()) {
    out.add({"loss", output.loss, {}});
    output.loss.backward();
  }
  mark_step();
  for (const NamedTensor& parameter : model.named_parameters())
    if (const Tensor gradient = parameter.tensor.grad(); !gradient.is_null())
      out.add({"gradient." + parameter.name, gradient, parameter.exported_dims});
  if (!model.is_training()) return out;
  for (const NamedTensor& buffer : model.named_buffers())
    out.add({"buffer." + buffer.name, buffer.tensor.detach() + 0.0, buffer.exported_dims});
  return out;
}

Tensor losses_of(const Arguments& arguments, nn::PretrainedModel& model, const nn::ModelInputs& inputs) {
  optim::AdamW optimizer(model.parameters(),
                         {.learning_rate = arguments.learning_rate, .weight_decay = arguments.weight_decay});
  std::vector<double> losses;
  for (std::int64_t step = 0; step < arguments.steps; ++step) {
    optimizer.zero_grad();
    const Tensor loss = model.run(inputs).loss;
    require(!loss.is_null(), "--steps needs labels among the inputs");
    loss.backward();
    optimizer.step();
    mark_step();
    losses.push_back(loss.item());
  }
  return Tensor::from<double>({arguments.steps}, losses);
}

int run(int argc, char** argv) {
  const Runtime runtime(argc, argv);
  const Arguments arguments = parse(argc, argv);
  const Mesh mesh = Mesh::parse(arguments.mesh.empty() ? "data=-1" : arguments.mesh, device_count());
  set_default_mesh(mesh);
  const auto model = from_pretrained(arguments.folder, arguments.dtype == "float64" ? DType::kF64 : DType::kF32);
  model->train(arguments.train);
  shard(arguments, mesh, *model);
  const nn::ModelInputs inputs = read_inputs(arguments, mesh);
  StateDict out = values_of(*model, inputs);
  model->zero_grad();
  if (arguments.steps > 0) out.add({"losses", losses_of(arguments, *model, inputs), {}});
  mark_step();
  save(out, arguments.outputs);
  return 0;
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) { return tessera::launch(argc, argv, tessera::run); }
