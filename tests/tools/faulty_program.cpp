// SPDX-License-Identifier: Apache-2.0
// Twelve steps, or as many as there is time for (`endless`), with a fault that `tessera doctor` finds:
//
//   faulty_program FAULT
//
// `evaluations` is no fault: an evaluation of several steps follows each step.
#include <csignal>
#include <string>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/frontend/control/host_region.h"
#include "tessera/frontend/execution/runtime.h"
#include "tessera/frontend/execution/step.h"
#include "tessera/frontend/sharding/mark_sharding.h"
#include "tessera/frontend/tensor/functions.h"
#include "tessera/frontend/tensor/tensor.h"

namespace {

using tessera::Tensor;

void evaluate() {
  for (int batch = 0; batch < 3; ++batch) {
    const Tensor loss = sum(Tensor::from<float>({7}, std::vector<float>(7, 1.0F)) * 3.0);
    tessera::mark_step();
    (void)loss.item();
  }
}

int run_steps(int argc, char** argv) {
  const tessera::Runtime runtime(argc, argv);
  const std::string fault = argc > 1 ? argv[1] : "";
  const tessera::Mesh mesh({{"data", runtime.rank_count()}});
  for (int step = 0; step < 12 || fault == "endless"; ++step) {
    tessera::require(fault != "error" || step < 6, "step {} fails", step);
    if (fault == "killed" && step == 6) (void)std::raise(SIGKILL);
    const std::int64_t rows = fault == "shapes" ? 5 + step : 5;
    Tensor x = Tensor::from<float>({rows}, std::vector<float>(static_cast<std::size_t>(rows), 1.0F));
    x.set_name("x");
    if (fault != "replicated") tessera::mark_sharding(x, mesh, {"data"});
    Tensor y = sum(x * (fault == "constants" ? static_cast<double>(step) : 2.0));
    if (fault == "host_ops")
      y = tessera::host_region(
              "look", [](const Tensor& value) { return Tensor::from_host(value.to_host()); }, y) +
          1.0;
    tessera::mark_step();
    if (fault == "reads") (void)y.item();
    if (fault == "evaluations") tessera::run_evaluation(evaluate);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return tessera::launch(argc, argv, run_steps); }
