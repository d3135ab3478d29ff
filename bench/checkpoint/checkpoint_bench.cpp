// SPDX-License-Identifier: Apache-2.0
// Saves and loads checkpoints of GPT-2 with AdamW and FSDP, beside its training steps. Prints one line of JSON:
//
//   mpirun -np 2 --bind-to core build/release/bin/checkpoint_bench --model gpt2 --folder /disk/checkpoints
//
// bench/checkpoint/output.md describes the fields.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

#include <fcntl.h>
#include <unistd.h>

#include "tessera/base/argument_parser.h"
#include "tessera/base/error.h"
#include "tessera/base/files.h"
#include "tessera/base/json_object.h"
#include "tessera/base/random_access.h"
#include "tessera/checkpoint/checkpoint.h"
#include "tessera/frontend/compile/compiled_function.h"
#include "tessera/frontend/execution/runtime.h"
#include "tessera/frontend/sharding/mark_sharding.h"
#include "tessera/fsdp/fsdp.h"
#include "tessera/nn/models/gpt2.h"
#include "tessera/optim/optimizer.h"
#include "tessera/runtime/metrics/metrics.h"

namespace tessera::bench {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

struct Arguments {
  std::string model = "gpt2";
  std::int64_t batch = 2;
  std::int64_t block_size = 256;
  std::int64_t steps = 6;
  std::int64_t saves = 3;
  std::string folder = "checkpoint_bench.tmp";
  std::int64_t virtual_ranks = 0;  // launch() reads it
};

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

// A line of /proc/self/status in bytes.
double memory_of(std::string_view name) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with(name)) return 1024 * std::strtod(line.c_str() + name.size() + 1, nullptr);
  return 0;
}

class Training {
 public:
  explicit Training(const Arguments& arguments)
      : arguments_(arguments), mesh_(Mesh::parse("fsdp=-1", device_count())), model_(config()) {
    fully_shard(model_, {.mesh = mesh_});
    optimizer_ = std::make_unique<optim::AdamW>(model_.parameters(), optim::AdamWOptions{.learning_rate = 1e-4});
  }

  void step() {
    compiled_({batch()});
    wait_device_ops();
  }
  [[nodiscard]] std::map<std::string, StateDict> states() const {
    return {{"model", model_.state_dict()}, {"optimizer", optimizer_->state_dict()}};
  }

 private:
  nn::GPT2Config config() {
    set_default_mesh(mesh_);
    nn::GPT2Config out;
    if (arguments_.model != "gpt2") out.n_layer = 4, out.n_embd = 256, out.n_head = 8, out.vocab_size = 256;
    if (arguments_.model == "tiny") out.n_layer = 1, out.n_embd = 16, out.n_head = 2;
    out.resid_pdrop = out.embd_pdrop = out.attn_pdrop = 0;
    return out;
  }
  Tensor batch() {
    std::vector<std::int32_t> tokens(static_cast<std::size_t>(rows() * arguments_.block_size));
    for (auto& token : tokens)
      token = static_cast<std::int32_t>(random_() % static_cast<std::uint32_t>(model_.config().vocab_size));
    Tensor out = Tensor::from<std::int32_t>({rows(), arguments_.block_size}, tokens);
    mark_sharding(out, mesh_, {"fsdp", {}});
    return out;
  }
  [[nodiscard]] std::int64_t rows() const { return arguments_.batch * device_count(); }
  Tensor record(const Tensor& tokens) {
    Tensor loss = model_(tokens, tokens);
    loss.backward();
    optimizer_->step();
    optimizer_->zero_grad();
    return loss;
  }

  const Arguments& arguments_;
  Mesh mesh_;
  nn::GPT2LMHeadModel model_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  CompiledFunction compiled_{[this](const std::vector<Tensor>& given) { return std::vector{record(given.front())}; }};
  std::minstd_rand random_{1};
};

double timed_step(Training& training) {
  joined_world()->barrier();
  const auto start = Clock::now();
  training.step();
  joined_world()->barrier();
  return seconds_since(start);
}

double plain_step_seconds(Training& training, std::int64_t count) {
  std::vector<double> seconds;
  for (std::int64_t i = 0; i < count; ++i) seconds.push_back(timed_step(training));
  return median(seconds);
}

// Seconds to copy as many bytes as this rank saves.
double memcpy_seconds(std::size_t bytes) {
  const std::vector<std::byte> from(bytes, std::byte{1});
  std::vector<std::byte> to(bytes);
  std::vector<double> seconds;
  for (int i = 0; i < 5; ++i) {
    const auto start = Clock::now();
    std::memcpy(to.data(), from.data(), bytes);
    seconds.push_back(seconds_since(start));
  }
  return median(seconds);
}

// Trains until the save has ended.
JsonObject save_beside_steps(Training& training, CheckpointWriter& writer, const std::string& folder,
                             const Arguments& arguments) {
  const double plain = plain_step_seconds(training, arguments.steps);
  const auto copied = [] { return metrics().counter_value("PinnedBytesCopied").value_or(0); };
  const std::int64_t copied_before = copied();
  const auto start = Clock::now();
  writer.begin(folder, {.states = training.states(), .documents = {}});
  const double begin = seconds_since(start);
  double slowest = 0;
  std::int64_t steps = 0;
  std::optional<CheckpointWriter::Outcome> outcome;
  while (!outcome) {
    slowest = std::max(slowest, timed_step(training));
    ++steps;
    outcome = writer.poll();
  }
  require(outcome->error.empty(), "{}", outcome->error);
  const double window = seconds_since(start);
  JsonObject out;
  out.set("begin_seconds", begin);
  out.set("steps", steps);
  out.set("window_seconds", window);
  out.set("plain_step_seconds", plain);
  out.set("slowest_step_seconds", slowest);
  out.set("slowdown", window / (static_cast<double>(steps) * plain) - 1);
  out.set("cpu_seconds", outcome->cpu_seconds);
  out.set("copied_bytes", copied() - copied_before);
  return out;
}

// Seconds of a shell command, on rank 0.
double seconds_of(const std::string& command) {
  const auto start = Clock::now();
  require(std::system(command.c_str()) == 0, "{} failed", command);  // NOLINT(concurrency-mt-unsafe,cert-env33-c)
  return seconds_since(start);
}

// Removes the files from the page cache.
void forget(const std::string& folder) {
  for (const auto& entry : fs::directory_iterator(folder)) {
    const int file = open(entry.path().c_str(), O_RDONLY | O_CLOEXEC);  // NOLINT(cppcoreguidelines-pro-type-vararg)
    require(file >= 0, "cannot open {}", entry.path().string());
    posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
    close(file);
  }
}

double timed_on_all(const std::function<void()>& work) {
  joined_world()->barrier();
  const auto start = Clock::now();
  work();
  joined_world()->barrier();
  return seconds_since(start);
}

// Median seconds to write and to copy, and to load and to read, each alternately.
JsonObject write_and_read(Training& training, const std::string& folder, const Arguments& arguments, bool is_first) {
  std::vector<double> save;
  std::vector<double> copy;
  std::vector<double> load;
  std::vector<double> read;
  std::uint64_t bytes_read = 0;
  double grown = 0;
  for (std::int64_t i = 0; i < arguments.saves; ++i) {
    save.push_back(timed_on_all([&] { save_checkpoint(folder, {.states = training.states(), .documents = {}}); }));
    copy.push_back(timed_on_all([&] {
      if (!is_first) return;
      (void)seconds_of(fmt::format("cp -r '{0}' '{0}.copy' && sync '{0}.copy'/*", folder));
    }));
    if (is_first) fs::remove_all(folder + ".copy");
    if (is_first) forget(folder);
    read.push_back(timed_on_all([&] {
      if (is_first) (void)seconds_of(fmt::format("cat '{}'/* > /dev/null", folder));
    }));
    if (is_first) forget(folder);
    const std::uint64_t before = bytes_read_from_files();
    std::ofstream("/proc/self/clear_refs") << "5";  // VmHWM starts again
    const double resident = memory_of("VmRSS:");
    load.push_back(timed_on_all([&] { (void)load_checkpoint(folder, training.states()); }));
    grown = memory_of("VmHWM:") - resident;
    bytes_read = bytes_read_from_files() - before;
  }
  JsonObject out;
  out.set("save_seconds", median(save));
  out.set("cp_and_sync_seconds", median(copy));
  out.set("load_seconds", median(load));
  out.set("cat_seconds", median(read));
  out.set("bytes_read_by_rank_0", static_cast<std::int64_t>(bytes_read));
  out.set("memory_growth_in_load", grown);
  return out;
}

void measure(const Arguments& arguments) {
  const bool is_first = joined_world()->rank() == 0;
  Training training(arguments);
  training.step();
  training.step();
  CheckpointWriter writer;
  std::vector<JsonObject> saves;
  for (std::int64_t i = 0; i < arguments.saves; ++i)
    saves.push_back(
        save_beside_steps(training, writer, fmt::format("{}/checkpoint-{}", arguments.folder, i), arguments));
  const std::string folder = arguments.folder + "/checkpoint-0";
  double own_bytes = 0;
  for (const auto& [group, state] : training.states())
    for (const NamedTensor& entry : state.entries())
      own_bytes += static_cast<double>(stored_shard(entry.tensor).shard.bytes().size());
  JsonObject out = write_and_read(training, folder, arguments, is_first);
  out.set("ranks", device_count());
  out.set("shard_bytes", own_bytes);
  out.set("memcpy_seconds", memcpy_seconds(static_cast<std::size_t>(own_bytes)));
  out.set("saves_beside_steps", saves);
  if (!is_first) return;
  write_standard_output(out.str());
  fs::remove_all(arguments.folder);
}

int run(int argc, char** argv) {
  Arguments arguments;
  ArgumentParser parser("checkpoint_bench", "Times checkpoints of GPT-2; prints JSON.");
  parser.choice("model", arguments.model, {"gpt2", "small", "tiny"}, "12 layers of 768, 4 of 256; tiny: a test")
      .flag("batch", arguments.batch, "sequences per rank")
      .flag("block_size", arguments.block_size, "tokens of a sequence")
      .flag("steps", arguments.steps, "steps without a save before each save")
      .flag("saves", arguments.saves, "saves of each kind")
      .flag("folder", arguments.folder, "a new folder on the disk to measure; it is deleted at the end")
      .flag("virtual_ranks", arguments.virtual_ranks, "run this many ranks as threads of this process");
  if (!parser.parse(argc, argv)) {
    std::fputs(parser.help().c_str(), stdout);
    return 0;
  }
  measure(arguments);
  return 0;
}

}  // namespace
}  // namespace tessera::bench

int main(int argc, char** argv) { return tessera::launch(argc, argv, tessera::bench::run); }
