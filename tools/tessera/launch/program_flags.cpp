// SPDX-License-Identifier: Apache-2.0
#include "launch/program_flags.h"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <optional>

#include "tessera/base/error.h"
#include "tessera/base/json_object.h"

namespace tessera::command {
namespace {

// The value that counts in the program: of the last flag of this name. `bare`: that of a flag without a value.
std::optional<std::string> last_value(const std::vector<std::string>& program, const std::string& name,
                                      const std::string& bare) {
  std::string with_dashes = name;
  std::replace(with_dashes.begin(), with_dashes.end(), '_', '-');
  std::optional<std::string> out;
  for (std::size_t i = 0; i < program.size(); ++i)
    for (const std::string& flag : {"--" + name, "--" + with_dashes}) {
      const bool has_next = i + 1 < program.size() && (bare.empty() || !program[i + 1].starts_with("-"));
      if (program[i] == flag && (has_next || !bare.empty())) out = has_next ? program[i + 1] : bare;
      if (program[i].starts_with(flag + "=")) out = program[i].substr(flag.size() + 1);
      if (name == with_dashes) break;
    }
  return out;
}

std::string beside(const std::string& in, const std::string& path) {
  return (std::filesystem::path(in) / path).string();
}

// Calls `read` with the content of each word that names a file of flags, until it returns true.
void read_files(const std::vector<std::string>& program, const std::string& in,
                const std::function<bool(const JsonObject&)>& read) {
  // A wrapper such as numactl may precede the program.
  for (std::size_t i = 1; i < program.size(); ++i) {
    if (!program[i].ends_with(".json") || program[i].starts_with("-") || program[i - 1].starts_with("--")) continue;
    try {
      if (read(JsonObject::from_file(beside(in, program[i])))) return;
    } catch (const Error&) {  // the program reports it
    }
  }
}

bool is_yes(const std::string& text) {
  return text == "true" || text == "True" || text == "yes" || text == "1" || text == "on";
}

}  // namespace

std::string output_folder(const std::vector<std::string>& program, const std::string& in) {
  if (const auto given = last_value(program, "output_dir", "")) return beside(in, *given);
  std::string out;
  read_files(program, in, [&](const JsonObject& flags) {
    flags.read("output_dir", out);
    return !out.empty();
  });
  return out.empty() ? "" : beside(in, out);
}

bool saves_only_model(const std::vector<std::string>& program, const std::string& in) {
  if (const auto given = last_value(program, "save_only_model", "true")) return is_yes(*given);
  bool out = false;
  read_files(program, in, [&](const JsonObject& flags) {
    flags.read("save_only_model", out);
    return out;
  });
  return out;
}

bool is_resume_flag(const std::string& word) {
  return word.starts_with("--resume_from_checkpoint") || word.starts_with("--resume-from-checkpoint");
}

bool has_next_value(const std::vector<std::string>& program, std::size_t i) {
  return program[i].find('=') == std::string::npos && i + 1 < program.size() && !program[i + 1].starts_with("-");
}

bool resumes_newest(const std::vector<std::string>& program) {
  for (std::size_t i = 0; i < program.size(); ++i) {
    if (!is_resume_flag(program[i])) continue;
    const auto equals = program[i].find('=');
    const std::string value = equals != std::string::npos  ? program[i].substr(equals + 1)
                              : has_next_value(program, i) ? program[i + 1]
                                                           : "";
    return value.empty() || value == "true" || value == "True";
  }
  return false;
}

std::vector<std::string> naming_checkpoint(std::vector<std::string> resume_words) {
  for (std::size_t i = 1; i < resume_words.size(); ++i)
    if (resume_words[i - 1] == "--resume_from_checkpoint" && resume_words[i] == "true")
      resume_words[i] = "{checkpoint}";
  return resume_words;
}

}  // namespace tessera::command
