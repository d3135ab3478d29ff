// SPDX-License-Identifier: Apache-2.0
// An evaluation in which each step needs the median of all scores so far. If they are kept on the device, every step is
// another program. If they are kept on the host, all steps have the same programs: growing_accumulator --median host
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "tessera/base/argument_parser.h"
#include "tessera/tessera.h"

namespace ts = tessera;
namespace {

// The tensor has another type in each step.
struct MedianOnDevice {
  ts::Tensor all;
  ts::Tensor operator()(const ts::Tensor& scores) {
    all = all.is_null() ? scores : ts::concat({all, scores}, 0);
    return ts::sort(all).values.select(0, (all.dim(0) - 1) / 2);
  }
};

// The step is divided into a program before the region and one after it. Both are the same in every step.
struct MedianOnHost {
  std::vector<float> all;
  ts::Tensor operator()(const ts::Tensor& scores) {
    ts::mark_step();  // stores the scores; otherwise the program after the region computes them again
    const auto append = [this](const ts::Tensor& some) {
      const std::vector<float> values = some.to_vector<float>();
      all.insert(all.end(), values.begin(), values.end());
      const auto middle = all.begin() + (static_cast<std::ptrdiff_t>(all.size()) - 1) / 2;
      std::nth_element(all.begin(), middle, all.end());
      return ts::Tensor::scalar(ts::DType::kF32, *middle);
    };
    return ts::host_region("median", append, scores);
  }
};

// Returns the part of a batch that is above the median, on average over the steps.
double evaluate(auto median, std::int64_t steps, std::int64_t ranks) {
  constexpr std::int64_t kRows = 12, kWidth = 16;
  ts::nn::Linear model(kWidth, 1);
  ts::Tensor above = ts::Tensor::scalar(ts::DType::kF32, 0);
  for (std::int64_t step = 0; step < steps; ++step) {
    std::vector<float> values;
    for (std::int64_t i = 0; i < kRows * kWidth; ++i)
      values.push_back(static_cast<float>(std::sin(static_cast<double>(977 * step + i * i))));
    const ts::Tensor batch = ts::Tensor::from<float>({kRows, kWidth}, values);
    ts::mark_sharding(batch, ts::Mesh({{"data", ranks}}), {"data", {}});
    const ts::Tensor scores = model(batch).reshape({kRows});
    above = above + ts::mean((scores > median(scores)).to(ts::DType::kF32));
    ts::mark_step();
  }
  return above.item() / static_cast<double>(steps);
}

int run(int argc, char** argv) {
  const ts::Runtime runtime(argc, argv);
  std::int64_t virtual_ranks = 0, steps = 12;  // launch() reads the first
  std::string median = "host";
  ts::ArgumentParser parser("growing_accumulator", "Evaluates with the median of all scores so far.");
  parser.flag("virtual_ranks", virtual_ranks, "run this many ranks as threads of this process");
  parser.flag("steps", steps, "number of batches")
      .choice("median", median, {"host", "device"}, "where the scores are stored and the median is computed");
  if (!parser.parse(argc, argv)) {
    if (runtime.is_master()) std::fputs(parser.help().c_str(), stdout);
    return 0;
  }
  ts::require(steps >= 1, "--steps must be at least 1, got {}", steps);
  const double part = median == "device" ? evaluate(MedianOnDevice(), steps, runtime.rank_count())
                                         : evaluate(MedianOnHost(), steps, runtime.rank_count());
  const ts::LazyCounters counts = ts::lazy_counters();
  if (runtime.is_master())
    std::printf("median on the %s: %ld steps, %ld compilations, %ld reads, %.4f of a batch are above it\n",
                median.c_str(), steps, counts.compilations, counts.forced_reads, part);
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return tessera::launch(argc, argv, run); }
