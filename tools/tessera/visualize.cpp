// SPDX-License-Identifier: Apache-2.0
#include "tessera/sharding/visualize.h"

#include <unistd.h>

#include "command_line.h"
#include "input.h"
#include "tessera/base/text.h"

namespace tessera::command {
namespace {

int run(const Arguments& arguments) {
  if (arguments.inputs().size() != 2)
    throw UsageError(fmt::format("a shape and a sharding are expected, got {} words", arguments.inputs().size()));
  const ShardedType drawn = read_option("", [&] {
    return read_sharded_type(arguments.inputs()[0], arguments.inputs()[1], arguments.value_or("mesh", ""));
  });
  if (const auto file = arguments.value("svg")) {
    write_text(*file, sharding_svg(drawn.type, drawn.sharding));
    return kGood;
  }
  const std::string color = arguments.value_or("color", "auto");
  const bool in_color = color == "always" || (color == "auto" && isatty(STDOUT_FILENO) == 1);
  write_text("-", fmt::format("{} {}\n{}", drawn.type.str(), drawn.sharding.str(),
                              visualize_sharding(drawn.type, drawn.sharding, {.color = in_color})));
  return kGood;
}

}  // namespace

const Verb kVisualize = {
    "visualize",
    "draws which devices hold which part of an array",
    "SHAPE is f32[8,16] or 8,16. SHARDING is the HLO text of a sharding, such as\n"
    "'{devices=[2,1,4]<=[8] last_tile_dim_replicate}', or a spec for the mesh of --mesh, such as data,model.\n"
    "Write a spec that begins with - in braces, as in '{-,data+model}'.",
    {{"mesh", "MESH", "the mesh of a spec, such as data=2,model=4", mesh_text()},
     {"svg", "FILE", "write the drawing as SVG; - is standard output", {}, true},
     {"color", "WHEN", "auto (default): colours if standard output is a terminal; always; never",
      one_of({"auto", "always", "never"})}},
    run,
    "SHAPE SHARDING",
    "a shape and a sharding",
    true};

}  // namespace tessera::command
