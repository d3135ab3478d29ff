// SPDX-License-Identifier: Apache-2.0
// A list of named passes that run in order. The result is verified and, on request, the program is written to a file
// after each pass.
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
  /// Names of passes to skip, besides those in TESSERA_SKIP_PASSES (joined by commas).
  std::vector<std::string> skip{};
  /// Called with the program after each pass.
  std::function<void(const std::string& pass, const Program&)> dump{};
  /// The folder for `PROGRAM.HASH/PIPELINE/NN-PASS.hlo`, which is written if the pass changed something. "":
  /// TESSERA_DUMP_DIR, or no dump. Equal programs use the same folder.
  std::string dump_directory{};
  /// False: never writes dumps. For pipelines whose result is only compared with others.
  bool writes_dumps = true;
};

/// The folder below TESSERA_DUMP_DIR for the dumps of a program: `NAME.HASH`. If a pipeline of this rank made the
/// program from another program, returns the folder of the other program. "" if nothing is written.
std::string dump_folder(const Program& program);

/// A list of passes with a name.
class Pipeline {
 public:
  explicit Pipeline(std::string name, PipelineOptions options = {});
  /// Appends a pass.
  Pipeline& add(std::string name, Pass pass);
  /// Adds a pass that cannot be skipped, because the passes after it depend on it.
  Pipeline& add_required(std::string name, Pass pass);
  /// Runs all passes and verifies the result. If this fails, or a pass throws an InternalError, the passes run again
  /// with a verification after each, so that the error names the first wrong pass. Errors: the message of the
  /// verifier with the prefix `invalid program after pass 'localize': `; a pass to skip that does not exist or cannot
  /// be skipped.
  Program run(const Program& program);
  /// The time of each pass in the last run, in seconds, in order.
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
