// SPDX-License-Identifier: Apache-2.0
#include "flags/config_overrides.h"

#include <fmt/format.h>

#include <filesystem>

#include "tessera/base/error.h"
#include "tessera/base/json_object.h"
#include "tessera/base/text.h"

namespace tessera::trainer {

std::vector<std::pair<std::string, std::string>> config_overrides_of(const std::string& text) {
  std::vector<std::pair<std::string, std::string>> out;
  if (text.empty()) return out;
  for (const std::string& one : split(text, ',')) {
    const auto equals = one.find('=');
    require(equals != std::string::npos && equals > 0, "\"{}\" must have the form key=value", one);
    out.emplace_back(one.substr(0, equals), one.substr(equals + 1));
  }
  return out;
}

std::string with_overrides(const TrainingArguments& arguments, const std::string& json, const std::string& origin) {
  if (arguments.config_overrides.empty()) return json;
  JsonObject out = JsonObject::parse(json, origin);
  for (const auto& [key, value] : config_overrides_of(arguments.config_overrides)) {
    // A number, true, false or null as in JSON; anything else is a text.
    try {
      const JsonObject read = JsonObject::parse(fmt::format("{{{}: {}}}", quote(key), value));
      out.set_from(key, read);
    } catch (const Error&) {
      out.set(key, value);
    }
  }
  return out.str();
}

std::string name_with_overrides(const TrainingArguments& arguments, const std::string& origin) {
  const std::string& overrides = arguments.config_overrides;
  return overrides.empty() ? origin : fmt::format("{} with --config_overrides {}", origin, overrides);
}

namespace {

std::string vocabulary_advice(const TrainingArguments& arguments, std::int64_t ids) {
  if (arguments.config_name.empty()) return "give the tokenizer with which the model was trained: --tokenizer_name";
  const std::string file = arguments.config_file();  // or the name of a configuration that is built in
  std::error_code ignored;
  return fmt::format("make it {0} or more{1} --config_overrides vocab_size={0}", ids,
                     std::filesystem::exists(file, ignored) ? fmt::format(" in {}, or with", file) : " with");
}

}  // namespace

void check_vocabulary_size(const TrainingArguments& arguments, const std::string& tokenizer, std::int64_t ids,
                           std::int64_t model_ids) {
  require(ids <= model_ids, "the tokenizer {} has {} tokens, but the model's vocab_size is {}; {}", tokenizer, ids,
          model_ids, [&] { return vocabulary_advice(arguments, ids); });
}

}  // namespace tessera::trainer
