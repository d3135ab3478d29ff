// SPDX-License-Identifier: Apache-2.0
// Plans a training step of GPT-2 in any size under FSDP, on any number of devices, in seconds:
//
//   plan_gpt2 --preset 128b --devices 512
//   plan_gpt2 --table
#include <cstdio>

#include "tessera/base/argument_parser.h"
#include "tessera/base/text.h"
#include "tessera/nn/models/gpt2_presets.h"
#include "tessera/tessera.h"
#include "tessera/trainer/training_plan.h"

namespace ts = tessera;

namespace {

struct PlanArguments {
  std::string preset = "2b";
  std::int64_t devices = 0;
  std::string mesh;
  std::int64_t batch_tokens = 0;
  std::int64_t sequence = 1024;
  std::int64_t zero_stage = 3;
  bool checkpoint = true;
  bool bf16 = true;
  bool all_layers = false;
  bool table = false;
  double peak_teraflops = 137.5;
  double gigabytes_per_second = 100;
};

ts::trainer::TrainingPlanOptions options_of(const PlanArguments& a, const ts::nn::GPT2Preset& preset) {
  ts::trainer::TrainingPlanOptions out;
  out.config = ts::nn::gpt2_config(preset);
  const std::int64_t devices = a.devices > 0 ? a.devices : preset.cores > 0 ? preset.cores : 4;
  out.mesh = a.mesh.empty() ? ts::Mesh({{"fsdp", devices}}) : ts::Mesh::parse(a.mesh);
  const std::int64_t tokens = a.batch_tokens > 0        ? a.batch_tokens
                              : preset.batch_tokens > 0 ? preset.batch_tokens
                                                        : 8192;
  out.sequence = a.sequence;
  out.rows = std::max(out.mesh.device_count(), tokens / a.sequence);
  out.bf16 = a.bf16;
  out.checkpoint_blocks = a.checkpoint;
  out.fsdp.sharding_strategy = ts::zero_stage(static_cast<int>(a.zero_stage));
  constexpr double kTera = 1e12;
  constexpr double kGiga = 1e9;
  out.peak_flops = a.peak_teraflops * kTera;
  out.bytes_per_second = a.gigabytes_per_second * kGiga;
  return out;
}

std::string row(const ts::trainer::TrainingPlanOptions& options, const ts::trainer::TrainingPlan& plan,
                std::string_view name) {
  std::int64_t received = 0;
  for (const auto& kind : plan.collectives) received += kind.bytes;
  const auto bytes = [](std::int64_t count) { return ts::format_bytes(static_cast<double>(count)); };
  return fmt::format("{:<5} {:>5} {:>15} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9.2f} {:>9.2f}\n", name,
                     options.mesh.device_count(), plan.parameters, plan.tokens, bytes(plan.parameter_bytes),
                     bytes(plan.state_bytes), bytes(plan.peak_bytes), bytes(received), plan.fastest_seconds(),
                     plan.slowest_seconds());
}

std::string table_of_presets(const PlanArguments& arguments) {
  std::string out =
      fmt::format("{:<5} {:>5} {:>15} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}\n", "name", "cores", "parameters",
                  "tokens", "weights", "state", "peak", "received", "fastest s", "slowest s");
  for (const auto& preset : ts::nn::gpt2_presets()) {
    if (preset.cores == 0) continue;
    const auto options = options_of(arguments, preset);
    out += row(options, ts::trainer::plan_gpt2_training(options), preset.name);
  }
  return out;
}

int plan(int argc, char** argv) {
  const ts::Runtime runtime(argc, argv);
  PlanArguments a;
  ts::ArgumentParser parser("plan_gpt2", "Plans a training step of GPT-2 under FSDP, without devices.");
  parser.flag("preset", a.preset,
              "size of the model: gpt2, gpt2-medium, gpt2-large, gpt2-xl, 2b, 16b, 20b, 32b, 64b or 128b");
  parser.flag("devices", a.devices, "number of devices along the axis fsdp; 0: that of the preset");
  parser.flag("mesh", a.mesh, "mesh with an axis fsdp, instead of devices, as in data=2,fsdp=8");
  parser.flag("batch_tokens", a.batch_tokens, "number of tokens in a step; 0: that of the preset");
  parser.flag("sequence", a.sequence, "number of tokens in a row");
  parser.flag("zero_stage", a.zero_stage,
              "3: shard parameters, gradients and optimizer state; 2: gradients and state; 1: state; 0: nothing");
  parser.flag("checkpoint", a.checkpoint, "recompute the values of blocks in the backward pass");
  parser.flag("bf16", a.bf16, "compute in bf16, store weights in f32");
  parser.flag("all_layers", a.all_layers, "plan all layers, instead of extrapolating from two and three layers");
  parser.flag("table", a.table, "plan the six trainings published for PyTorch/XLA FSDP on TPU v4, one line for each");
  parser.flag("peak_teraflops", a.peak_teraflops, "peak rate of a device in TFLOP/s, for the modelled time");
  parser.flag("gigabytes_per_second", a.gigabytes_per_second,
              "gigabytes per second that a device receives, for the modelled time");
  if (!parser.parse(argc, argv)) {
    if (runtime.is_master()) std::fputs(parser.help().c_str(), stdout);
    return 0;
  }
  if (a.table) {
    std::fputs(table_of_presets(a).c_str(), stdout);
    return 0;
  }
  const auto options = options_of(a, ts::nn::gpt2_preset(a.preset));
  const auto result = a.all_layers ? ts::trainer::plan_all_layers(options) : ts::trainer::plan_gpt2_training(options);
  std::printf("GPT-2 %s on %s\n%s", a.preset.c_str(), options.mesh.str().c_str(), result.str().c_str());
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return tessera::launch(argc, argv, plan); }
