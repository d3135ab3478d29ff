// SPDX-License-Identifier: Apache-2.0
// A training step of ResNet or BERT, timed, on one rank or on several that divide the batch. Prints one line of JSON.
// bench/peers/resnet50 and bench/peers/bert compare it with PyTorch.
#include <cmath>
#include <cstdio>
#include <memory>

#include "tessera/base/argument_parser.h"
#include "tessera/base/text.h"
#include "tessera/tessera.h"
#include "train_step/step_report.h"

namespace tessera::bench {
namespace {

struct Arguments {
  std::string model = "resnet50";
  std::int64_t batch = 8;         // rows over all ranks
  std::int64_t image_size = 224;  // of ResNet
  std::int64_t length = 128;      // of BERT
  std::int64_t steps = 5;
  std::string profile;
  std::int64_t virtual_ranks = 0;  // launch() reads it
};

nn::BertConfig small_bert() {
  nn::BertConfig out;
  out.hidden_size = 512;
  out.num_hidden_layers = 4;
  out.num_attention_heads = 8;
  out.intermediate_size = 2048;
  return out;
}

// The model, its inputs and its optimizer.
struct Case {
  std::unique_ptr<nn::PretrainedModel> model;
  nn::ModelInputs inputs;
  std::unique_ptr<optim::Optimizer> optimizer;
};

Tensor integers(const Dims& dims, std::int64_t below) {
  std::vector<std::int32_t> values;
  for (std::int64_t i = 0; i < product(dims); ++i)
    values.push_back(static_cast<std::int32_t>((i * 7919 + i / 3) % below));
  return Tensor::from<std::int32_t>(dims, values);
}

Case image_case(const Arguments& arguments, const nn::ResNetConfig& config) {
  Case out;
  out.model = std::make_unique<nn::ResNetForImageClassification>(config);
  const Dims dims = {arguments.batch, 3, arguments.image_size, arguments.image_size};
  std::vector<float> pixels;
  for (std::int64_t i = 0; i < product(dims); ++i) pixels.push_back(static_cast<float>(i * 37 % 101) / 50.0F - 1);
  out.inputs = {{"pixel_values", Tensor::from<float>(dims, pixels)},
                {"labels", integers({arguments.batch}, config.num_labels)}};
  out.optimizer =
      std::make_unique<optim::SGD>(out.model->parameters(), optim::SgdOptions{.learning_rate = 0.01, .momentum = 0.9});
  return out;
}

Case text_case(const Arguments& arguments, const nn::BertConfig& config) {
  Case out;
  out.model = std::make_unique<nn::BertForMaskedLM>(config);
  const Dims dims = {arguments.batch, arguments.length};
  std::vector<std::int32_t> labels;  // one token in seven
  for (std::int64_t i = 0; i < product(dims); ++i)
    labels.push_back(i % 7 == 0 ? static_cast<std::int32_t>(i * 31 % config.vocab_size) : -100);
  const std::vector<std::int32_t> mask(labels.size(), 1);
  out.inputs = {{"input_ids", integers(dims, config.vocab_size)},
                {"attention_mask", Tensor::from<std::int32_t>(dims, mask)},
                {"labels", Tensor::from<std::int32_t>(dims, labels)}};
  out.optimizer = std::make_unique<optim::AdamW>(out.model->parameters(), optim::AdamWOptions{.learning_rate = 1e-4});
  return out;
}

Case case_of(const Arguments& arguments) {
  if (arguments.model == "resnet18") return image_case(arguments, nn::ResNetConfig::resnet18());
  if (arguments.model == "resnet50") return image_case(arguments, nn::ResNetConfig::resnet50());
  if (arguments.model == "bert_small") return text_case(arguments, small_bert());
  return text_case(arguments, nn::BertConfig::tiny());
}

int run(const Arguments& arguments, const Runtime& runtime) {
  const Mesh mesh({{"data", runtime.rank_count()}});
  set_default_mesh(mesh);
  Case given = case_of(arguments);
  std::vector<std::string> names;
  std::vector<Tensor> tensors;
  for (const auto& [name, tensor] : given.inputs) {
    std::vector<PartitionSpec::Entry> entries(static_cast<std::size_t>(tensor.ndim()));
    entries.front() = PartitionSpec::Entry("data");
    mark_sharding(tensor, mesh, PartitionSpec(std::move(entries)));
    names.push_back(name);
    tensors.push_back(tensor);
  }
  CompiledFunction step([&](const std::vector<Tensor>& values) {
    nn::ModelInputs inputs;
    for (std::size_t i = 0; i < values.size(); ++i) inputs.emplace(names[i], values[i]);
    const Tensor loss = given.model->run(inputs).loss;
    loss.backward();
    given.optimizer->step();
    given.optimizer->zero_grad();
    return std::vector<Tensor>{loss};
  });
  const double first = step(tensors).front().item();
  (void)step(tensors).front().item();
  std::vector<double> times;
  double loss = 0;
  for (std::int64_t i = 0; i < arguments.steps; ++i) {
    const auto start = Clock::now();
    loss = step(tensors).front().item();
    times.push_back(seconds_since(start));
  }
  require(std::isfinite(loss), "the loss is {}", loss);
  if (!runtime.is_master()) return 0;
  const double seconds = median(times);
  JsonLine line;
  line.add("model", arguments.model).add("ranks", runtime.rank_count()).add("batch", arguments.batch);
  line.add("first_loss", first).add("seconds", seconds);
  line.add("samples_per_second", static_cast<double>(arguments.batch) / seconds);
  std::puts(line.str().c_str());
  if (!arguments.profile.empty() && runtime.rank_count() == 1) {
    (void)host_seconds(
        step_program(), [] {}, [&] { step(tensors); });
    write_profile(step_program(), arguments.profile);
  }
  return 0;
}

}  // namespace
}  // namespace tessera::bench

int main(int argc, char** argv) {
  return tessera::launch(argc, argv, [](int count, char** values) {
    const tessera::Runtime runtime(count, values);
    tessera::bench::Arguments arguments;
    tessera::ArgumentParser parser("model_step", "Times a training step of ResNet or BERT; prints a line of JSON.");
    parser.choice("model", arguments.model, {"resnet18", "resnet50", "bert_tiny", "bert_small"}, "what is trained")
        .flag("batch", arguments.batch, "rows over all ranks")
        .flag("image_size", arguments.image_size, "height and width of images")
        .flag("length", arguments.length, "tokens in a text")
        .flag("steps", arguments.steps, "steps that are timed")
        .flag("profile", arguments.profile, "file for the time of each kind of schedule step and of the longest steps")
        .flag("virtual_ranks", arguments.virtual_ranks, "run this many ranks as threads of this process");
    if (!parser.parse(count, values)) {
      std::fputs(parser.help().c_str(), stdout);
      return 0;
    }
    return tessera::bench::run(arguments, runtime);
  });
}
