// SPDX-License-Identifier: Apache-2.0
// A two-layer network in per-device code: the weights are sharded over `model`, the rows over `data`, and the code
// names each exchange. The partitioner does the same from annotations (mlp_mark_sharding); here every rank sees its
// shards.
//
//   shard_map --virtual_ranks 4          or          mpirun -np 4 shard_map
#include <cmath>
#include <cstdio>

#include "tessera/base/argument_parser.h"
#include "tessera/tessera.h"

namespace ts = tessera;

namespace {

constexpr std::int64_t kRows = 24, kIn = 8, kHidden = 12, kOut = 4;

// Numbers without a pattern, between -1 and 1.
ts::Tensor numbers(ts::Dims dims, double seed) {
  std::vector<double> values(static_cast<std::size_t>(dims[0] * dims[1]));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = std::sin(seed + 1.3 * static_cast<double>(i * i));
  return ts::Tensor::from<double>(std::move(dims), values);
}

// Each rank multiplies its rows with its columns of `w`, then with its rows of `v`. The products of the ranks along
// `model` add up to the result.
ts::Tensor network(const ts::Tensor& x, const ts::Tensor& w, const ts::Tensor& v) {
  return ts::psum(ts::matmul(ts::tanh(ts::matmul(x, w)), v), "model");
}

// The same product of all rows with `w`, whose columns travel around the ring of `model`: a rank holds only one part of
// `w` at a time.
ts::Tensor ring_product(const ts::Tensor& x, ts::Tensor w) {
  const auto n = ts::axis_size("model");
  std::vector<std::pair<std::int64_t, std::int64_t>> to_next;
  for (std::int64_t i = 0; i < n; ++i) to_next.emplace_back(i, (i + 1) % n);
  ts::Tensor total;
  for (std::int64_t step = 0; step < n; ++step) {
    const ts::Tensor part = ts::sum(ts::square(ts::matmul(x, w)));
    total = step == 0 ? part : total + part;
    w = ts::ppermute(w, "model", to_next);
  }
  return ts::pmean(ts::psum(total, "data"), "model");
}

}  // namespace

int run(int argc, char** argv) {
  const ts::Runtime runtime(argc, argv);
  std::int64_t virtual_ranks = 0;  // launch() reads it
  ts::ArgumentParser parser("shard_map", "Trains a network that is written per device.");
  parser.flag("virtual_ranks", virtual_ranks, "run this many ranks as threads of this process");
  if (!parser.parse(argc, argv)) {
    if (runtime.is_master()) std::fputs(parser.help().c_str(), stdout);
    return 0;
  }
  const std::int64_t ranks = runtime.rank_count();
  const std::int64_t model = ranks % 2 == 0 ? 2 : 1;
  const ts::Mesh mesh({{"data", ranks / model}, {"model", model}});

  const auto sharded_network =
      ts::shard_map(network, mesh, {{"data", {}}, {{}, "model"}, {"model", {}}}, {{"data", {}}});
  const auto sharded_ring = ts::shard_map(ring_product, mesh, {{"data", {}}, {{}, "model"}}, {{}});

  const ts::Tensor x = numbers({kRows, kIn}, 1), target = numbers({kRows, kOut}, 2);
  ts::Tensor w = numbers({kIn, kHidden}, 3), v = numbers({kHidden, kOut}, 4);
  w.set_requires_grad();
  v.set_requires_grad();
  ts::mark_sharding(w, mesh, {{}, "model"});
  ts::mark_sharding(v, mesh, {"model", {}});
  ts::mark_sharding(x, mesh, {"data", {}});

  for (int step = 0; step < 4; ++step) {
    const ts::Tensor loss = ts::mean(ts::square(sharded_network(x, w, v) - target));
    loss.backward();
    for (ts::Tensor* weight : {&w, &v}) {
      weight->assign(weight->detach() - weight->grad() * 0.1);
      weight->zero_grad();
    }
    ts::mark_step();
    if (runtime.is_master())
      std::printf("step %d: loss %.9f\n", step, loss.item());
    else
      (void)loss.item();
  }
  const double norm = sharded_ring(x, w).item();
  if (runtime.is_master()) std::printf("%s, squared norm of the hidden layer: %.9f\n", mesh.str().c_str(), norm);
  return 0;
}

int main(int argc, char** argv) { return tessera::launch(argc, argv, run); }
