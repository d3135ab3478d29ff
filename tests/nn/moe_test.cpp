// SPDX-License-Identifier: Apache-2.0
// Mixtures of experts equal their definition, computed token by token, with and without a capacity.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "frontend/on_ranks.h"
#include "nn/check_gradients.h"
#include "tessera/nn/moe.h"

namespace tessera::nn {
namespace {

constexpr std::int64_t kBatch = 2, kTime = 7, kWidth = 3, kInner = 5, kExperts = 4;
constexpr std::size_t kTokens = kBatch * kTime;

using Vector = std::vector<double>;

SparseMoe::Options options_of(std::int64_t top_k, double capacity_factor = 0) {
  return {.experts = kExperts,
          .top_k = top_k,
          .capacity_factor = capacity_factor,
          .standard_deviation = 1,
          .dtype = DType::kF64};
}

struct Choice {
  std::size_t expert = 0;
  double weight = 0;
};

// The softmax over the experts, and the chosen ones with normalized weights, for each token.
struct ByHand {
  std::vector<Vector> logits, probabilities;
  std::vector<std::vector<Choice>> choices;
};
ByHand route(const Vector& x, const Vector& gate, std::size_t top_k) {
  ByHand out;
  for (std::size_t n = 0; n < kTokens; ++n) {
    Vector logits(kExperts), p(kExperts);
    double total = 0;
    for (std::size_t e = 0; e < kExperts; ++e) {
      for (std::size_t i = 0; i < kWidth; ++i) logits[e] += x[n * kWidth + i] * gate[e * kWidth + i];
      total += p[e] = std::exp(logits[e]);
    }
    for (double& each : p) each /= total;
    std::vector<std::size_t> order(kExperts);
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return p[a] > p[b]; });
    double chosen = 0;
    for (std::size_t k = 0; k < top_k; ++k) chosen += p[order[k]];
    std::vector<Choice> choices;
    for (std::size_t k = 0; k < top_k; ++k) choices.push_back({order[k], p[order[k]] / chosen});
    out.logits.push_back(logits);
    out.probabilities.push_back(p);
    out.choices.push_back(choices);
  }
  return out;
}

// weight * w2 (silu(w1 x) * w3 x) of one token and expert, added to `out`.
void add_expert(const Vector& w1, const Vector& w2, const Vector& w3, const Choice& choice, const double* x,
                double* out) {
  for (std::size_t f = 0; f < kInner; ++f) {
    double gate = 0, up = 0;
    for (std::size_t i = 0; i < kWidth; ++i) {
      gate += w1[(choice.expert * kInner + f) * kWidth + i] * x[i];
      up += w3[(choice.expert * kInner + f) * kWidth + i] * x[i];
    }
    const double hidden = gate / (1 + std::exp(-gate)) * up;
    for (std::size_t i = 0; i < kWidth; ++i)
      out[i] += choice.weight * w2[(choice.expert * kWidth + i) * kInner + f] * hidden;
  }
}

// `capacity`: of each expert and row of the batch. First choices come first.
Vector moe_by_hand(SparseMoe& moe, const Tensor& tokens, std::size_t top_k, std::size_t capacity) {
  const Vector x = tokens.to_vector<double>();
  const ByHand routed = route(x, moe.gate().weight().to_vector<double>(), top_k);
  const Vector w1 = moe.w1().to_vector<double>(), w2 = moe.w2().to_vector<double>(), w3 = moe.w3().to_vector<double>();
  Vector out(x.size());
  for (std::size_t b = 0; b < kBatch; ++b) {
    std::vector<std::size_t> taken(kExperts);
    for (std::size_t k = 0; k < top_k; ++k)
      for (std::size_t t = 0; t < kTime; ++t) {
        const std::size_t n = b * kTime + t;
        const Choice& choice = routed.choices[n][k];
        if (taken[choice.expert]++ < capacity)
          add_expert(w1, w2, w3, choice, x.data() + n * kWidth, out.data() + n * kWidth);
      }
  }
  return out;
}

TEST(Moe, TheDroplessFormEqualsTheDefinition) {
  const FreshRank rank;
  for (const std::int64_t top_k : {1, 2, 3}) {
    SparseMoe moe(kWidth, kInner, options_of(top_k));
    const Tensor x = numbers({kBatch, kTime, kWidth});
    expect_near(moe(x).output.to_vector<double>(), moe_by_hand(moe, x, static_cast<std::size_t>(top_k), kTime));
  }
}

TEST(Moe, AnExpertTakesTheFirstTokensUpToItsCapacity) {
  const FreshRank rank;
  for (const double factor : {0.5, 1.0, 1.3}) {
    SparseMoe moe(kWidth, kInner, options_of(2, factor));
    const Tensor x = numbers({kBatch, kTime, kWidth});
    const auto capacity = static_cast<std::size_t>(std::ceil(factor * 2 * kTime / kExperts));
    EXPECT_EQ(moe.capacity(kTime), capacity);
    expect_near(moe(x).output.to_vector<double>(), moe_by_hand(moe, x, 2, capacity));
  }
}

TEST(Moe, ALargeCapacityDropsNoToken) {
  const FreshRank rank;
  SparseMoe moe(kWidth, kInner, options_of(2, kExperts));
  const Tensor x = numbers({kBatch, kTime, kWidth});
  EXPECT_EQ(moe.capacity(kTime), kTime);
  expect_near(moe(x).output.to_vector<double>(), moe_by_hand(moe, x, 2, kTime));
}

TEST(Moe, GradientsAgreeWithFiniteDifferences) {
  const FreshRank rank;
  for (const double factor : {0.0, 1.0}) {
    SparseMoe moe(kWidth, kInner, options_of(2, factor));
    const Tensor x = numbers({kBatch, kTime, kWidth});
    std::vector<Tensor> variables = moe.parameters();
    variables.push_back(x);
    expect_gradients(
        [&] {
          const SparseMoe::Output out = moe(x);
          return weighted_sum(out.output) + load_balancing_loss({out.routing}) + router_z_loss({out.routing});
        },
        variables);
  }
}

TEST(Moe, EqualProbabilitiesSelectTheExpertWithTheLowerIndex) {
  const FreshRank rank;
  SparseMoe moe(kWidth, kInner, options_of(2));
  const Routing routing = moe.gate()(Tensor::zeros(Type::array(DType::kF64, {1, 1, kWidth})));
  EXPECT_EQ(routing.choices[0].to_vector<double>(), (Vector{1, 0, 0, 0}));
  EXPECT_EQ(routing.choices[1].to_vector<double>(), (Vector{0, 1, 0, 0}));
  EXPECT_EQ(routing.weights[1].to_vector<double>(), Vector{0.5});
}

TEST(Moe, ParametersHaveMixtralsNames) {
  const FreshRank rank;
  SparseMoe moe(kWidth, kInner, options_of(2));
  std::vector<std::string> names;
  for (const auto& parameter : moe.named_parameters()) {
    std::string dims;
    for (const auto d : parameter.tensor.dims()) dims += " " + std::to_string(d);
    names.push_back(parameter.name + dims);
  }
  EXPECT_EQ(names, (std::vector<std::string>{"gate.weight 4 3", "experts.*.w1.weight 4 5 3",
                                             "experts.*.w2.weight 4 3 5", "experts.*.w3.weight 4 5 3"}));
}

TEST(Moe, OptionsAreChecked) {
  const FreshRank rank;
  EXPECT_THROW(SparseMoe(3, 5, {.experts = 2, .top_k = 3}), Error);
  EXPECT_THROW(SparseMoe(3, 5, {.capacity_factor = -1}), Error);
  EXPECT_THROW(SparseMoe(3, 5, {.activation = "selu"}), Error);
  SparseMoe moe(kWidth, kInner, options_of(2));
  EXPECT_THROW((void)moe(numbers({2, kWidth})), Error);
}

TEST(AuxiliaryLosses, EqualTheirDefinitions) {
  const FreshRank rank;
  SparseMoe first(kWidth, kInner, options_of(2)), second(kWidth, kInner, options_of(2));
  const Tensor x = numbers({kBatch, kTime, kWidth});
  const Vector mask{1, 1, 1, 0, 1, 0, 0, 1, 1, 1, 1, 1, 1, 0};
  for (const bool masked : {false, true}) {
    double z = 0, tokens = 0;
    std::vector<Vector> fractions(2, Vector(kExperts));
    Vector probabilities(kExperts);
    for (SparseMoe* moe : {&first, &second}) {
      const ByHand routed = route(x.to_vector<double>(), moe->gate().weight().to_vector<double>(), 2);
      for (std::size_t n = 0; n < kTokens; ++n) {
        double total = 0;
        for (std::size_t e = 0; e < kExperts; ++e) total += std::exp(routed.logits[n][e]);
        z += std::log(total) * std::log(total) / (2 * kTokens);
        if (masked && mask[n] == 0) continue;
        tokens += 1;
        for (std::size_t k = 0; k < 2; ++k) fractions[k][routed.choices[n][k].expert] += 1;
        for (std::size_t e = 0; e < kExperts; ++e) probabilities[e] += routed.probabilities[n][e];
      }
    }
    double expected = 0;
    for (std::size_t e = 0; e < kExperts; ++e)
      expected += kExperts * (fractions[0][e] + fractions[1][e]) / tokens * probabilities[e] / tokens;
    const std::vector<Routing> layers{first(x).routing, second(x).routing};
    const Tensor given = masked ? Tensor::from<double>({kBatch, kTime}, mask) : Tensor();
    EXPECT_NEAR(load_balancing_loss(layers, given).item(), expected, 1e-12);
    EXPECT_NEAR(router_z_loss(layers).item(), z, 1e-12);
  }
}

// The rows of the batch and the experts are sharded over the same axis: tokens travel by all-to-all.
TEST(ExpertParallelism, TokensTravelByAllToAll) {
  const FreshRank rank;
  plan_for_devices(4);
  const Mesh mesh({{"expert", 4}});
  SparseMoe moe(64, 96, {.experts = 8, .top_k = 2, .capacity_factor = 1.25});
  shard_experts(moe, mesh, "expert");
  Tensor x = Tensor::abstract(Type::array(DType::kF32, {8, 32, 64}), "x");
  mark_sharding(x, mesh, {"expert", {}, {}});
  x.set_requires_grad();
  sum(square(moe(x).output)).backward();
  const StepPlan plan = plan_step();
  std::map<std::string, std::int64_t> counts;
  for (const auto& note : plan.partitioned.notes) {
    ++counts[note.opcode];
    if (note.opcode == "all-to-all") continue;
    EXPECT_LE(note.bytes, 2 * 8 * 64 * 4) << note.opcode << ": " << note.reason;  // gradients of the router
  }
  EXPECT_EQ(counts["all-to-all"], 4);  // to the experts and back, in the forward and in the backward pass
  EXPECT_EQ(counts["all-gather"], 0);
}

class MoeLayouts : public ::testing::TestWithParam<std::pair<const char*, double>> {};

// Outputs and gradients on a mesh equal those of one rank.
TEST_P(MoeLayouts, EqualOneRank) {
  const auto [mesh_text, factor] = GetParam();
  const auto run = [factor = factor](const Mesh& mesh) {
    manual_seed(3);
    SparseMoe moe(kWidth, kInner, options_of(2, factor));
    if (mesh.has_axis("expert")) shard_experts(moe, mesh, "expert");
    if (mesh.has_axis("model")) shard_tensor_parallel(moe, {mesh, "model"});
    const Tensor x = numbers({5, kTime, kWidth});
    SpecEntry rows;
    for (const auto& axis : mesh.axes())
      if (axis.name != "model") rows.push_back(axis.name);
    if (!rows.empty())
      mark_sharding(x, mesh,
                    PartitionSpec({PartitionSpec::Entry(rows), PartitionSpec::Entry(), PartitionSpec::Entry()}));
    const SparseMoe::Output out = moe(x);
    const Tensor loss = weighted_sum(out.output) + load_balancing_loss({out.routing}) + router_z_loss({out.routing});
    loss.backward();
    mark_step();
    std::vector<Tensor> results{loss, out.output};
    for (const Tensor& parameter : moe.parameters()) results.push_back(parameter.grad());
    std::vector<Vector> values;
    for (const Literal& literal : read_all(results))
      values.emplace_back(literal.data<double>().begin(), literal.data<double>().end());
    return values;
  };
  std::vector<Vector> expected, actual;
  on_ranks(1, [&](int) { expected = run(Mesh({{"data", 1}})); });
  const Mesh mesh = Mesh::parse(mesh_text);
  on_ranks(static_cast<int>(mesh.device_count()), [&](int rank) {
    auto mine = run(mesh);
    if (rank == 0) actual = std::move(mine);
  });
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t r = 0; r < expected.size(); ++r) expect_near(actual[r], expected[r]);
}

INSTANTIATE_TEST_SUITE_P(Meshes, MoeLayouts,
                         ::testing::Values(std::pair{"expert=2", 0.0}, std::pair{"expert=2", 1.0},
                                           std::pair{"expert=3", 1.0}, std::pair{"data=2,expert=3", 1.0},
                                           std::pair{"data=2,expert=3", 0.0}, std::pair{"expert=2,model=3", 1.0},
                                           std::pair{"data=2,model=2", 0.0}, std::pair{"data=3", 1.0}));

}  // namespace
}  // namespace tessera::nn
