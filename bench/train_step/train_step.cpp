// SPDX-License-Identifier: Apache-2.0
// One training step of GPT-2 (forward, backward, AdamW) as a user writes it, timed. Prints one line of JSON. Runs under
// mpirun, with --virtual_ranks N, or alone:
//
//   build/release/bin/train_step --model gpt2 --batch 4 --block_size 256 --dtype float32
//   mpirun -np 2 --bind-to core build/release/bin/train_step --model gpt2 --fsdp
//
// bench/train_step/output.md describes the fields.
#include <algorithm>
#include <cstdio>
#include <limits>
#include <numeric>
#include <optional>
#include <random>

#include "checkpoint_blocks.h"
#include "local_reads.h"
#include "process_memory.h"
#include "step_report.h"
#include "tessera/base/argument_parser.h"
#include "tessera/base/command_line.h"
#include "tessera/base/error.h"
#include "tessera/base/files.h"
#include "tessera/base/options.h"
#include "tessera/base/rank_context.h"
#include "tessera/collectives/world.h"
#include "tessera/frontend/compile/compiled_function.h"
#include "tessera/frontend/execution/runtime.h"
#include "tessera/frontend/sharding/mark_sharding.h"
#include "tessera/fsdp/fsdp.h"
#include "tessera/nn/models/gpt2.h"
#include "tessera/optim/optimizer.h"
#include "tessera/runtime/metrics/compute_peak.h"
#include "tessera/runtime/metrics/metrics.h"
#include "tessera/sharding/mesh_text.h"

namespace tessera::bench {
namespace {

struct Arguments {
  std::string model = "gpt2";
  std::int64_t batch = 4;
  std::int64_t block_size = 256;
  std::string dtype = "float32";
  bool fsdp = false;
  std::int64_t zero_stage = 3;
  bool recompute = false;
  std::string mesh;
  std::int64_t steps = 10;
  std::int64_t warmup = 2;
  double dropout = 0;
  bool lazy = false;
  std::string profile;
  std::int64_t virtual_ranks = 0;  // launch() reads it
};

void add_flags(ArgumentParser& parser, Arguments& out) {
  parser
      .choice("model", out.model, {"gpt2", "small", "small50k", "tiny"}, "12 layers of 768, or 4 of 256; tiny: a test")
      .flag("batch", out.batch, "sequences per data shard")
      .flag("block_size", out.block_size, "tokens of a sequence")
      .choice("dtype", out.dtype, {"float32", "bfloat16"}, "of products and activations; weights are kept in float32")
      .flag("fsdp", out.fsdp, "shard parameters, gradients and optimizer state")
      .flag("zero_stage", out.zero_stage, "with fsdp: what is sharded; 3: all of them, 2, 1, 0: nothing")
      .flag("recompute", out.recompute, "compute the values of blocks again in the backward pass")
      .flag("mesh", out.mesh, "as in fsdp=2,model=2; default: one axis over all ranks, fsdp or data")
      .flag("steps", out.steps, "steps that are timed")
      .flag("warmup", out.warmup, "steps before, the first of which compiles")
      .flag("dropout", out.dropout, "probability")
      .flag("lazy", out.lazy, "trace every step instead of the first only (compile)")
      .flag("virtual_ranks", out.virtual_ranks, "run this many ranks as threads of this process")
      .flag("profile", out.profile,
            "file for the time of each kind of schedule step and of the longest steps (rank 0)");
}

std::vector<std::pair<std::string, std::string>> values_of(Arguments arguments) {
  ArgumentParser parser("", "");
  add_flags(parser, arguments);
  return parser.values();
}

bool read_arguments(int argc, const char* const* argv, Arguments& out) {
  ArgumentParser parser("train_step", "Times a training step of GPT-2; prints one line of JSON.");
  add_flags(parser, out);
  if (!parser.parse(argc, argv)) {
    std::fputs(parser.help().c_str(), stdout);
    return false;
  }
  require(out.batch >= 1 && out.block_size >= 2, "--batch must be at least 1 and --block_size 2, got {} and {}",
          out.batch, out.block_size);
  require(out.steps >= 1 && out.warmup >= 1, "--steps and --warmup must be at least 1, got {} and {}", out.steps,
          out.warmup);
  if (!out.mesh.empty()) (void)mesh_axes(out.mesh);
  return true;
}

nn::GPT2Config config_of(const Arguments& arguments) {
  nn::GPT2Config config;
  if (arguments.model != "gpt2") config.n_layer = 4, config.n_embd = 256, config.n_head = 8;
  if (arguments.model == "small" || arguments.model == "tiny") config.vocab_size = 256;
  if (arguments.model == "tiny") config.n_layer = 1, config.n_embd = 16, config.n_head = 2;
  config.n_positions = std::max<std::int64_t>(config.n_positions, arguments.block_size);
  config.resid_pdrop = config.embd_pdrop = config.attn_pdrop = arguments.dropout;
  return config;
}

Mesh mesh_of(const Arguments& arguments) {
  const std::string standard = arguments.fsdp ? "fsdp=-1" : "data=-1";
  return Mesh::parse(arguments.mesh.empty() ? standard : arguments.mesh, device_count());
}

class Training {
 public:
  explicit Training(const Arguments& arguments) : arguments_(arguments), mesh_(mesh_of(arguments)), model_(start()) {
    for (const auto& axis : mesh_.axes()) {
      if (axis.name != "data" && axis.name != "fsdp") continue;
      rows_axes_.push_back(axis.name);
      rows_ *= axis.size;
    }
    if (mesh_.has_axis("model")) nn::shard_tensor_parallel(model_, mesh_, "model");
    std::optional<DType> compute;
    if (arguments.dtype == "bfloat16") compute = DType::kBF16;
    if (compute) model_.set_compute_dtype(*compute);
    if (arguments.recompute) trainer::checkpoint_blocks(model_);
    if (arguments.fsdp)
      fully_shard(model_, {.mesh = mesh_,
                           .mixed_precision = {.param_dtype = compute},
                           .sharding_strategy = zero_stage(static_cast<int>(arguments.zero_stage))});
    optimizer_ = std::make_unique<optim::AdamW>(model_.parameters(),
                                                optim::AdamWOptions{.learning_rate = 1e-4, .weight_decay = 0.01});
  }

  [[nodiscard]] const Mesh& mesh() const { return mesh_; }
  [[nodiscard]] double tokens() const { return static_cast<double>(rows_ * arguments_.block_size); }

  /// Returns random tokens, the same on every rank.
  Tensor batch() {
    std::vector<std::int32_t> tokens(static_cast<std::size_t>(rows_ * arguments_.block_size));
    const auto vocabulary = static_cast<std::uint32_t>(model_.config().vocab_size);
    for (auto& token : tokens) token = static_cast<std::int32_t>(random_() % vocabulary);
    Tensor out = Tensor::from<std::int32_t>({rows_, arguments_.block_size}, tokens);
    if (rows_axes_.empty()) return out;
    mark_sharding(out, mesh_, {PartitionSpec::Entry(SpecEntry(rows_axes_)), {}});
    return out;
  }

  Tensor step() { return step(batch()); }
  Tensor step(const Tensor& tokens) {
    if (!arguments_.lazy) return compiled_({tokens}).front();
    Tensor loss = record(tokens);
    mark_step();
    return loss;
  }

 private:
  nn::GPT2Config start() {
    rows_ = arguments_.batch;
    set_default_mesh(mesh_);
    return config_of(arguments_);
  }

  Tensor record(const Tensor& tokens) {
    Tensor loss = model_(tokens, tokens);
    loss.backward();
    optimizer_->step();
    optimizer_->zero_grad();
    return loss;
  }

  const Arguments& arguments_;
  std::int64_t rows_ = 1;  // of the complete batch
  std::vector<std::string> rows_axes_;
  Mesh mesh_;
  nn::GPT2LMHeadModel model_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  CompiledFunction compiled_{[this](const std::vector<Tensor>& given) { return std::vector{record(given.front())}; }};
  std::minstd_rand random_{1};
};

// Alternates steps with real and with local collectives, so that other processes affect both equally.
struct Times {
  std::vector<double> step;
  std::vector<double> local;
  CollectiveSeconds exposed{};  // of all steps with real collectives
};

Times time_steps(Training& training, const Arguments& arguments, LocalReads& local, ProcessGroup& world) {
  Times times;
  for (std::int64_t i = 0; i < arguments.steps; ++i) {
    for (const bool is_local : {false, true}) {
      if (is_local && world.size() == 1) continue;
      world.barrier();
      local.on = is_local;
      const CollectiveSeconds before = is_local ? CollectiveSeconds{} : collective_seconds();
      const auto start = Clock::now();
      training.step();
      wait_device_ops();
      local.on = false;
      world.barrier();  // a step ends when the last rank has finished it
      (is_local ? times.local : times.step).push_back(seconds_since(start));
      if (is_local) continue;
      const CollectiveSeconds after = collective_seconds();
      for (std::size_t kind = 0; kind < after.size(); ++kind) times.exposed[kind] += after[kind] - before[kind];
    }
  }
  return times;
}

// Returns the minimum and the maximum of the exposed fraction over pairs of consecutive steps, one with real and one
// with local collectives.
std::string exposed_spread(const Times& times) {
  double least = times.local.empty() ? 0 : 1;
  double most = times.local.empty() ? 0 : -std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < times.local.size(); ++i) {
    const double exposed = 1 - times.local[i] / times.step[i];
    least = std::min(least, exposed);
    most = std::max(most, exposed);
  }
  return fmt::format("[{:.6g}, {:.6g}]", least, most);
}

double sum_over_ranks(ProcessGroup& world, double value) {
  std::vector<double> all(static_cast<std::size_t>(world.size()));
  world.all_gather(std::as_bytes(std::span(&value, 1)), std::as_writable_bytes(std::span(all)));
  return std::accumulate(all.begin(), all.end(), 0.0);
}

int run(const Arguments& arguments) {
  check_same_on_all_ranks(values_of(arguments));
  const auto local = std::make_shared<LocalReads>();
  join_world(with_local_reads(joined_world(), local));
  ProcessGroup& world = *joined_world();
  if (world.rank() == 0 && !arguments.profile.empty()) check_writable(arguments.profile);
  const DType dtype = arguments.dtype == "bfloat16" ? DType::kBF16 : DType::kF32;
  const ComputePeak peak =
      measure_compute_peak(world, dtype, static_cast<int>(options().integer("TESSERA_NUM_THREADS")));

  std::optional<Training> made;
  double first_loss = 0;
  double first_seconds = 0;
  // Initialization and the first step, which compiles, may need more memory than later steps.
  const std::int64_t early_peak = peak_resident_bytes([&] {
    made.emplace(arguments);
    const auto first = Clock::now();
    first_loss = made->step().item();
    first_seconds = seconds_since(first);
    for (std::int64_t i = 1; i < arguments.warmup; ++i) made->step();
    wait_device_ops();
  });
  Training& training = *made;
  const Times times = time_steps(training, arguments, *local, world);
  const CompiledProgram& compiled = step_program();
  Tensor tokens;
  const double host = host_seconds(
      compiled,
      [&] {
        tokens = training.batch();
        world.barrier();
      },
      [&] {
        training.step(tokens);
        wait_device_ops();
      });
  const std::int64_t late_peak = peak_resident_bytes([&] {
    training.step();
    wait_device_ops();
  });
  const std::int64_t measured = bytes_per_rank(world, std::max(early_peak, late_peak));
  const std::int64_t step_peak = bytes_per_rank(world, late_peak);
  const std::int64_t high_water = bytes_per_rank(world, high_water_bytes());

  CollectiveSeconds exposed = times.exposed;
  for (double& seconds : exposed)
    seconds = sum_over_ranks(world, seconds) / world.size() / static_cast<double>(times.step.size());

  if (world.rank() != 0) return 0;
  const double seconds = median(times.step);
  const double flops = product_flops(compiled.global);
  JsonLine line;
  line.add("model", arguments.model).add("dtype", arguments.dtype).add("ranks", world.size());
  line.add("mesh", training.mesh().str()).add("fsdp", arguments.fsdp);
  line.add("zero_stage", arguments.fsdp ? arguments.zero_stage : 0).add("recompute", arguments.recompute);
  line.add("tokens_per_second", training.tokens() / seconds).add("step_seconds", seconds);
  line.add("model_flops_per_step", flops).add("mfu", flops / seconds / peak.flops_per_second);
  line.add("peak_flops_per_second", peak.flops_per_second).add("peak_instructions", peak.instructions);
  line.add("peak_is_disturbed", peak.is_disturbed);
  line.add("exposed_communication_fraction", times.local.empty() ? 0.0 : 1 - median(times.local) / seconds);
  line.add_json("exposed_communication_spread", exposed_spread(times));
  line.add_json("exposed_communication_seconds", by_collective(exposed));
  line.add("planned_peak_bytes", compiled.memory.held_bytes()).add("measured_peak_bytes", measured);
  line.add("step_peak_bytes", step_peak).add("high_water_bytes", high_water);
  line.add("compile_seconds", compile_seconds()).add("first_step_seconds", first_seconds);
  line.add("host_overhead_seconds", host).add("executed_groups", compiled.executable.lock()->profile().size());
  line.add("mode", arguments.lazy ? "lazy" : "compiled").add("first_loss", first_loss);
  write_standard_output(line.str() + "\n");
  if (!arguments.profile.empty()) write_profile(compiled, arguments.profile);
  return 0;
}

}  // namespace
}  // namespace tessera::bench

int main(int argc, char** argv) {
  using namespace tessera;
  bench::Arguments arguments;
  try {
    const bool is_read = read_option("", [&] { return bench::read_arguments(argc, argv, arguments); });
    if (!is_read) return status_after_output(0);
  } catch (const std::exception& error) {
    return fail_before_world(fmt::format("train_step: {}", message_for_user(error)), exit_code_of(error));
  }
  return launch(argc, argv, [&](int, char**) { return bench::run(arguments); });
}
