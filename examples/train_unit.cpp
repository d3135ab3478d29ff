// SPDX-License-Identifier: Apache-2.0
// A small UniT (Hu and Singh, 2021): one transformer for several tasks. One encoder reads images of Fashion-MNIST, and
// another one reads names of their classes. One decoder with queries and a head for each task reads the results. The
// tasks are the class of an image, the class that a text names, and whether a text names the class of an image:
//
//   mpirun -np 4 train_unit --fake_data --mesh data=2,model=2 --steps 300
#include <array>
#include <cstdio>
#include <random>

#include "tessera/base/argument_parser.h"
#include "tessera/data/batches.h"
#include "tessera/data/images.h"
#include "tessera/tessera.h"

namespace ts = tessera;
namespace nn = tessera::nn;
using ts::Tensor;

namespace {

enum Task { kImage, kText, kMatch, kTasks };
constexpr std::array<std::int64_t, kTasks> kClassesOf = {10, 10, 2};
constexpr std::int64_t kPatches = 49, kTextSize = 12, kQueries = 4;
const std::array<std::string, 10> kNames = {"T-shirt/top", "Trouser", "Pullover", "Dress", "Coat",
                                            "Sandal",      "Shirt",   "Sneaker",  "Bag",   "Ankle boot"};

struct Flags {
  std::string data = std::string(ts::data::kFashionMnistFolder), mesh = "data=-1,model=1";
  std::int64_t steps = 300, batch = 48, width = 48, heads = 4, layers = 2, virtual_ranks = 0;
  double learning_rate = 1e-3;
  bool fake_data = false;
};

nn::TransformerOptions layer_options(const Flags& flags) {
  return {.dim_feedforward = 2 * flags.width, .dropout = 0, .batch_first = true, .norm_first = true};
}

auto norm_of(const Flags& flags) { return nn::make<nn::LayerNorm>(flags.width); }

class Unit : public nn::Callable<Unit> {
 public:
  explicit Unit(const Flags& flags)
      : patches_(1, flags.width, 4, {.stride = 4}),
        image_positions_(kPatches, flags.width, 0.02),
        tokens_(256, flags.width),
        text_positions_(kTextSize, flags.width, 0.02),
        image_encoder_(flags.width, flags.heads, flags.layers, layer_options(flags), norm_of(flags)),
        text_encoder_(flags.width, flags.heads, flags.layers, layer_options(flags), norm_of(flags)),
        decoder_(flags.width, flags.heads, flags.layers, layer_options(flags), norm_of(flags)) {
    register_module("patches", patches_);
    register_module("image_positions", image_positions_);
    register_module("tokens", tokens_);
    register_module("text_positions", text_positions_);
    register_module("image_encoder", image_encoder_);
    register_module("text_encoder", text_encoder_);
    register_module("decoder", decoder_);
    for (const std::int64_t classes : kClassesOf) {
      queries_.emplace(kQueries, flags.width);
      heads_.emplace(flags.width, classes);
    }
    register_module("queries", queries_);
    register_module("heads", heads_);
  }
  // pixels [b, 784] and bytes [b, 12], where 0 is padding -> the logits of the classes of the task.
  Tensor forward(Task task, const Tensor& pixels, const Tensor& text) {
    const std::int64_t batch = text.dim(0), width = tokens_.weight().dim(1);
    std::vector<Tensor> memory, padding;
    if (task != kText) {
      const Tensor patches = patches_(pixels.reshape({batch, 1, 28, 28})).reshape({batch, width, kPatches});
      memory.push_back(image_encoder_(patches.transpose(1, 2) + image_positions_.weight()));
      padding.push_back(ts::zeros({batch, kPatches}, ts::kS32) != 0.0);
    }
    if (task != kImage) {
      padding.push_back(text == 0.0);
      memory.push_back(text_encoder_(tokens_(text) + text_positions_.weight(),
                                     nn::EncoderMasks{.src_key_padding_mask = padding.back()}));
    }
    const Tensor queries = queries_[task].weight().broadcast_to({batch, kQueries, width});
    const Tensor read =
        decoder_(queries, ts::concat(memory, 1), nn::DecoderMasks{.memory_key_padding_mask = ts::concat(padding, 1)});
    return heads_[task](ts::mean(read, 1));
  }
  // The inner units of all layers over `model`.
  void shard(const ts::Mesh& mesh) {
    const auto shard_layers = [&](auto& layers) {
      for (const auto& layer : layers) {
        ts::mark_sharding(layer->linear1().weight(), mesh, {"model", {}});
        ts::mark_sharding(layer->linear2().weight(), mesh, {{}, "model"});
      }
    };
    shard_layers(image_encoder_.layers());
    shard_layers(text_encoder_.layers());
    shard_layers(decoder_.layers());
  }

 private:
  nn::Conv2d patches_;
  nn::Embedding image_positions_, tokens_, text_positions_;
  nn::TransformerEncoder image_encoder_, text_encoder_;
  nn::TransformerDecoder decoder_;
  nn::ModuleList<nn::Embedding> queries_;
  nn::ModuleList<nn::Linear> heads_;
};

// Random pixels whose class is the brightest of ten stripes.
ts::data::ImageDataset fake_images(std::int64_t count) {
  const ts::Type type = ts::Type::array(ts::DType::kU8, {count, 28, 28});
  ts::data::ImageDataset out{ts::Literal(type), ts::Literal(ts::Type::array(ts::DType::kU8, {count})), 10};
  auto pixels = out.images.mutable_data<std::uint8_t>(), labels = out.labels.mutable_data<std::uint8_t>();
  std::mt19937 draw(1);
  for (std::size_t i = 0; i < labels.size(); ++i) {
    labels[i] = static_cast<std::uint8_t>(draw() % 10);
    for (std::size_t p = 0; p < 784; ++p)
      pixels[i * 784 + p] = static_cast<std::uint8_t>(draw() % 128 + (p % 28 / 3 == labels[i] ? 64 : 0));
  }
  return out;
}

struct Batch {
  Tensor pixels, text, labels;
};

// Every second text names the class of its image. The others name another one.
Batch batch_of(Task task, const ts::data::ImageDataset& images, const std::vector<std::int64_t>& samples,
               const ts::Mesh& mesh) {
  const ts::Literal classes = images.classes_of(samples);
  std::vector<std::int32_t> bytes, labels;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const std::int32_t shown = classes.data<std::int32_t>()[i];
    const auto named = i % 2 == 0 ? shown : static_cast<std::int32_t>((shown + 1 + samples[i] % 9) % 10);
    const std::string& name = kNames[static_cast<std::size_t>(named)];
    for (std::size_t place = 0; place < kTextSize; ++place)
      bytes.push_back(place < name.size() ? static_cast<unsigned char>(name[place]) : 0);
    labels.push_back(task == kImage ? shown : task == kText ? named : shown == named);
  }
  const auto count = static_cast<std::int64_t>(samples.size());
  Batch out{Tensor::from_host(images.pixels(samples)), Tensor::from<std::int32_t>({count, kTextSize}, bytes),
            Tensor::from<std::int32_t>({count}, labels)};
  ts::mark_sharding(out.pixels, mesh, {"data", {}});
  ts::mark_sharding(out.text, mesh, {"data", {}});
  ts::mark_sharding(out.labels, mesh, {"data"});
  return out;
}

// The values that this rank has read on the host.
std::int64_t reads() {
  const auto transfers = ts::metrics().metric_data("TransferFromDeviceTime");
  return ts::lazy_counters().forced_reads + (transfers ? transfers->total_samples : 0);
}

int train(int argc, char** argv) {
  const ts::Runtime runtime(argc, argv);
  Flags flags;
  ts::ArgumentParser parser("train_unit", "Trains one transformer for tasks with images and texts, over a mesh.");
  parser.flag("data", flags.data, "folder of the idx files of Fashion-MNIST")
      .flag("fake_data", flags.fake_data, "generated images instead of files")
      .flag("mesh", flags.mesh, "sizes of the axes data and model, as in data=2,model=2")
      .flag("steps", flags.steps, "number of updates; each update trains one task, in turn")
      .flag("batch", flags.batch, "samples in a batch, over all ranks")
      .flag("learning_rate", flags.learning_rate, "learning rate of AdamW")
      .flag("virtual_ranks", flags.virtual_ranks, "run this many ranks as threads of this process");
  if (!parser.parse(argc, argv)) {
    if (runtime.is_master()) std::fputs(parser.help().c_str(), stdout);
    return 0;
  }
  const ts::Mesh mesh = ts::Mesh::parse(flags.mesh, runtime.rank_count());
  const auto images = flags.fake_data ? fake_images(2000) : ts::data::read_mnist(flags.data, "train", 10);
  Unit model(flags);
  model.shard(mesh);
  ts::optim::AdamW optimizer(model.parameters(), {.learning_rate = flags.learning_rate});
  ts::data::SampleOrder order(images.size(), {.global_batch_size = flags.batch, .drop_last = true});
  std::array<Tensor, kTasks> losses;
  std::int64_t forward_reads = 0;
  for (std::int64_t step = 1; step <= flags.steps; ++step) {
    const auto task = static_cast<Task>((step - 1) % kTasks);
    const Batch batch = batch_of(task, images, order.next(), mesh);
    const std::int64_t before = reads();
    losses[task] = ts::cross_entropy(model(task, batch.pixels, batch.text), batch.labels);
    forward_reads += reads() - before;
    losses[task].backward();
    optimizer.step();
    optimizer.zero_grad();
    ts::mark_step();
    if ((step == kTasks || step % 60 == 0) && runtime.is_master())
      std::printf("step %4ld  image %.5f  text %.5f  match %.5f\n", step, losses[kImage].item(), losses[kText].item(),
                  losses[kMatch].item());
  }
  if (runtime.is_master())
    std::printf("%s: %ld steps, %ld reads in forward passes, %ld programs compiled\n", mesh.str().c_str(), flags.steps,
                forward_reads, ts::lazy_counters().compilations);
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return tessera::launch(argc, argv, train); }
