// SPDX-License-Identifier: Apache-2.0
#include "tessera/passes/pipeline.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tessera/base/error.h"
#include "tessera/base/text.h"
#include "tessera/ir/text.h"

namespace tessera {
namespace {

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

}  // namespace

Pipeline::Pipeline(std::string name, PipelineOptions options) : name_(std::move(name)), options_(std::move(options)) {
  for (const auto& pass : split(environment("TESSERA_SKIP_PASSES"), ',')) options_.skip.emplace_back(trim(pass));
  if (options_.dump_directory.empty()) options_.dump_directory = environment("TESSERA_DUMP_DIR");
}

Pipeline& Pipeline::add(std::string name, Pass pass) {
  passes_.emplace_back(std::move(name), std::move(pass));
  return *this;
}

Program Pipeline::run(const Program& program) {
  seconds_.clear();
  Program now = program;
  int number = 0;
  if (!options_.dump_directory.empty()) write(number, "input", now);
  for (const auto& [name, pass] : passes_) {
    ++number;
    if (std::find(options_.skip.begin(), options_.skip.end(), name) != options_.skip.end()) continue;
    const auto start = std::chrono::steady_clock::now();
    Program next = pass(now);
    seconds_.emplace_back(name, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    verify(next, fmt::format("invalid program after pass '{}'", name));
    const bool changed = !options_.dump_directory.empty() && next.hash() != now.hash();
    now = std::move(next);
    if (changed) write(number, name, now);
    if (options_.dump) options_.dump(name, now);
  }
  return now;
}

void Pipeline::write(int number, const std::string& pass, const Program& program) const {
  const std::filesystem::path directory = std::filesystem::path(options_.dump_directory) / name_;
  std::error_code code;
  std::filesystem::create_directories(directory, code);
  const auto path = directory / fmt::format("{:02}-{}.hlo", number, pass);
  std::ofstream file(path);
  file << print_program(program);
  require(file.good(), "cannot write the dump {} ({})", path.string(),
          code ? code.message() : "is TESSERA_DUMP_DIR writable?");
}

}  // namespace tessera
