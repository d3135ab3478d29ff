// SPDX-License-Identifier: Apache-2.0
// The flags of a training program that tessera launch needs to know.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace tessera::command {

/// The folder of --output_dir, or of output_dir in the file of `run_clm FILE.json`, for the words that start a program.
/// Of several --output_dir the last one counts, as in the program. Relative to `in`, the folder in which it is started.
/// "" if there is none.
std::string output_folder(const std::vector<std::string>& program, const std::string& in);

/// Whether the program is started with --save_only_model, as a flag or in its file. Its checkpoints cannot continue it.
bool saves_only_model(const std::vector<std::string>& program, const std::string& in);

/// --resume_from_checkpoint, with or without its value in the same word.
bool is_resume_flag(const std::string& word);
/// True if the word after flag `i` is its value.
bool has_next_value(const std::vector<std::string>& program, std::size_t i);
/// Whether the program continues from the newest checkpoint. Until there is a newer one, a job that begins with a certain
/// checkpoint continues from that one.
bool resumes_newest(const std::vector<std::string>& program);

/// The words for a restart that must resume `{checkpoint}`, although the program would choose another one as the newest:
/// --resume_from_checkpoint {checkpoint} instead of --resume_from_checkpoint true.
std::vector<std::string> naming_checkpoint(std::vector<std::string> resume_words);

}  // namespace tessera::command
