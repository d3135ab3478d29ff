// SPDX-License-Identifier: Apache-2.0
#include "input.h"
#include "tessera/ir/text.h"

namespace tessera::command {
namespace {

int run(const Arguments& arguments) {
  const Program program = read_program(arguments);
  verify(program);
  std::vector<std::string> skip;
  CollectivePassOptions options;
  read_pass_options(arguments, skip, options);
  Topology topology;
  if (const auto path = arguments.value("topology")) topology = Topology::from_file(*path);
  topology.check(program.meshes);
  Program out = optimize_collectives(program, options, skip, nullptr, topology);
  out.partitioned = true;  // for run, also where the text does not say so
  write_text(arguments.value_or("o", "-"), print_program(out, {.for_xla = arguments.has("for-xla")}));
  if (const auto path = arguments.value("json")) write_text(*path, stats_json(program_stats(out)).str());
  return kGood;
}

std::vector<Option> options() {
  std::vector<Option> out = {{"num-partitions", "N", "an error if the module says another number"}};
  for (const Option& option : pass_options()) out.push_back(option);
  out.push_back(
      {"topology", "FILE", "latency and bandwidth by axis, as JSON; collective matmul then goes by modelled time"});
  out.push_back({"o", "OUT.hlo", "where the program goes; default: standard output"});
  out.push_back({"for-xla", "", "leave out what XLA does not know"});
  out.push_back({"json", "STATS", "write what `stats` counts of the output as JSON"});
  return out;
}

}  // namespace

const Verb kOptimize = {
    "optimize", "improves the collectives of a partitioned program",
    "Any partitioned module, also XLA's: collectives are simplified, merged, taken out of loops and combined;\n"
    "values stay and bytes never grow. partition does the same to its own output.",
    options(), run};

}  // namespace tessera::command
