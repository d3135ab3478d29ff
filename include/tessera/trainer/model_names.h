// SPDX-License-Identifier: Apache-2.0
// Models and tokenizers by the names that they have on Hugging Face's hub.
#pragma once

#include <string>

#include "tessera/trainer/arguments.h"

namespace tessera::trainer {

/// Returns the folder of the model with this name; "" if there is none, or if `name` is a path that exists. Searches
/// `cache_dir` and then $HF_HOME/hub, in the layout of the package huggingface_hub:
/// `models--ORGANIZATION--NAME/snapshots/REVISION`, with the revision in `refs/main`. NAME alone stands for
/// ORGANIZATION/NAME if one organization in the folder has it. `cache_dir` may also have a folder NAME. Nothing is
/// downloaded. Error, with `flag`: several organizations have the name.
std::string named_model_folder(const std::string& name, const std::string& cache_dir, const std::string& flag);

/// Replaces --model_name_or_path, --tokenizer_name and run_clm's --config_name by the folder of the model that they
/// name. Paths that exist, and names of which there is no folder, stay as they are.
void find_named_models(TrainingArguments& arguments);

/// Gives run_clm the tokenizer in the folder of --model_name_or_path, if there is one, as in Hugging Face. That of a
/// token file must then be the same (load_clm_data()).
void use_tokenizer_of_model(TrainingArguments& arguments);

/// Gives a text program the configuration in the checkpoint of --resume_from_checkpoint, if there is one and no model
/// is given.
void use_config_of_checkpoint(TrainingArguments& arguments);

}  // namespace tessera::trainer
