// SPDX-License-Identifier: Apache-2.0
#include "tessera/passes/pipeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <filesystem>
#include <unordered_map>

#include "tessera/base/error.h"
#include "tessera/base/files.h"
#include "tessera/base/options.h"
#include "tessera/base/rank_context.h"
#include "tessera/base/timeline.h"
#include "tessera/ir/text.h"

namespace tessera {
namespace {

// Returns `step.1a2b3c4d`: the program's name in characters that a folder may have, and enough of its hash to
// distinguish programs of the same name.
std::string folder_of(const Program& program) {
  std::string name = program.name;
  for (char& c : name)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '_' && c != '-') c = '_';
  constexpr std::size_t kMostOfAName = 100;
  name.resize(std::min(name.size(), kMostOfAName));
  return fmt::format("{}.{:08x}", name, program.hash() & 0xFFFFFFFFU);
}

// The dump folder of each pipeline result, by the hash of the result.
struct DumpFolders {
  std::unordered_map<std::size_t, std::string> folders;
};

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

std::string dump_folder(const Program& program) {
  const std::string& directory = options().text("TESSERA_DUMP_DIR");
  if (directory.empty()) return "";
  const auto& made = RankContext::current().get<DumpFolders>().folders;
  const auto found = made.find(program.hash());
  return (std::filesystem::path(directory) / (found != made.end() ? found->second : folder_of(program))).string();
}

Pipeline::Pipeline(std::string name, PipelineOptions options) : name_(std::move(name)), options_(std::move(options)) {
  for (auto& pass : tessera::options().list("TESSERA_SKIP_PASSES")) options_.skip.push_back(std::move(pass));
  if (options_.dump_directory.empty()) options_.dump_directory = tessera::options().text("TESSERA_DUMP_DIR");
  if (!options_.writes_dumps) options_.dump_directory.clear();
}

Pipeline& Pipeline::add(std::string name, Pass pass) {
  passes_.emplace_back(std::move(name), std::move(pass));
  return *this;
}

Pipeline& Pipeline::add_required(std::string name, Pass pass) {
  required_.push_back(name);
  return add(std::move(name), std::move(pass));
}

Program Pipeline::run(const Program& program) {
  check_skipped();
  try {
    Program out = run_passes(program, false);
    if (!seconds_.empty()) verify(out, fmt::format("invalid program after '{}'", name_));
    return out;
  } catch (const InternalError&) {
    (void)run_passes(program, true);
    throw;
  }
}

Program Pipeline::run_passes(const Program& program, bool verify_each) {
  seconds_.clear();
  Program now = program;
  int number = 0;
  const bool dumps = !options_.dump_directory.empty();
  const std::string folder =
      dumps ? (std::filesystem::path(options_.dump_directory) / folder_of(program) / name_).string() : "";
  const auto dump = [&](const std::string& pass) {
    write_for_option("TESSERA_DUMP_DIR", [&] {
      make_folder(folder);
      write_file(fmt::format("{}/{:02}-{}.hlo", folder, number, pass), print_program(now));
    });
  };
  if (dumps) dump("input");
  for (const auto& [name, pass] : passes_) {
    ++number;
    if (std::find(options_.skip.begin(), options_.skip.end(), name) != options_.skip.end()) continue;
    const TimelineSpan span("pass", name);
    const auto start = std::chrono::steady_clock::now();
    Program next = pass(now);
    seconds_.emplace_back(name, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    if (verify_each) verify(next, fmt::format("invalid program after pass '{}'", name));
    const bool changed = dumps && next.hash() != now.hash();
    now = std::move(next);
    if (changed) dump(name);
    if (options_.dump) options_.dump(name, now);
  }
  if (dumps) RankContext::current().get<DumpFolders>().folders[now.hash()] = folder_of(program);
  return now;
}

void Pipeline::check_skipped() const {
  std::vector<std::string> optional;  // each name once, in order: a pass may run several times
  for (const auto& [name, pass] : passes_)
    if (!contains(required_, name) && !contains(optional, name)) optional.push_back(name);
  for (const std::string& name : options_.skip) {
    require(!contains(required_, name), "the pass \"{}\" of '{}' cannot be skipped", name, name_);
    require(contains(optional, name), "there is no pass \"{}\" to skip in '{}'; passes that can be skipped: {}", name,
            name_, fmt::join(optional, ", "));
  }
}

}  // namespace tessera
