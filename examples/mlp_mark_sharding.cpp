// SPDX-License-Identifier: Apache-2.0
// An MLP on Fashion-MNIST with data and tensor parallelism through mark_sharding:
//
//   mpirun -np 4 mlp_mark_sharding --mesh data=2,model=2 --steps 300
#include <chrono>
#include <cstdio>
#include <random>

#include "tessera/base/argument_parser.h"
#include "tessera/data/batches.h"
#include "tessera/data/images.h"
#include "tessera/tessera.h"

namespace ts = tessera;

namespace {

class Mlp : public ts::nn::Callable<Mlp> {
 public:
  Mlp() {
    add_module("up", up_);
    add_module("down", down_);
  }
  ts::Tensor forward(const ts::Tensor& x) { return down_(ts::relu(up_(x))); }
  [[nodiscard]] std::string_view class_name() const override { return "Mlp"; }
  // Column-parallel, then row-parallel: each rank has some of the hidden units; one all-reduce sums their contributions
  // to the result.
  void shard(const ts::Mesh& mesh) {
    ts::mark_sharding(up_.weight(), mesh, {"model", {}});  // [hidden, in]
    ts::mark_sharding(up_.bias(), mesh, {"model"});
    ts::mark_sharding(down_.weight(), mesh, {{}, "model"});  // [classes, hidden]
  }

 private:
  ts::nn::Linear up_{784, 256}, down_{256, 10};
};

struct Flags {
  std::string data = std::string(ts::data::kFashionMnistFolder);
  std::string mesh;
  std::int64_t steps = 300;
  std::int64_t batch = 128;
  double learning_rate = 1e-3;
  bool fake_data = false;
  std::int64_t virtual_ranks = 0;  // launch() reads it
};

// Random pixels whose class is the brightest of ten stripes: learnable, and without any file.
ts::data::ImageDataset fake_images(std::int64_t count) {
  ts::data::ImageDataset out;
  out.classes = 10;
  out.images = ts::Literal(ts::Type::array(ts::DType::kU8, {count, 28, 28}));
  out.labels = ts::Literal(ts::Type::array(ts::DType::kU8, {count}));
  auto pixels = out.images.mutable_data<std::uint8_t>();
  auto labels = out.labels.mutable_data<std::uint8_t>();
  std::mt19937 draw(1);
  for (std::size_t i = 0; i < labels.size(); ++i) {
    labels[i] = static_cast<std::uint8_t>(draw() % 10);
    for (std::size_t p = 0; p < 784; ++p)
      pixels[i * 784 + p] = static_cast<std::uint8_t>(draw() % 128 + (p % 28 / 3 == labels[i] ? 64 : 0));
  }
  return out;
}

double accuracy(Mlp& model, const ts::data::ImageDataset& test, std::int64_t batch, const ts::Mesh& mesh) {
  double right = 0;
  const std::int64_t batches = test.size() / batch;
  for (std::int64_t b = 0; b < batches; ++b) {
    std::vector<std::int64_t> samples;
    for (std::int64_t i = 0; i < batch; ++i) samples.push_back(b * batch + i);
    const ts::Tensor x = ts::Tensor::from_host(test.pixels(samples));
    const ts::Tensor labels = ts::Tensor::from_host(test.classes_of(samples));
    ts::mark_sharding(x, mesh, {"data", {}});
    ts::mark_sharding(labels, mesh, {"data"});
    const ts::Tensor hits = ts::sum((ts::argmax(model(x), -1) == labels).to(ts::DType::kF32));
    ts::mark_step();
    right += hits.item();
  }
  return right / static_cast<double>(batches * batch);
}

int train(int argc, char** argv) {
  const ts::Runtime runtime(argc, argv);
  Flags flags;
  ts::ArgumentParser parser("mlp_mark_sharding", "Trains an MLP on Fashion-MNIST over a mesh.");
  parser.flag("data", flags.data, "folder of the idx files")
      .flag("mesh", flags.mesh, "sizes of the axes data and model, as in data=2,model=2")
      .flag("steps", flags.steps, "number of updates")
      .flag("batch", flags.batch, "images in a batch, over all ranks")
      .flag("learning_rate", flags.learning_rate, "learning rate of AdamW")
      .flag("fake_data", flags.fake_data, "generated images instead of files")
      .flag("virtual_ranks", flags.virtual_ranks, "run this many ranks as threads of this process");
  if (!parser.parse(argc, argv)) {
    if (runtime.is_master()) std::fputs(parser.help().c_str(), stdout);
    return 0;
  }
  const ts::Mesh mesh = ts::Mesh::parse(flags.mesh.empty() ? "data=-1,model=1" : flags.mesh, runtime.rank_count());
  const auto training = flags.fake_data ? fake_images(2000) : ts::data::read_mnist(flags.data, "train", 10);
  const auto test = flags.fake_data ? training : ts::data::read_mnist(flags.data, "t10k", 10);

  Mlp model;
  model.shard(mesh);
  ts::optim::AdamW optimizer(model.parameters(), {.learning_rate = flags.learning_rate});
  ts::data::SampleOrder order(training.size(), {.global_batch_size = flags.batch, .drop_last = true});
  const auto start = std::chrono::steady_clock::now();
  for (std::int64_t step = 1; step <= flags.steps; ++step) {
    const auto samples = order.next();
    const ts::Tensor x = ts::Tensor::from_host(training.pixels(samples));
    const ts::Tensor labels = ts::Tensor::from_host(training.classes_of(samples));
    ts::mark_sharding(x, mesh, {"data", {}});
    ts::mark_sharding(labels, mesh, {"data"});
    const ts::Tensor loss = ts::cross_entropy(model(x), labels);
    loss.backward();
    optimizer.step();
    optimizer.zero_grad();
    ts::mark_step();
    constexpr std::int64_t kLogEvery = 50;
    if (runtime.is_master() && (step % kLogEvery == 0 || step == 1))
      std::printf("step %4ld  loss %.4f\n", step, loss.item());
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const double hit_rate = accuracy(model, test, flags.batch, mesh);
  if (runtime.is_master())
    std::printf("%s: accuracy %.3f, %.0f images/s, %ld programs compiled\n", mesh.str().c_str(), hit_rate,
                static_cast<double>(flags.steps * flags.batch) / seconds, ts::lazy_counters().compilations);
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return tessera::launch(argc, argv, train); }
