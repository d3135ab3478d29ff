// SPDX-License-Identifier: Apache-2.0
// scaled_dot_product_attention: its value and gradients are those of products and a softmax, on every mesh, and its
// memory is linear in the length.
#include "tessera/frontend/tensor/attention.h"

#include <gtest/gtest.h>

#include <cmath>
#include <mutex>

#include "frontend/on_ranks.h"
#include "tessera/base/text.h"
#include "tessera/frontend/control/transforms.h"
#include "tessera/frontend/sharding/mark_sharding.h"
#include "tessera/frontend/tensor/functions.h"

namespace tessera {
namespace {

Tensor random_numbers(Dims dims, int seed) {
  std::vector<double> values(static_cast<std::size_t>(product(dims)));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = std::sin(static_cast<double>(i) * 0.7 + static_cast<double>(seed));
  return Tensor::from<double>(std::move(dims), values);
}

// Attention by products: q [b,h,t,d], k and v [b,h,s,d].
Tensor by_products(const Tensor& q, const Tensor& k, const Tensor& v, double scale, const Tensor& mask) {
  const Tensor scores =
      dot(q, k, {.lhs_contracting = {3}, .rhs_contracting = {3}, .lhs_batch = {0, 1}, .rhs_batch = {0, 1}});
  const Tensor weights = softmax(scores * scale + mask, -1);
  return dot(weights, v, {.lhs_contracting = {3}, .rhs_contracting = {2}, .lhs_batch = {0, 1}, .rhs_batch = {0, 1}});
}

using Results = std::vector<std::vector<double>>;

void expect_near(const Results& got, const Results& expected, double bound) {
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t r = 0; r < got.size(); ++r) {
    ASSERT_EQ(got[r].size(), expected[r].size()) << r;
    for (std::size_t i = 0; i < got[r].size(); ++i) ASSERT_NEAR(got[r][i], expected[r][i], bound) << r << " " << i;
  }
}

// The output, and the gradients of a weighted sum of it with respect to the inputs.
Results with_gradients(std::vector<Tensor> inputs, const std::function<Tensor(const std::vector<Tensor>&)>& f) {
  for (Tensor& x : inputs) {
    x.zero_grad();
    x.set_requires_grad();
  }
  const Tensor out = f(inputs);
  sum(out * random_numbers(out.dims(), 9)).backward();
  std::vector<Tensor> all{out};
  for (const Tensor& x : inputs) all.push_back(x.grad());
  Results results;
  for (const Literal& value : read_all(all))
    results.emplace_back(value.data<double>().begin(), value.data<double>().end());
  return results;
}

TEST(Attention, ErrorsHaveTheShapesOfTheCall) {
  const FreshRank rank;
  const auto error = [](const Dims& q, const Dims& k, const Dims& v) {
    try {
      (void)scaled_dot_product_attention(random_numbers(q, 1), random_numbers(k, 2), random_numbers(v, 3));
    } catch (const Error& wrong) {
      const std::string text = wrong.what();
      return text.substr(0, text.find('\n'));
    }
    return std::string("no error");
  };
  const std::string name = "scaled_dot_product_attention: ";
  EXPECT_EQ(error({2, 6, 5, 4}, {2, 6, 7, 3}, {2, 6, 7, 4}),
            name + "q and k must have the same depth (the last dim), got f64[2,6,5,4] and f64[2,6,7,3]");
  EXPECT_EQ(error({2, 6, 5, 4}, {2, 6, 7, 4}, {2, 6, 5, 4}),
            name + "k and v must have equally many keys (dim 2), got f64[2,6,7,4] and f64[2,6,5,4]");
  EXPECT_EQ(error({2, 6, 5, 4}, {3, 6, 7, 4}, {3, 6, 7, 4}),
            name + "q, k and v must have the same dim 0, got f64[2,6,5,4], f64[3,6,7,4] and f64[3,6,7,4]");
  EXPECT_EQ(error({2, 6, 5, 4}, {2, 4, 7, 4}, {2, 4, 7, 4}),
            name +
                "k and v must have equally many heads (dim 1), and these must divide the heads of q, got "
                "f64[2,6,5,4], f64[2,4,7,4] and f64[2,4,7,4]");
  EXPECT_EQ(error({5, 4}, {2, 7, 4}, {7, 4}),
            name + "q, k and v must have equally many dims, 2 to 4, got f64[5,4], f64[2,7,4] and f64[7,4]");
}

TEST(Attention, ItsValueAndGradientsAreThoseOfProductsAndASoftmax) {
  const FreshRank rank;
  const std::vector<Tensor> inputs{random_numbers({2, 3, 5, 4}, 1), random_numbers({2, 3, 7, 4}, 2),
                                   random_numbers({2, 3, 7, 6}, 3), random_numbers({3, 1, 7}, 4)};
  const Results expected =
      with_gradients(inputs, [](const auto& x) { return by_products(x[0], x[1], x[2], 0.5, x[3]); });
  const Results got = with_gradients(inputs, [](const auto& x) {
    return scaled_dot_product_attention(x[0], x[1], x[2], {.mask = x[3]});  // the scale is 1/sqrt(4)
  });
  expect_near(got, expected, 1e-12);
}

// A weighted sum of the gradients of a weighted sum of f.
template <class F>
Tensor sum_of_gradients(const std::vector<Tensor>& inputs, F&& f) {
  const Tensor out = f(inputs);
  Tensor total;
  int seed = 20;
  for (const Tensor& gradient : gradients(sum(out * random_numbers(out.dims(), 9)), inputs)) {
    const Tensor part = sum(gradient * random_numbers(gradient.dims(), ++seed));
    total = total.is_null() ? part : total + part;
  }
  return total;
}

TEST(Attention, ItsSecondDerivativesAreThoseOfProductsAndASoftmax) {
  const FreshRank rank;
  const std::vector<Tensor> inputs{random_numbers({2, 3, 5, 4}, 1), random_numbers({2, 3, 7, 4}, 2),
                                   random_numbers({2, 3, 7, 6}, 3), random_numbers({3, 1, 7}, 4)};
  const Results expected = with_gradients(inputs, [](const std::vector<Tensor>& given) {
    return sum_of_gradients(given, [](const auto& x) { return by_products(x[0], x[1], x[2], 0.5, x[3]); });
  });
  const Results got = with_gradients(inputs, [](const std::vector<Tensor>& given) {
    return sum_of_gradients(
        given, [](const auto& x) { return scaled_dot_product_attention(x[0], x[1], x[2], {.mask = x[3]}); });
  });
  expect_near(got, expected, 1e-11);
}

TEST(Attention, AnOffsetAlignsTheRowsWithTheKeys) {
  const FreshRank rank;
  const Tensor q = random_numbers({1, 2, 3, 4}, 1);
  const Tensor k = random_numbers({1, 2, 8, 4}, 2);
  const Tensor v = random_numbers({1, 2, 8, 4}, 3);
  const Tensor offset = Tensor::from<std::int32_t>({}, {5});
  const Tensor last = scaled_dot_product_attention(q, k, v, {.causal = true, .query_offset = offset});
  const Type square = Type::array(DType::kS32, {3, 8});
  const Tensor seen = Tensor::iota(square, 0) + Tensor::full(square, 5) >= Tensor::iota(square, 1);
  const Tensor expected = scaled_dot_product_attention(q, k, v, {.mask = seen});
  expect_near({last.to_vector<double>()}, {expected.to_vector<double>()}, 1e-14);
}

TEST(Attention, ArraysMayHaveNoHeads) {
  const FreshRank rank;
  const Tensor q = random_numbers({2, 5, 4}, 1);
  const Tensor k = random_numbers({2, 7, 4}, 2);
  const Tensor out = scaled_dot_product_attention(q, k, k);
  EXPECT_EQ(out.dims(), (Dims{2, 5, 4}));
  const Tensor with_heads =
      scaled_dot_product_attention(q.reshape({2, 1, 5, 4}), k.reshape({2, 1, 7, 4}), k.reshape({2, 1, 7, 4}));
  EXPECT_EQ(out.to_vector<double>(), with_heads.to_vector<double>());
}

TEST(Attention, WrongSettingsAreErrors) {
  const FreshRank rank;
  const auto message = [](const AttentionSettings& settings, Dims k) -> std::string {
    try {
      (void)scaled_dot_product_attention(random_numbers({2, 3, 5, 4}, 1), random_numbers(k, 2), random_numbers(k, 2),
                                         settings);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_NE(message({.dropout = 1}, {2, 3, 5, 4}).find("dropout must be in [0, 1), got 1"), std::string::npos);
  EXPECT_NE(message({.query_offset = Tensor::from<std::int32_t>({}, {1})}, {2, 3, 5, 4}).find("for causal attention"),
            std::string::npos);
}

// ---- layouts --------------------------------------------------------------------------------------------------------

struct Layout {
  std::string mesh;
  PartitionSpec q;  // [batch, heads, rows, depth]
  PartitionSpec k;  // also of v
};

Results on_layout(const Layout& layout, double dropout) {
  Results out;
  std::mutex guard;
  on_ranks(static_cast<int>(Mesh::parse(layout.mesh).device_count()), [&](int rank) {
    const Mesh mesh = Mesh::parse(layout.mesh);
    set_default_mesh(mesh);
    manual_seed(3);
    const Tensor q = random_numbers({3, 6, 7, 4}, 1);
    const Tensor k = random_numbers({3, 2, 7, 4}, 2);
    const Tensor v = random_numbers({3, 2, 7, 4}, 3);
    mark_sharding(q, mesh, layout.q);
    mark_sharding(k, mesh, layout.k);
    mark_sharding(v, mesh, layout.k);
    Results mine = with_gradients({q, k, v}, [&](const auto& x) {
      return scaled_dot_product_attention(x[0], x[1], x[2], {.causal = true, .dropout = dropout});
    });
    const std::lock_guard lock(guard);
    if (rank == 0) out = std::move(mine);
  });
  return out;
}

TEST(Attention, EveryLayoutGivesTheSameValuesAndGradients) {
  const PartitionSpec none{{}, {}, {}, {}};
  for (const double dropout : {0.0, 0.3}) {
    const Results expected = on_layout({"x=1", none, none}, dropout);
    const std::vector<Layout> layouts{
        {"x=2", {"x", {}, {}, {}}, {"x", {}, {}, {}}},             // batch, unevenly
        {"x=2", {{}, "x", {}, {}}, {{}, "x", {}, {}}},             // heads
        {"x=3", {{}, {}, "x", {}}, none},                          // rows
        {"x=3", {{}, {}, "x", {}}, {{}, {}, "x", {}}},             // rows and keys over one axis
        {"x=2,y=3", {{}, {}, "x", {}}, {{}, {}, "y", {}}},         // rows and keys over two
        {"x=2,y=2", {{}, "x", "y", {}}, {{}, "x", {}, {}}},        // heads and rows
        {"x=2,y=3", {{}, {"x", "y"}, {}, {}}, {{}, "x", {}, {}}},  // more heads than key heads
        {"x=2,y=3", {"y", {}, "x", {}}, {"y", {}, "x", {}}},       // batch and sequence
        {"x=4", {{}, {}, "x", {}}, {{}, {}, "x", {}}}};
    for (const Layout& layout : layouts) {
      SCOPED_TRACE(layout.mesh + " layout " + std::to_string(&layout - layouts.data()));
      expect_near(on_layout(layout, dropout), expected, 1e-9);
    }
  }
}

// The collectives of a step with the given shardings.
std::vector<std::string> collectives_of(const Layout& layout) {
  const FreshRank rank;
  const Mesh mesh = Mesh::parse(layout.mesh);
  plan_for_devices(static_cast<int>(mesh.device_count()));
  std::vector<Tensor> inputs;
  for (const Dims& dims : {Dims{4, 6, 8, 4}, Dims{4, 6, 8, 4}, Dims{4, 6, 8, 4}}) {
    inputs.push_back(Tensor::abstract(Type::array(DType::kF64, dims), "x"));
    mark_sharding(inputs.back(), mesh, inputs.size() == 1 ? layout.q : layout.k);
    inputs.back().set_requires_grad();
  }
  // A loss would need a sum over the devices.
  Tensor out = scaled_dot_product_attention(inputs[0], inputs[1], inputs[2], {.causal = true});
  mark_sharding(out, mesh, layout.q);
  std::vector<std::string> opcodes;
  const StepPlan plan = plan_step();
  for (const auto& note : plan.partitioned.notes) opcodes.push_back(note.opcode);
  return opcodes;
}

TEST(Attention, ShardedBatchesAndHeadsNeedNoCommunicationAndShardedRowsOnlyTheKeys) {
  const PartitionSpec none{{}, {}, {}, {}};
  EXPECT_EQ(collectives_of({"x=2", {"x", {}, {}, {}}, {"x", {}, {}, {}}}), std::vector<std::string>{});
  EXPECT_EQ(collectives_of({"x=2", {{}, "x", {}, {}}, {{}, "x", {}, {}}}), std::vector<std::string>{});
  EXPECT_EQ(collectives_of({"x=2", {{}, {}, "x", {}}, none}), std::vector<std::string>{});
  const std::vector<std::string> gathers{"all-gather", "all-gather"};  // of k and v
  EXPECT_EQ(collectives_of({"x=2", {{}, {}, "x", {}}, {{}, {}, "x", {}}}), gathers);
}

// ---- memory ---------------------------------------------------------------------------------------------------------

std::int64_t peak_bytes(std::int64_t length) {
  const FreshRank rank;
  std::vector<Tensor> inputs;
  for (int i = 0; i < 3; ++i) {
    inputs.push_back(
        Tensor::from<float>({1, 1, length, 16}, std::vector<float>(static_cast<std::size_t>(16 * length))));
    inputs.back().set_requires_grad();
  }
  sum(square(scaled_dot_product_attention(inputs[0], inputs[1], inputs[2], {.causal = true}))).backward();
  mark_step();
  return compiled_programs().back().memory.held_bytes();
}

TEST(Attention, MemoryIsLinearInTheLength) {
  const std::int64_t once = peak_bytes(1024);
  const std::int64_t twice = peak_bytes(2048);
  EXPECT_LT(twice, 2 * once + (1 << 16));
  EXPECT_LT(twice, std::int64_t{8} << 20);  // the scores would take 16 MiB
}

// The random numbers of a micro-batch need more instructions, while the types of q and k are still read.
TEST(Attention, DropoutOfMicroBatchesIsThatOfTheCompleteBatch) {
  const FreshRank rank;
  constexpr std::int64_t kBatch = 4;
  const Tensor q = random_numbers({kBatch, 5, 3}, 1);
  const auto weights = [&](std::int64_t first, std::int64_t rows) {
    std::vector<Tensor> out;
    for (int layer = 0; layer < 40; ++layer) {
      const Tensor part = q.slice(0, first, first + rows);
      out.push_back(scaled_dot_product_attention(part, part, part, {.causal = true, .dropout = 0.5}));
    }
    return sum(stack(out, 0), {0});
  };
  manual_seed(5);
  const std::vector<double> expected = weights(0, kBatch).to_vector<double>();
  manual_seed(5);
  std::vector<double> got;
  for (int part = 0; part < 2; ++part) {
    const MicroBatch micro(2 * part);
    const Tensor x = weights(2 * part, 2);
    if (part == 0) mark_step();
    for (const double value : x.to_vector<double>()) got.push_back(value);
  }
  mark_step();
  expect_near({got}, {expected}, 1e-12);
}

}  // namespace
}  // namespace tessera
