// SPDX-License-Identifier: Apache-2.0
// Training of a classifier of images.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <memory>
#include <string_view>

#include "bert_parts.h"
#include "flags/input_files.h"
#include "image_sources.h"
#include "run_task.h"
#include "tasks/tasks.h"
#include "tessera/base/error.h"
#include "tessera/base/files.h"
#include "tessera/base/log.h"
#include "tessera/base/text.h"
#include "tessera/frontend/execution/runtime.h"
#include "tessera/frontend/sharding/mark_sharding.h"
#include "tessera/frontend/tensor/functions.h"
#include "tessera/nn/models/registry.h"
#include "tessera/nn/models/resnet.h"
#include "tessera/nn/models/vit.h"
#include "tessera/trainer/programs.h"

namespace tessera::trainer {
namespace {

struct ImageModel : TrainingSetup {
  std::unique_ptr<nn::PretrainedModel> model;
};

// The configurations that --model names.
struct ImageConfig {
  std::string_view name;
  nn::ResNetConfig (*make)(std::int64_t classes);
};
constexpr ImageConfig kImageConfigs[] = {{"resnet18", nn::ResNetConfig::resnet18},
                                         {"resnet50", nn::ResNetConfig::resnet50},
                                         {"tiny", nn::ResNetConfig::tiny}};

const ImageConfig* built_in_config(std::string_view name) {
  const auto* found = std::find_if(std::begin(kImageConfigs), std::end(kImageConfigs),
                                   [&](const ImageConfig& config) { return config.name == name; });
  return found == std::end(kImageConfigs) ? nullptr : found;
}

std::string image_config(const TrainingArguments& arguments, std::int64_t classes) {
  if (!arguments.model_name_or_path.empty()) return read_file(arguments.model_name_or_path + "/config.json");
  const ImageConfig* config = built_in_config(arguments.model);
  return config != nullptr ? config->make(classes).to_json() : read_file(arguments.model);
}

// The flag that gives the model.
std::string what_gave_model(const TrainingArguments& arguments) {
  return arguments.model_name_or_path.empty() ? "--model " + arguments.model
                                              : "--model_name_or_path " + arguments.model_name_or_path;
}

std::int64_t label_count_of(const nn::PretrainedModel& model, const TrainingArguments& arguments) {
  if (const auto* resnet = dynamic_cast<const nn::ResNetForImageClassification*>(&model))
    return resnet->config().num_labels;
  const auto* vit = dynamic_cast<const nn::ViTForImageClassification*>(&model);
  require(
      vit != nullptr, "{} is a {}; give an image classifier: ResNetForImageClassification or ViTForImageClassification",
      [&] { return what_gave_model(arguments); }, model.class_name());
  return vit->config().num_labels;
}

// The labels of the images are numbers of classes. Devices cannot report a label that the model does not have.
void check_label_of_each_class(const nn::PretrainedModel& model, const TrainingArguments& arguments,
                               std::int64_t classes) {
  const std::int64_t labels = label_count_of(model, arguments);
  const bool is_plan_without_data = arguments.dry_run && !arguments.fake_data && arguments.datadir.empty();
  require(
      labels >= classes || is_plan_without_data,
      "{} has {} labels (id2label or num_labels), but {}; a model needs a label for each class",
      [&] { return what_gave_model(arguments); }, labels,
      [&] {
        return arguments.fake_data ? fmt::format("--fake_data_classes is {}", classes)
                                   : fmt::format("{}/train has {} classes", arguments.datadir, classes);
      });
}

ImageModel make_image_model(const TrainingArguments& arguments, std::int64_t classes) {
  ImageModel out;
  begin_setup(arguments, out);
  out.model = nn::make_model(image_config(arguments, classes), what_gave_model(arguments), weight_dtype(arguments));
  check_label_of_each_class(*out.model, arguments, classes);
  out.network = out.model.get();
  if (!arguments.model_name_or_path.empty()) load_weights(arguments, arguments.model_name_or_path, out);
  finish_setup(arguments, out);
  return out;
}

struct ImageData {
  std::shared_ptr<const data::Source> train;       // null in a dry run
  std::shared_ptr<const data::Source> held_out;    // null: there are none
  std::shared_ptr<const data::Collator> collator;  // of the training images; null: they are stacked
  std::int64_t classes = 0;
};

std::shared_ptr<const data::ImageFolder> folder_of(const std::string& path, const std::vector<std::string>& classes) {
  auto out = std::make_shared<const data::ImageFolder>(path);
  require(classes.empty() || out->classes() == classes,
          "{} has other classes than the training images; the numbers of classes are {} and {}", path,
          out->classes().size(), classes.size());
  return out;
}

// The error of a misplaced folder: DIR/train/images/CLASS has the images of all classes in one sub-folder.
void warn_of_one_class(const data::ImageFolder& images, const std::string& path) {
  if (images.classes().size() > 1) return;
  log_shared_warning(
      "{} has one sub-folder, {}, so every image has the same label and there is nothing to learn; give each class of "
      "images a sub-folder",
      path, images.classes().front());
}

// A plan needs only the number of classes.
ImageData planned_images(const TrainingArguments& arguments) {
  ImageData out;
  const bool has_folder = !arguments.fake_data && !arguments.datadir.empty();
  out.classes =
      has_folder ? isize(folder_of(arguments.datadir + "/train", {})->classes()) : arguments.fake_data_classes;
  return out;
}

ImageData load_images(const TrainingArguments& arguments) {
  if (arguments.dry_run) return planned_images(arguments);
  if (arguments.fake_data) {
    const auto all =
        std::make_shared<FakeImages>(arguments.fake_data_samples, arguments.fake_data_classes, arguments.image_size);
    return {all, std::make_shared<FirstSamples>(all, std::min<std::int64_t>(all->size(), 256)), nullptr,
            arguments.fake_data_classes};
  }
  const auto train = folder_of(arguments.datadir + "/train", {});
  warn_of_one_class(*train, arguments.datadir + "/train");
  ImageData out{train, nullptr, std::make_shared<RandomParts>(arguments.image_size), isize(train->classes())};
  if (!arguments.augment) {
    out.train = std::make_shared<SquareImages>(train, arguments.image_size);
    out.collator = nullptr;
  }
  if (const std::string val = arguments.datadir + "/val"; is_there(val))
    out.held_out = std::make_shared<SquareImages>(folder_of(val, train->classes()), arguments.image_size);
  return out;
}

class ImageTask final : public Task {
 public:
  explicit ImageTask(const TrainingArguments& arguments)
      : arguments_(arguments), data_(load_images(arguments)), model_(make_image_model(arguments, data_.classes)) {
    if (arguments.dry_run) return;
    data::LoaderOptions options =
        train_loader_options(arguments, model_, arguments.micro_batch_rows(model_.data_shards));
    options.input_sharding = sharding();
    options.collator = data_.collator;
    loader_ = make_train_loader(arguments, data_.train, std::move(options));
  }

  TrainingSetup& setup() override { return model_; }
  data::Loader& loader() override { return *loader_; }
  [[nodiscard]] std::string model_text() const override {
    return fmt::format("{} ({}), {} classes", model_.model->class_name(),
                       arguments_.model_name_or_path.empty() ? arguments_.model : arguments_.model_name_or_path,
                       data_.classes);
  }
  [[nodiscard]] std::string rows_text() const override {
    return fmt::format("images of {0}x{0}{1}", arguments_.image_size,
                       arguments_.spatial_sharding.empty() ? "" : ", image rows over " + arguments_.spatial_sharding);
  }
  [[nodiscard]] std::string_view unit() const override { return "images"; }
  [[nodiscard]] std::int64_t units_per_row() const override { return 1; }
  // A convolution computes more than its parameters tell.
  [[nodiscard]] std::optional<double> flops(double /*units*/) const override { return std::nullopt; }

  [[nodiscard]] data::Batch planned_batch(std::int64_t rows) const override {
    return abstract_batch(model_, sharding(), FakeImages(1, data_.classes, arguments_.image_size).get(0), rows);
  }
  [[nodiscard]] std::optional<double> label_count(const data::Batch& batch) const override {
    return static_cast<double>(batch.real_rows);
  }
  Tensor record(const BatchTensors& batch, const Tensor& labels, std::int64_t /*micro_batches*/) override {
    const Tensor sum = cross_entropy_parts(logits(batch), batch.tensor("labels"), data::kIgnoredLabel,
                                           arguments_.label_smoothing_factor)
                           .sum;
    const Tensor loss = sum / labels.to(sum.dtype());
    record_gradients(model_, loss);
    return loss.to(DType::kF64);
  }

  [[nodiscard]] std::int64_t held_out() const override { return data_.held_out ? data_.held_out->size() : 0; }
  [[nodiscard]] std::unique_ptr<data::Loader> held_out_batches(std::int64_t samples, std::int64_t rows) override {
    return std::make_unique<data::Loader>(
        std::make_shared<FirstSamples>(data_.held_out, samples),
        data::LoaderOptions{.batch_size = rows, .mesh = model_.mesh, .input_sharding = sharding()});
  }
  LossParts record_evaluation(const BatchTensors& batch) override {
    return classified(logits(batch), batch.tensor("labels"), arguments_.label_smoothing_factor);
  }
  [[nodiscard]] Metrics metrics(const EvaluationSums& sums) const override { return classification_metrics(sums); }

 private:
  // Batches over the data axes, and image rows over the axis of --spatial_sharding.
  [[nodiscard]] data::InputSharding sharding() const {
    const PartitionSpec::Entry batch =
        model_.data_shards == 1 ? PartitionSpec::Entry() : PartitionSpec::Entry(SpecEntry(model_.data_axes));
    const PartitionSpec::Entry rows = arguments_.spatial_sharding.empty()
                                          ? PartitionSpec::Entry()
                                          : PartitionSpec::Entry(arguments_.spatial_sharding);
    return std::map<std::string, PartitionSpec>{
        {"pixel_values", PartitionSpec(std::vector{batch, PartitionSpec::Entry(), rows, PartitionSpec::Entry()})},
        {"labels", PartitionSpec(std::vector{batch})}};
  }

  Tensor logits(const BatchTensors& batch) {
    Tensor images = batch.tensor("pixel_values");
    images.set_name("pixel_values");
    return model_.model->run({{"pixel_values", images}}).logits;
  }

  const TrainingArguments& arguments_;
  ImageData data_;
  ImageModel model_;
  std::unique_ptr<data::Loader> loader_;  // null in a dry run
};

}  // namespace

TrainingArguments image_defaults() {
  TrainingArguments out;
  out.program = TrainingProgram::kImages;
  out.optim = "sgd";
  out.learning_rate = 0.1;
  out.momentum = 0.9;
  out.weight_decay = 1e-4;
  out.logging_steps = 20;
  out.save_strategy = "no";
  return out;
}

void check_image_model(const std::string& name) {
  std::error_code ignored;
  require(built_in_config(name) != nullptr || looks_like_path(name) || std::filesystem::exists(name, ignored),
          "--model {} is not known; give resnet18, resnet50, tiny, or the config.json of an image classifier", name);
}

std::unique_ptr<Task> make_image_task(const TrainingArguments& arguments) {
  return std::make_unique<ImageTask>(arguments);
}

int train_imagenet(const TrainingArguments& arguments) {
  check_same_on_all_ranks(arguments.values());
  check_same_inputs(arguments);
  return run_task(arguments);
}

}  // namespace tessera::trainer
