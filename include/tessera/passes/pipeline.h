// SPDX-License-Identifier: Apache-2.0
// A list of named passes, run in order. The outcome is verified and, on request, the program is written to a file after each pass.
//
//   Program out = Pipeline("partition").add("propagate", propagate).add("localize", localize).run(in);
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tessera/ir/program.h"

namespace tessera {

/// A pass is a pure function.
using Pass = std::function<Program(const Program&)>;

struct PipelineOptions {
  /// Passes to leave out, besides those of TESSERA_SKIP_PASSES (names joined by commas).
  std::vector<std::string> skip{};
  /// Called with the program after each pass.
  std::function<void(const std::string& pass, const Program&)> dump{};
  /// Where `PROGRAM.HASH/PIPELINE/NN-PASS.hlo` is written, only where a pass changed something; "" = TESSERA_DUMP_DIR, or
  /// nowhere. An equal program dumps over itself, another one has a folder of its own.
  std::string dump_directory{};
  /// False: an attempt, of which nothing is written wherever that may be.
  bool writes_dumps = true;
};

/// The folder below TESSERA_DUMP_DIR in which all stands that is made of a program: `NAME.HASH`; of what a pipeline of this rank made
/// of another program that one's. "" where nothing is written.
std::string dump_folder(const Program& program);

class Pipeline {
 public:
  explicit Pipeline(std::string name, PipelineOptions options = {});
  Pipeline& add(std::string name, Pass pass);
  /// One that cannot be left out: without it the others make no sense of the program.
  Pipeline& add_required(std::string name, Pass pass);
  /// Verifies what comes out. Only when that fails (or a pass ends in an InternalError) the passes run again, each verified, so that
  /// the error names the first that went wrong: passes are pure. Error: what the verifier says, prefixed `invalid program after pass 'localize': `; a pass to skip that does not exist or
  /// cannot be left out.
  Program run(const Program& program);
  /// Seconds each pass took in the last run, in order.
  [[nodiscard]] const std::vector<std::pair<std::string, double>>& seconds() const { return seconds_; }

 private:
  void check_skipped() const;
  Program run_passes(const Program& program, bool verify_each);
  std::string name_;
  PipelineOptions options_;
  std::vector<std::pair<std::string, Pass>> passes_;
  std::vector<std::string> required_;
  std::vector<std::pair<std::string, double>> seconds_;
};

}  // namespace tessera
