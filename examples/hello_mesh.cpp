// SPDX-License-Identifier: Apache-2.0
// A linear layer, one annotation, and the partitioned program:
//
//   hello_mesh --virtual_ranks 4          or          mpirun -np 4 hello_mesh
#include <cstdio>

#include "tessera/base/argument_parser.h"
#include "tessera/tessera.h"

namespace ts = tessera;

int hello(int argc, char** argv) {
  const ts::Runtime runtime(argc, argv);
  std::int64_t virtual_ranks = 0;  // launch() reads it
  ts::ArgumentParser parser("hello_mesh", "Shows a small program before and after partitioning.");
  parser.flag("virtual_ranks", virtual_ranks, "run this many ranks as threads of this process");
  if (!parser.parse(argc, argv)) {
    if (runtime.is_master()) std::fputs(parser.help().c_str(), stdout);
    return 0;
  }
  const auto ranks = runtime.rank_count();
  const ts::Mesh mesh =
      ranks % 2 == 0 ? ts::Mesh({{"data", ranks / 2}, {"model", 2}}) : ts::Mesh({{"data", ranks}, {"model", 1}});

  ts::nn::Linear layer(8, 4, {.bias = false});
  const ts::Tensor x = ts::Tensor::from<float>({6, 8}, std::vector<float>(48, 0.5F));
  ts::mark_sharding(layer.weight(), mesh, {{}, "model"});  // [out, in]: shards the contracting dim
  ts::mark_sharding(x, mesh, {"data", "model"});
  const ts::Tensor y = layer(x);

  if (runtime.is_master()) {
    const ts::StepPlan plan = ts::plan_step();
    std::printf("%s\nweight of %s\n%s\n", mesh.str().c_str(), layer.weight().type().str().c_str(),
                ts::visualize_sharding(layer.weight()).c_str());
    std::printf("as written:\n%s\nas each rank runs it:\n%s\n", ts::print_program(plan.global).c_str(),
                ts::print_program(plan.partitioned.program).c_str());
    for (const auto& note : plan.partitioned.notes)
      std::printf("%s over {%s}: %s\n", note.opcode.c_str(), note.axes.c_str(), note.reason.c_str());
  }
  ts::mark_step();
  const double total = ts::sum(y).item();
  if (runtime.is_master()) std::printf("sum of the result: %.6f\n", total);
  return 0;
}

int main(int argc, char** argv) { return tessera::launch(argc, argv, hello); }
