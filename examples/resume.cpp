// SPDX-License-Identifier: Apache-2.0
// A training that can be interrupted at any time, and continues in the middle of an epoch with the same results:
//
//   resume --output_dir out --stop_after 17      ends without a save, as a job that is killed
//   resume --output_dir out                      continues from the newest checkpoint, on any number of ranks
#include <cmath>
#include <cstdio>

#include "tessera/base/argument_parser.h"
#include "tessera/checkpoint/checkpoint.h"
#include "tessera/data/loader.h"
#include "tessera/data/tensor_dataset.h"
#include "tessera/optim/ema.h"
#include "tessera/tessera.h"

namespace ts = tessera;
namespace nn = tessera::nn;
namespace {

constexpr std::int64_t kSamples = 50, kWidth = 16, kClasses = 3;

std::shared_ptr<const ts::data::Source> samples() {
  std::vector<float> x;
  std::vector<std::int32_t> labels;
  for (std::int64_t i = 0; i < kSamples; ++i) {
    labels.push_back(static_cast<std::int32_t>(i * i % kClasses));
    for (std::int64_t j = 0; j < kWidth; ++j)
      x.push_back(static_cast<float>(labels.back() + std::sin(static_cast<double>(i * 7 + j * j))));
  }
  return std::make_shared<ts::data::TensorDataset>(
      ts::data::Arrays{{"x", ts::Literal::from<float>({kSamples, kWidth}, x)},
                       {"labels", ts::Literal::from<std::int32_t>({kSamples}, labels)}});
}

// What no StateDict contains: the position in the data, and the random numbers of dropout.
ts::JsonObject run_state(const ts::data::Loader& loader) {
  const ts::RandomState random = ts::random_state();
  ts::JsonObject out;
  out.set("samples", loader.state().samples);
  out.set("random_seed", static_cast<std::int64_t>(random.seed));
  out.set("random_step", static_cast<std::int64_t>(random.step));
  return out;
}

void restore(const ts::JsonObject& run, ts::data::Loader& loader) {
  std::int64_t samples = 0, seed = 0, step = 0;
  run.read("samples", samples);
  run.read("random_seed", seed);
  run.read("random_step", step);
  loader.seek(samples);  // reads no samples
  ts::set_random_state({static_cast<std::uint64_t>(seed), static_cast<std::uint64_t>(step)});
}

void check(const std::optional<ts::CheckpointWriter::Outcome>& ended) {
  if (ended) ts::require(ended->error.empty(), "{}", ended->error);
}

int train(int argc, char** argv) {
  const ts::Runtime runtime(argc, argv);
  std::string out;
  std::int64_t steps = 30, save_steps = 4, stop_after = 0, virtual_ranks = 0;
  ts::ArgumentParser parser("resume", "A training that can be interrupted and resumed.");
  parser.flag("output_dir", out, "folder for the checkpoints and model.safetensors")
      .flag("steps", steps, "number of updates")
      .flag("save_steps", save_steps, "updates between two checkpoints")
      .flag("stop_after", stop_after,
            "end without a save after this many updates, like a job that is killed; 0: do not")
      .flag("virtual_ranks", virtual_ranks, "run this many ranks as threads of this process");
  if (!parser.parse(argc, argv)) {
    if (runtime.is_master()) std::fputs(parser.help().c_str(), stdout);
    return 0;
  }
  ts::require(!out.empty() && save_steps > 0, "give an --output_dir, and --save_steps of at least 1");
  ts::set_default_mesh(ts::Mesh({{"data", runtime.rank_count()}}));

  nn::Sequential net(nn::make<nn::Linear>(kWidth, 48), nn::make<nn::ReLU>(), nn::make<nn::Dropout>(0.1),
                     nn::make<nn::Linear>(48, kClasses));
  ts::optim::AdamW optimizer(net.parameters(), {.learning_rate = 1e-2, .weight_decay = 0.01});
  ts::optim::ExponentialMovingAverage average(net.parameters(), {.decay = 0.9});
  const ts::optim::Schedule schedule(ts::optim::ScheduleType::kCosine, 1e-2, 3, steps);  // a function of the step count
  ts::data::Loader loader(samples(), {.batch_size = 12, .shuffle = true, .input_sharding = ts::PartitionSpec{"data"}});
  // Saves read the current values of these objects, and loads change them.
  const std::map<std::string, ts::StateDict> states{
      {"model", net.state_dict()}, {"optimizer", optimizer.state_dict()}, {"average", average.state_dict()}};
  if (const auto from = ts::load_newest_checkpoint(out, states)) {
    restore(from->document("run"), loader);
    if (runtime.is_master())
      std::printf("resumed %s: step %ld, epoch %.2f\n", from->folder().c_str(), optimizer.step_count(),
                  loader.epochs());
  }
  ts::CheckpointWriter writer;
  while (optimizer.step_count() < steps && (stop_after == 0 || optimizer.step_count() < stop_after)) {
    const ts::data::Batch batch = loader.next_batch();
    schedule.apply(optimizer);
    const ts::Tensor loss = nn::cross_entropy(net(batch.tensor("x")), batch.tensor("labels"));
    loss.backward();
    optimizer.step();
    average.update();
    optimizer.zero_grad();
    ts::mark_step();
    const std::int64_t step = optimizer.step_count();
    if (const double value = loss.item(); runtime.is_master()) std::printf("step %3ld  loss %.9g\n", step, value);
    check(writer.poll());  // a save continues while the training does
    if (step % save_steps != 0) continue;
    check(writer.finish());  // the save before
    writer.begin(out + "/checkpoint-" + std::to_string(step),
                 {.states = states, .documents = {{"run", run_state(loader)}}});
  }
  if (optimizer.step_count() < steps) return 0;
  check(writer.finish());
  ts::save(net.state_dict(), out + "/model.safetensors");
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return tessera::launch(argc, argv, train); }
