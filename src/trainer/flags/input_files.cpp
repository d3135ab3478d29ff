// SPDX-License-Identifier: Apache-2.0
#include "flags/input_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tessera/base/log.h"
#include "tessera/base/random_access.h"
#include "tessera/base/rank_context.h"
#include "tessera/base/text.h"
#include "tessera/checkpoint/pretrained.h"
#include "tessera/data/text_dataset.h"
#include "tessera/data/text_files.h"
#include "tessera/data/token_file.h"
#include "tessera/frontend/execution/runtime.h"

namespace tessera::trainer {
namespace {

namespace fs = std::filesystem;

// Of a file of at most 16 MiB, everything; of a larger file, such as a token file, 16 MiB.
constexpr SampleBlocks kOfFile{.count = 4096, .bytes = 4096};

std::uint64_t hash_of_file(const std::string& path) {
  const InputFile file(path);
  return hash_of_samples(file, 0, file.size(), kOfFile);
}

std::string file_text(const std::string& path) {
  const InputFile file(path);
  return fmt::format("{} ({} bytes, hash {:016x})", path, file.size(), hash_of_samples(file, 0, file.size(), kOfFile));
}

// Of texts and configurations. The folder of a model also has files that are large, or that no rank reads.
bool is_text(const fs::path& path) {
  constexpr std::array<std::string_view, 6> kEndings{".json", ".txt", ".bpe", ".model", ".raw", ".tokens"};
  return std::find(kEndings.begin(), kEndings.end(), path.extension().string()) != kEndings.end();
}

bool is_of_tokenizer(const fs::path& path) {
  const auto names = tokenizer_file_names();
  return std::find(names.begin(), names.end(), path.filename().string()) != names.end();
}
// A program also writes other files into a folder of a model.
bool is_of_model(const fs::path& path) {
  const std::string name = path.filename().string();
  return is_of_tokenizer(path) || name == "config.json" || name == "model.safetensors.index.json";
}

// The hashes of the files that `is_wanted`: `config.json 0123456789abcdef, vocab.txt …`.
std::string folder_content(const std::string& path, const std::function<bool(const fs::path&)>& is_wanted) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(path))
    if (entry.is_regular_file() && is_wanted(entry.path())) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  std::vector<std::string> parts;
  for (const std::string& name : names)
    parts.push_back(fmt::format("{} {:016x}", name, hash_of_file((fs::path(path) / name).string())));
  return parts.empty() ? "no text or configuration" : fmt::format("{}", fmt::join(parts, ", "));
}
std::string folder_text(const std::string& path, const std::function<bool(const fs::path&)>& is_wanted) {
  return fmt::format("{} ({})", path, folder_content(path, is_wanted));
}

// The names of all files, because they give the classes, and the content of a few.
std::string images_content(const std::string& path) {
  std::vector<std::string> names;
  for (const auto& entry : fs::recursive_directory_iterator(path))
    if (entry.is_regular_file()) names.push_back(fs::path(entry.path()).lexically_relative(path).string());
  std::sort(names.begin(), names.end());
  constexpr std::size_t kSamples = 64;
  const std::size_t stride = std::max<std::size_t>(1, names.size() / kSamples);
  std::uint64_t hash = 0;
  for (std::size_t i = 0; i < names.size(); ++i) {
    hash = hash_mix(hash, hash_text(names[i]));
    if (i % stride == 0) hash = hash_mix(hash, hash_of_file((fs::path(path) / names[i]).string()));
  }
  return fmt::format("{} files, hash {:016x}", names.size(), hash);
}

// The names and contents of the texts in a folder. Of large files, samples.
std::string texts_content(const std::string& folder) {
  const std::vector<data::TextInput> texts = data::find_texts({folder});
  std::uint64_t hash = 0;
  for (const data::TextInput& text : texts) {
    hash = hash_mix(hash, hash_text(fs::path(text.path).lexically_relative(folder).string()));
    hash = hash_mix(hash, hash_of_file(text.path));
  }
  return fmt::format("{} file{}, hash {:016x}", texts.size(), texts.size() == 1 ? "" : "s", hash);
}

// The text, or that of the error, which the ranks compare, too: others would wait for a rank that throws.
std::string text_or_error(const std::function<std::string()>& text) {
  try {
    return text();
  } catch (const std::exception& error) {  // also of std::filesystem
    return error.what();
  }
}

std::string input_text(const std::string& path) {
  return text_or_error([&] {
    if (path.empty() || !fs::exists(path)) return path;
    return fs::is_directory(path) ? folder_text(path, is_of_model) : file_text(path);
  });
}

bool is_folder_of_texts(const std::string& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

// Of --train_file, --validation_file and --test_file.
std::string text_input(const std::string& path) {
  if (data::TokenFile::is_token_file(path)) return input_text(path);
  if (!is_folder_of_texts(path)) return path;
  return text_or_error([&] { return fmt::format("{} ({})", path, texts_content(path)); });
}

std::vector<std::pair<std::string, std::string>> named_texts(const TrainingArguments& arguments) {
  return {{"train_file", arguments.train_file}, {"validation_file", arguments.validation_file}};
}

}  // namespace

bool has_training_text(const TrainingArguments& arguments) {
  return !arguments.train_file.empty() || !arguments.dataset_name.empty();
}

bool names_documents(const std::string& path) {
  return is_folder_of_texts(path) || data::text_form(path) != data::TextForm::kText;
}

std::string text_column(const TrainingArguments& arguments) {
  if (!arguments.text_column_name.empty()) return arguments.text_column_name;
  std::vector<data::TextInput> inputs;
  for (const auto& [flag, path] : named_texts(arguments)) {
    if (!names_documents(path)) continue;
    const std::vector<data::TextInput> more = data::find_texts({path});
    inputs.insert(inputs.end(), more.begin(), more.end());
  }
  return data::default_text_column(inputs);
}

void check_kinds_of_texts(const TrainingArguments& arguments) {
  std::vector<std::pair<std::string, std::string>> kinds = named_texts(arguments);
  for (auto& [flag, path] : kinds)
    path += data::TokenFile::is_token_file(path) ? " (a token file)" : is_folder_of_texts(path) ? " (a folder)" : "";
  check_same_on_all_ranks(kinds);
}

std::vector<RequiredFile> required_texts(const TrainingArguments& arguments) {
  std::vector<RequiredFile> out;
  for (const auto& [flag, path] : named_texts(arguments))
    if (!data::TokenFile::is_token_file(path) && !is_folder_of_texts(path)) out.push_back({path, "--" + flag, ""});
  return out;
}

void warn_of_skipped_files(const TrainingArguments& arguments) {
  for (const auto& [flag, path] : named_texts(arguments))
    if (const std::string text = data::skipped_files_text(path); !text.empty())
      log_shared_warning("--{}: {}", flag, text);
}

void check_same_inputs(const TrainingArguments& arguments) {
  if (RankContext::current().rank_count() == 1) return;
  std::vector<std::pair<std::string, std::string>> inputs;
  for (const auto& [flag, path] :
       {std::pair{"train_file", arguments.train_file}, std::pair{"validation_file", arguments.validation_file},
        std::pair{"test_file", arguments.test_file}})
    inputs.emplace_back(flag, text_input(path));
  inputs.emplace_back("tokenizer_name", input_text(arguments.tokenizer_name));
  inputs.emplace_back("config_name", input_text(arguments.config_name));
  inputs.emplace_back("model_name_or_path", input_text(arguments.model_name_or_path));
  if (!arguments.dataset_name.empty())
    inputs.emplace_back(
        "dataset_name", text_or_error([&] {
          return folder_text(
              data::find_dataset_folder(arguments.dataset_name, arguments.dataset_config_name, arguments.cache_dir),
              is_text);
        }));
  if (!arguments.datadir.empty() && !arguments.fake_data)
    inputs.emplace_back("datadir", text_or_error([&] {
                          return fmt::format("{} ({})", arguments.datadir, images_content(arguments.datadir));
                        }));
  check_same_on_all_ranks(inputs, "ranks read different files; give every rank the same content");
}

std::int64_t content_of_inputs(const TrainingArguments& arguments) {
  std::string all;
  try {
    if (!arguments.train_file.empty())
      all = is_folder_of_texts(arguments.train_file) ? texts_content(arguments.train_file)
                                                     : fmt::format("{:016x}", hash_of_file(arguments.train_file));
    else if (!arguments.dataset_name.empty())
      all = folder_content(
          data::find_dataset_folder(arguments.dataset_name, arguments.dataset_config_name, arguments.cache_dir),
          is_text);
    else if (!arguments.datadir.empty() && !arguments.fake_data)
      all = images_content(arguments.datadir + "/train");
  } catch (const std::exception&) {  // the program reports files that cannot be read
    return 0;
  }
  return all.empty() ? 0 : static_cast<std::int64_t>(hash_text(all + arguments.train_sampling_strategy));
}

}  // namespace tessera::trainer
