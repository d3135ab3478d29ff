// SPDX-License-Identifier: Apache-2.0
// --config_overrides: values that replace those of a model's configuration.
#pragma once

#include <cstdint>
#include <string>

#include "tessera/trainer/arguments.h"

namespace tessera::trainer {

/// Returns the configuration `json` with the values of --config_overrides. Errors: `json`, which they call `origin`, is no
/// JSON object; a part of the flag is not key=value.
std::string with_overrides(const TrainingArguments& arguments, const std::string& json, const std::string& origin);
/// Returns what errors about the configuration call it: `origin`, and the flag if it is given.
std::string name_with_overrides(const TrainingArguments& arguments, const std::string& origin);
/// Error, with the flag that mends it, unless a model with `model_ids` has an embedding for each of the `ids` of a tokenizer.
void check_vocabulary_size(const TrainingArguments& arguments, const std::string& tokenizer, std::int64_t ids,
                           std::int64_t model_ids);

}  // namespace tessera::trainer
