// SPDX-License-Identifier: Apache-2.0
#include "program_flags.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <initializer_list>
#include <string>
#include <utility>

#include "flags/input_files.h"
#include "tasks/glue_metrics.h"
#include "tasks/tasks.h"
#include "tessera/base/error.h"
#include "tessera/data/glue.h"
#include "tessera/data/padding.h"
#include "tessera/data/token_file.h"
#include "tessera/data/tokenizer.h"
#include "tessera/nn/models/registry.h"

namespace tessera::trainer {
namespace {

void add_text_flags(TrainingArguments& a, ArgumentParser& parser) {
  const char* const forms = a.program == TrainingProgram::kClm
                                ? "a text file, .jsonl, .csv, a folder of texts, or a token file"
                                : "a text file, .jsonl, .csv, or a folder of texts";
  parser.flag("train_file", a.train_file, fmt::format("text to train on: {}", forms))
      .flag("validation_file", a.validation_file,
            "text to evaluate on, in any of these forms; default: the end of train_file")
      .flag("text_column_name", a.text_column_name,
            "key of the text in .jsonl files, or its column in .csv files [text, or else the first one]")
      .flag("dataset_name", a.dataset_name, "folder of raw text under cache_dir or $TESSERA_DATA, such as wikitext")
      .flag("dataset_config_name", a.dataset_config_name, "folder in that of dataset_name, such as wikitext-2-raw-v1")
      .flag("cache_dir", a.cache_dir,
            "folder in which data sets and named models are looked up, and in which the tokens of texts are kept for "
            "later runs")
      .flag("validation_split_percentage", a.validation_split_percentage,
            "percentage of train_file, at its end, that is held out for evaluation");
}

void add_clm_flags(TrainingArguments& a, ArgumentParser& parser) {
  parser
      .flag("model_name_or_path", a.model_name_or_path,
            "the model to start from: a folder with config.json and model.safetensors, or the name of a model in "
            "cache_dir or $HF_HOME/hub")
      .flag("config_name", a.config_name, "config.json of a causal language model; default: that of model_name_or_path")
      .flag("model_type", a.model_type,
            "type of the model, if the configuration does not name it: gpt2, llama, mistral, qwen2, qwen3, mixtral")
      .flag("config_overrides", a.config_overrides, "values that replace those of the configuration, as in n_embd=10")
      .flag("tokenizer_name", a.tokenizer_name,
            "bytes; bpe:N, a vocabulary of at most N ids, trained on the text; a file: GPT-2's vocab.bpe, merges.txt "
            "or tokenizer.json; or the name of a model; the tokenizer of model_name_or_path or of a token file, if "
            "there is one, replaces the default");
  add_text_flags(a, parser);
  parser.flag("fake_data", a.fake_data, "train on samples of random tokens instead of a text")
      .flag("fake_data_samples", a.fake_data_samples, "number of samples of random tokens")
      .flag("block_size", a.block_size,
            "number of tokens in a sample; 0: the largest length that the model supports, but at most 1024")
      .flag("neftune_noise_alpha", a.neftune_noise_alpha,
            "alpha of NEFTune: training adds uniform noise between plus and minus alpha / sqrt(T d) to the embeddings "
            "of tokens; T: length of a sample, d: width of the model [no noise]");
}

void add_bert_flags(TrainingArguments& a, ArgumentParser& parser) {
  parser
      .flag("model_name_or_path", a.model_name_or_path,
            "the model to start from: a folder with config.json and model.safetensors, or the name of a model in "
            "cache_dir or $HF_HOME/hub")
      .flag("config_name", a.config_name,
            "config.json of a BERT, or a built-in configuration: tiny, bert-base-uncased or bert-large-uncased; "
            "default: that of model_name_or_path")
      .flag("config_overrides", a.config_overrides,
            "values that replace those of the configuration, as in vocab_size=260")
      .flag("tokenizer_name", a.tokenizer_name,
            "vocab.txt, tokenizer.json or the folder of one; default: that of model_name_or_path, else bytes with four "
            "special ids")
      .flag("max_seq_length", a.max_seq_length,
            "number of tokens in a sample [the number of positions of the model, but at most 1024; in "
            "run_classification at most 128]")
      .flag("pad_to_max_length", a.pad_to_max_length,
            "pad samples to max_seq_length instead of to the longest sample of the batch")
      .flag("length_buckets", a.length_buckets,
            "lengths that a batch may have, as in 32,64,128, which limits the number of compilations: a batch is "
            "padded to the smallest of them that its longest sample fits into; max_seq_length is always one of them");
}

void add_mlm_flags(TrainingArguments& a, ArgumentParser& parser) {
  add_bert_flags(a, parser);
  add_text_flags(a, parser);
  parser
      .flag("line_by_line", a.line_by_line,
            "each line of the text is a sample; otherwise the lines are concatenated and divided into blocks")
      .flag("mlm_probability", a.mlm_probability, "fraction of tokens to predict");
}

void add_classification_flags(TrainingArguments& a, ArgumentParser& parser) {
  add_bert_flags(a, parser);
  parser
      .flag("task_name", a.task_name,
            fmt::format("task of GLUE, which determines the columns, the labels and the metrics: {}",
                        fmt::join(data::glue_task_names(), ", ")))
      .flag("data_dir", a.data_dir,
            "folder with the files of task_name, or the folder that contains it; default: the folder of the task in "
            "cache_dir or $TESSERA_DATA")
      .flag("train_file", a.train_file,
            "TSV or CSV file to train on: with task_name in the format of the task, otherwise with a header, a column "
            "label, and one or two columns of text")
      .flag("validation_file", a.validation_file,
            "TSV or CSV file to evaluate on, in the format of train_file; default: that of task_name")
      .flag("test_file", a.test_file, "TSV or CSV file with the texts of do_predict; default: that of task_name")
      .flag("do_predict", a.do_predict, "write the predictions for the texts of test_file into output_dir at the end")
      .flag("max_predict_samples", a.max_predict_samples, "predict only this many samples, the first ones [all]")
      .flag("cache_dir", a.cache_dir, "folder in which model_name_or_path and the files of task_name are looked up");
}

void add_image_flags(TrainingArguments& a, ArgumentParser& parser) {
  parser.flag("model", a.model, "resnet18, resnet50, tiny, or the config.json of an image classifier (ResNet, ViT)")
      .flag("model_name_or_path", a.model_name_or_path,
            "the model to start from: a folder with config.json and model.safetensors")
      .flag("datadir", a.datadir,
            "folder with the folders train and val, which contain a folder of images for each class")
      .flag("fake_data", a.fake_data, "train on generated images instead of files")
      .flag("fake_data_samples", a.fake_data_samples, "number of generated images")
      .flag("fake_data_classes", a.fake_data_classes, "number of classes of the generated images")
      .flag("image_size", a.image_size, "height and width of images")
      .flag("spatial_sharding", a.spatial_sharding, "axis of the mesh over which the rows of images are sharded")
      .flag("augment", a.augment,
            "train on random crops of images, mirrored with probability 1/2; false: on the square at the centre, as in "
            "evaluation")
      .flag("momentum", a.momentum, "momentum of SGD")
      .flag("batch_size", a.per_device_train_batch_size, "the same as --per_device_train_batch_size")
      .flag("test_set_batch_size", a.per_device_eval_batch_size, "the same as --per_device_eval_batch_size")
      .flag("num_epochs", a.num_train_epochs, "the same as --num_train_epochs")
      .flag("lr", a.learning_rate, "the same as --learning_rate")
      .flag("log_steps", a.logging_steps, "the same as --logging_steps");
}

void check_text(const TrainingArguments& a) {
  const bool is_evaluated = !a.validation_file.empty();
  require(has_training_text(a) || a.dry_run || is_evaluated || a.do_train,
          "--do_train false needs a text to evaluate on: give --validation_file, or --train_file or --dataset_name, of "
          "which a part is held out");
  require(has_training_text(a) || a.dry_run || !a.do_train,
          "no text to train on: give --train_file, or --dataset_name with --cache_dir or TESSERA_DATA{}{}",
          a.program == TrainingProgram::kClm ? ", or --fake_data" : "",
          is_evaluated ? "; to evaluate without training, add --do_train false" : "");
  require(a.train_file.empty() || a.dataset_name.empty(), "--train_file and --dataset_name exclude each other");
  require(a.validation_split_percentage >= 0 && a.validation_split_percentage < 100,
          "--validation_split_percentage must be in [0, 100), got {}", a.validation_split_percentage);
}

// Random tokens need no text.
void check_fake_tokens(const TrainingArguments& a) {
  for (const auto& [flag, value] :
       std::initializer_list<std::pair<const char*, const std::string&>>{{"--train_file", a.train_file},
                                                                         {"--validation_file", a.validation_file},
                                                                         {"--dataset_name", a.dataset_name}})
    require(value.empty(), "--fake_data and {} exclude each other: random tokens replace the text", flag);
  constexpr std::int64_t kMostSamples = 1 << 30;
  require(a.fake_data_samples >= 1 && a.fake_data_samples <= kMostSamples,
          "--fake_data_samples must be from 1 to {}, got {}", kMostSamples, a.fake_data_samples);
}

// bpe:N is trained on the text to train on.
void check_trained_tokenizer(const TrainingArguments& a) {
  data::check_bpe_name(a.tokenizer_name);
  const bool is_recorded = data::TokenFile::is_token_file(a.validation_file);
  require(a.fake_data || a.dry_run || has_training_text(a) || is_recorded,
          "--tokenizer_name {} is trained on the training text, but there is none; give the tokenizer of the model: a "
          "file, or the folder of one",
          a.tokenizer_name);
}

void check_overrides(const TrainingArguments& a) {
  check_flag("--config_overrides: ", [&] { (void)config_overrides_of(a.config_overrides); });
}

void check_clm(const TrainingArguments& a) {
  require(!a.config_name.empty() || !a.model_name_or_path.empty(),
          "give --config_name, the config.json of a causal language model, or --model_name_or_path, a folder with "
          "config.json and model.safetensors");
  const bool is_word = a.tokenizer_name.find_first_of("/.:") == std::string::npos;
  require(!is_word || a.tokenizer_name == "bytes" || std::filesystem::exists(a.tokenizer_name),
          "--tokenizer_name {} is not known; give bytes, bpe:N (trained on the text), a file (GPT-2's vocab.bpe or "
          "merges.txt, a tokenizer.json), the folder of one, or the name of a model in --cache_dir or $HF_HOME/hub",
          a.tokenizer_name);
  if (a.fake_data)
    check_fake_tokens(a);
  else
    check_text(a);
  require(a.block_size == 0 || a.block_size >= 2, "--block_size must be at least 2, or 0, got {}", a.block_size);
  if (a.tokenizer_name.starts_with("bpe:")) check_trained_tokenizer(a);
  check_overrides(a);
  check_flag("--model_type: ", [&] { nn::check_model_type(a.model_type); });
  const double alpha = a.neftune_noise_alpha.value_or(0);
  require(alpha >= 0 && std::isfinite(alpha), "--neftune_noise_alpha must not be negative, got {}", alpha);
}

void check_length_buckets(const TrainingArguments& a) {
  if (a.length_buckets.empty()) return;
  require(!a.pad_to_max_length, "--length_buckets and --pad_to_max_length exclude each other");
  require(a.program != TrainingProgram::kMlm || a.line_by_line,
          "--length_buckets needs --line_by_line: otherwise all samples have max_seq_length tokens");
  check_flag("--length_buckets: ", [&] {
    const std::int64_t longest = data::read_length_buckets(a.length_buckets).back();
    const std::int64_t most = a.max_seq_length.value_or(longest);
    require(longest <= most, "{} is more than --max_seq_length {}", longest, most);
  });
}

void check_bert_flags(const TrainingArguments& a) {
  require(!a.config_name.empty() || !a.model_name_or_path.empty(),
          "give --config_name, the config.json of a BERT (or tiny, bert-base-uncased, bert-large-uncased), or "
          "--model_name_or_path, a folder with config.json and model.safetensors");
  constexpr std::int64_t kLeast = 4;  // the special tokens, and one more
  const std::int64_t length = a.max_seq_length.value_or(kLeast);
  require(length >= kLeast, "--max_seq_length must be at least {}, got {}", kLeast, length);
  check_length_buckets(a);
  check_overrides(a);
}

// Of the evaluation of a classification. The metrics of the other programs are the choices of the flag.
void check_metric_of_task(const TrainingArguments& a, const data::GlueTask* task) {
  std::string_view metric = a.metric_for_best_model;
  if (metric.starts_with("eval_")) metric.remove_prefix(5);
  const std::vector<std::string> names = evaluation_names(task);
  require(metric.empty() || std::find(names.begin(), names.end(), metric) != names.end(),
          "--metric_for_best_model {}: the metrics of {} are {}", a.metric_for_best_model,
          task != nullptr ? "the GLUE task " + task->name : "an evaluation without --task_name",
          fmt::join(names, ", "));
}

void check_predictions(const TrainingArguments& a) {
  if (!a.do_predict) return;
  require(!a.output_dir.empty(), "--do_predict needs --output_dir, where it writes the predictions");
  require(!a.test_file.empty() || (!a.task_name.empty() && a.train_file.empty()),
          "--do_predict needs --test_file, a TSV or CSV file with the texts; it has a default only with --task_name "
          "and without --train_file");
}

void check_texts_with_labels(const TrainingArguments& a) {
  require(!a.train_file.empty() || !a.task_name.empty() || a.dry_run || !a.do_train,
          "give --train_file, a TSV or CSV file with a header, or --task_name, a task of GLUE");
  require(a.do_train || a.dry_run || !a.train_file.empty() || !a.task_name.empty() || !a.validation_file.empty() ||
              a.do_predict,
          "--do_train false needs --validation_file, or --do_predict with --test_file");
  require(a.data_dir.empty() || !a.task_name.empty(), "--data_dir {} needs --task_name: the task of GLUE", a.data_dir);
  require(a.data_dir.empty() || a.train_file.empty(), "--data_dir and --train_file exclude each other");
  check_predictions(a);
  if (a.task_name.empty()) return check_metric_of_task(a, nullptr);
  const data::GlueTask* task = nullptr;
  check_flag("--task_name: ", [&] { task = &data::glue_task(a.task_name); });
  check_metric_of_task(a, task);
  require(a.label_smoothing_factor == 0 || !task->is_regression(),
          "--label_smoothing_factor {}: the labels of the GLUE task {} are numbers, which cannot be smoothed",
          a.label_smoothing_factor, task->name);
}

void check_images(const TrainingArguments& a) {
  require(a.fake_data || !a.datadir.empty() || a.dry_run, "no images to train on: give --datadir, or --fake_data");
  require(a.image_size >= 8, "--image_size must be at least 8, got {}", a.image_size);
  require(a.fake_data_samples >= 1 && a.fake_data_classes >= 2,
          "--fake_data_samples must be at least 1 and --fake_data_classes at least 2, got {} and {}",
          a.fake_data_samples, a.fake_data_classes);
  require(a.momentum >= 0 && a.momentum < 1, "--momentum must be in [0, 1), got {}", a.momentum);
  if (a.model_name_or_path.empty()) check_image_model(a.model);
}

}  // namespace

void add_program_flags(TrainingArguments& arguments, ArgumentParser& parser) {
  if (arguments.program == TrainingProgram::kModel) return;
  parser.group("model and data");
  switch (arguments.program) {
    case TrainingProgram::kClm: return add_clm_flags(arguments, parser);
    case TrainingProgram::kMlm: return add_mlm_flags(arguments, parser);
    case TrainingProgram::kClassification: return add_classification_flags(arguments, parser);
    case TrainingProgram::kImages: return add_image_flags(arguments, parser);
    case TrainingProgram::kModel: return;
  }
}

void check_program_flags(const TrainingArguments& a) {
  switch (a.program) {
    case TrainingProgram::kClm: return check_clm(a);
    case TrainingProgram::kMlm:
      check_bert_flags(a);
      check_text(a);
      require(a.mlm_probability > 0 && a.mlm_probability <= 1, "--mlm_probability must be in (0, 1], got {}",
              a.mlm_probability);
      return;
    case TrainingProgram::kClassification: check_bert_flags(a); return check_texts_with_labels(a);
    case TrainingProgram::kImages: return check_images(a);
    case TrainingProgram::kModel:
      require(a.label_smoothing_factor == 0,
              "label_smoothing_factor: only the training programs smooth labels; give the Trainer compute_loss with "
              "cross_entropy_parts()");
      require(!a.neftune_noise_alpha,
              "neftune_noise_alpha: only run_clm adds noise to embeddings; call nn::add_embedding_noise()");
      return require(
          !a.dry_run,
          "--dry_run works only in the training programs, which make the model themselves; a Trainer is given a model");
  }
}

}  // namespace tessera::trainer
