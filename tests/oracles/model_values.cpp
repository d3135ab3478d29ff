// SPDX-License-Identifier: Apache-2.0
// The tool of the oracles of models: logits, loss, gradients and losses of training steps.
//
//   model_values --model FOLDER --inputs IN.safetensors --out OUT.safetensors [--train] [--steps N …] [--mesh M …]
//
// FOLDER has config.json and model.safetensors. IN has the inputs by the names of Hugging Face's forward(). OUT gets
// `logits`, `loss`, `gradient.NAME` with the names and shapes of files, and with --steps `losses`. With --train the model is in
// training mode, and OUT gets the buffers after the call as `buffer.NAME`.
#include <cstdio>

#include "tessera/base/argument_parser.h"
#include "tessera/base/text.h"
#include "tessera/checkpoint/pretrained.h"
#include "tessera/tensor/safetensors.h"
#include "tessera/tessera.h"

namespace ts = tessera;

namespace {

struct Flags {
  std::string model, inputs, out, mesh, tensor_parallel;
  bool train = false;
  bool fsdp = false;
  std::int64_t steps = 0;
  double learning_rate = 1e-3;
  double weight_decay = 0.01;
  std::int64_t virtual_ranks = 0;  // launch() reads it
};

// Rows over the axes data and fsdp; image rows over `rows`.
void place(const ts::Tensor& x, const ts::Mesh& mesh) {
  ts::SpecEntry batch;
  for (const auto& axis : mesh.axes())
    if (axis.name == "data" || axis.name == "fsdp") batch.push_back(axis.name);
  std::vector<ts::PartitionSpec::Entry> entries(static_cast<std::size_t>(x.ndim()));
  if (!batch.empty()) entries.front() = ts::PartitionSpec::Entry(batch);
  if (x.ndim() == 4 && mesh.has_axis("rows")) entries[2] = ts::PartitionSpec::Entry("rows");
  ts::mark_sharding(x, mesh, ts::PartitionSpec(std::move(entries)));
}

ts::nn::ModelInputs read_inputs(const Flags& flags, const ts::Mesh& mesh) {
  ts::nn::ModelInputs out;
  for (auto& [name, value] : ts::read_safetensors(flags.inputs).tensors) {
    const ts::Tensor tensor = ts::Tensor::from_host(std::move(value));
    place(tensor, mesh);
    out.emplace(name, tensor);
  }
  return out;
}

// The same elements with the dims of files.
ts::Literal exported(const ts::Literal& value, const ts::Dims& dims) {
  ts::Literal out(ts::Type::array(value.type().dtype(), dims));
  std::copy(value.bytes().begin(), value.bytes().end(), out.mutable_bytes().begin());
  return out;
}

void add_gradients(ts::nn::PretrainedModel& model, ts::SafetensorsFile& file) {
  for (const auto& [name, tensor, dims] : model.named_parameters())
    if (!tensor.grad().is_null())
      file.tensors.emplace_back("gradient." + name, exported(tensor.grad().to_host(), dims));
  model.zero_grad();
}

ts::Literal losses_of_steps(const Flags& flags, ts::nn::PretrainedModel& model, const ts::Mesh& mesh) {
  ts::optim::AdamW optimizer(
      {{model.parameters(), flags.weight_decay}},
      ts::optim::AdamWOptions{.learning_rate = flags.learning_rate, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8});
  std::vector<double> losses;
  for (std::int64_t step = 0; step < flags.steps; ++step) {
    const ts::Tensor loss = model.run(read_inputs(flags, mesh)).loss;
    loss.backward();
    optimizer.step();
    optimizer.zero_grad();
    ts::mark_step();
    losses.push_back(loss.item());
  }
  return ts::Literal::from<double>({ts::isize(losses)}, losses);
}

int compute(int argc, char** argv) {
  const ts::Runtime runtime(argc, argv);
  Flags flags;
  ts::ArgumentParser parser("model_values", "Writes logits, loss, gradients and losses of training steps of a model.");
  parser.flag("model", flags.model, "folder with config.json and model.safetensors")
      .flag("inputs", flags.inputs, "safetensors file")
      .flag("out", flags.out, "safetensors file")
      .flag("train", flags.train, "in training mode")
      .flag("steps", flags.steps, "training steps with AdamW")
      .flag("learning_rate", flags.learning_rate, "of AdamW")
      .flag("weight_decay", flags.weight_decay, "of AdamW, for all parameters")
      .flag("mesh", flags.mesh, "rows over data and fsdp, image rows over rows")
      .flag("tensor_parallel", flags.tensor_parallel, "axis")
      .flag("fsdp", flags.fsdp, "shard the parameters over the axis fsdp")
      .flag("virtual_ranks", flags.virtual_ranks, "run this many ranks as threads of this process");
  if (!parser.parse(argc, argv)) return 2;
  const ts::Mesh mesh = ts::Mesh::parse(flags.mesh.empty() ? "data=-1" : flags.mesh, runtime.rank_count());
  ts::set_default_mesh(mesh);
  const auto model = ts::from_pretrained(flags.model);
  model->train(flags.train);
  if (!flags.tensor_parallel.empty()) model->shard_tensor_parallel(mesh, flags.tensor_parallel);
  if (flags.fsdp) ts::fully_shard(*model, {.mesh = mesh});

  const ts::nn::ModelOutput output = model->run(read_inputs(flags, mesh));
  if (!output.loss.is_null()) output.loss.backward();
  ts::mark_step();
  ts::SafetensorsFile file;
  file.tensors.emplace_back("logits", output.logits.to_host());
  for (const auto& [name, tensor] : output.others) file.tensors.emplace_back(name, tensor.to_host());
  if (!output.loss.is_null()) {
    file.tensors.emplace_back("loss", output.loss.to_host());
    add_gradients(*model, file);
  }
  for (const auto& [name, tensor, dims] : model->named_buffers())
    if (flags.train) file.tensors.emplace_back("buffer." + name, tensor.to_host());
  if (flags.steps > 0) file.tensors.emplace_back("losses", losses_of_steps(flags, *model, mesh));
  if (runtime.is_master()) ts::write_safetensors(flags.out, file);
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return tessera::launch(argc, argv, compute); }
