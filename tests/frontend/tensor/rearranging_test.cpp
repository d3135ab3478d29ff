// SPDX-License-Identifier: Apache-2.0
// Functions that repeat, move and select elements, products with PyTorch's names, counts and indices: values worked out by
// hand or by loops, collectives, errors.
#include <gtest/gtest.h>

#include <cmath>

#include "frontend/on_ranks.h"
#include "frontend/tensor/numbers.h"
#include "tessera/frontend/sharding/mark_sharding.h"
#include "tessera/frontend/tensor/functions.h"

namespace tessera {
namespace {

using testing::counted;
using testing::error_of;
using testing::numbers;
using testing::Numbers;

// ---- repetition ---------------------------------------------------------------------------------------------------------

TEST(Repetition, RepeatsTheTensorOrEachElement) {
  const FreshRank rank;
  const Tensor x = arange(3);
  EXPECT_EQ(numbers(repeat(x, {2})), (Numbers{0, 1, 2, 0, 1, 2}));
  EXPECT_EQ(numbers(x.repeat(11)).size(), 33U);
  EXPECT_EQ(x.repeat(4, 2).shape(), (Shape{4, 6}));
  EXPECT_EQ(x.repeat({1, 0}).shape(), (Shape{1, 0}));
  EXPECT_EQ(numbers(repeat_interleave(x, 2)), (Numbers{0, 0, 1, 1, 2, 2}));
  EXPECT_EQ(numbers(counted({2, 2}).repeat_interleave(2, 1)), (Numbers{0, 0, 1, 1, 2, 2, 3, 3}));
  EXPECT_EQ(numbers(counted({2, 2}).repeat_interleave(2, 0)), (Numbers{0, 1, 0, 1, 2, 3, 2, 3}));
  EXPECT_EQ(numbers(counted({2, 3}).tile(2)), (Numbers{0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5}));
  EXPECT_EQ(error_of([&] {
              (void)zeros({2, 3}).repeat(2);
            }),
            "repeat: needs a count for each of the 2 dims of f32[2,3], got [2]");
  EXPECT_EQ(error_of([&] { repeat_interleave(x, -1); }), "repeat_interleave: the count must not be negative, got -1");
}

TEST(Repetition, CountsOfATensorNeedABound) {
  const FreshRank rank;
  const Tensor x = Tensor::from({5, 6, 7}, {3}), counts = Tensor::from({2, 0, 3}, {3});
  EXPECT_EQ(numbers(repeat_interleave(x, counts, {.size = 5})), (Numbers{5, 5, 7, 7, 7}));
  EXPECT_EQ(numbers(x.repeat_interleave(counts, {.size = 4})), (Numbers{5, 5, 7, 7}));
  EXPECT_EQ(numbers(repeat_interleave(x, counts, {.size = 7, .fill_value = -1})), (Numbers{5, 5, 7, 7, 7, -1, -1}));
  EXPECT_EQ(numbers(repeat_interleave(counted({2, 2}), Tensor::from({1, 2}, {2}), {.dim = 1, .size = 3})),
            (Numbers{0, 1, 1, 2, 3, 3}));
  EXPECT_EQ(repeat_interleave(zeros({0, 2}), zeros({0}, kS32), {.dim = 0, .size = 3}).shape(), (Shape{3, 2}));
  EXPECT_EQ(
      error_of([&] { repeat_interleave(x, counts); }),
      "repeat_interleave: the number of results depends on the data, but programs have fixed shapes; give a bound, "
      "repeat_interleave(x, counts, ...) with {.size = N}, which keeps the first N results and fills the rest with "
      "fill_value, or read the tensor with to_host() and compute on the host");
  EXPECT_EQ(error_of([&] { repeat_interleave(x, zeros({2}, kS32), {.size = 3}); }),
            "repeat_interleave: needs a count for each of 3 elements, got s32[2]");
}

// ---- dims ---------------------------------------------------------------------------------------------------------------

TEST(Rearranging, DimsAreMovedAddedAndRemoved) {
  const FreshRank rank;
  const Tensor x = counted({2, 3, 5});
  EXPECT_EQ(movedim(x, 0, -1).shape(), (Shape{3, 5, 2}));
  EXPECT_EQ(numbers(movedim(x, 0, -1)), numbers(permute(x, {1, 2, 0})));
  EXPECT_EQ(numbers(movedim(x, {2, 0}, {0, 1})), numbers(permute(x, {2, 0, 1})));
  EXPECT_EQ(numbers(swapaxes(x, 0, 2)), numbers(transpose(x, 0, 2)));
  EXPECT_EQ(reshape(x, {-1, 6}).shape(), (Shape{5, 6}));
  EXPECT_EQ(view(x, {30}).shape(), (Shape{30}));
  EXPECT_EQ(unsqueeze(x, 1).shape(), (Shape{2, 1, 3, 5}));
  EXPECT_EQ(squeeze(unsqueeze(x, -1), 3).shape(), (Shape{2, 3, 5}));
  EXPECT_EQ(zeros({1, 3, 1, 1}).squeeze().shape(), (Shape{3}));
  EXPECT_EQ(zeros({1, 3, 1}).squeeze(-1).shape(), (Shape{1, 3}));
  EXPECT_EQ(zeros({1, 3, 1}).squeeze(1).shape(), (Shape{1, 3, 1})) << "as in PyTorch";
  EXPECT_EQ(squeeze(zeros({1, 3, 1}), {0, 1, -1}).shape(), (Shape{3}));
  EXPECT_EQ(error_of([] { squeeze(zeros({1, 3}), {0, -2}); }), "squeeze: a dim is named twice: [0,-2]");
  EXPECT_EQ(broadcast_to(zeros({3, 1}), {2, 3, 4}).shape(), (Shape{2, 3, 4}));
  EXPECT_EQ(error_of([&] {
              movedim(x, {0, 1}, {2});
            }),
            "movedim: needs a destination for each dim, got 1 destinations for 2 dims");
  EXPECT_EQ(error_of([&] { movedim(x, {0, 0}, {1, 2}); }), "movedim: a dim is named twice: [0,0] to [1,2]");
}

TEST(Rearranging, UnbindGivesThePartsOfADim) {
  const FreshRank rank;
  const auto columns = counted({2, 3}).unbind(1);
  ASSERT_EQ(columns.size(), 3U);
  EXPECT_EQ(numbers(columns[2]), (Numbers{2, 5}));
  EXPECT_EQ(unbind(zeros({0, 3})).size(), 0U);
  EXPECT_EQ(error_of([] { unbind(zeros({})); }), "unbind: f32[] has no dim 0");
}

TEST(Rearranging, WindowsStartAtEachStep) {
  const FreshRank rank;
  const Tensor x = arange(7);
  EXPECT_EQ(numbers(x.unfold(0, 3, 2)), (Numbers{0, 1, 2, 2, 3, 4, 4, 5, 6}));
  EXPECT_EQ(numbers(unfold(x, 0, 2, 3)), (Numbers{0, 1, 3, 4}));
  EXPECT_EQ(numbers(unfold(x, 0, 3, 3)), (Numbers{0, 1, 2, 3, 4, 5}));
  const Tensor y = counted({4, 3});
  EXPECT_EQ(y.unfold(0, 2, 1).shape(), (Shape{3, 3, 2}));
  EXPECT_EQ(numbers(y.unfold(0, 2, 2)), (Numbers{0, 3, 1, 4, 2, 5, 6, 9, 7, 10, 8, 11}));
  EXPECT_EQ(numbers(y.unfold(0, 3, 1)[{1, 2}]), (Numbers{5, 8, 11}));
  EXPECT_EQ(error_of([&] { unfold(x, 0, 8, 1); }), "unfold: a window of 8 does not fit into dim 0 of s32[7]");
}

TEST(Rearranging, GridsRepeatEachVectorAlongTheOtherDims) {
  const FreshRank rank;
  const Tensor rows = arange(2), columns = arange(3);
  const auto plain = meshgrid({rows, columns});
  EXPECT_EQ(numbers(plain[0]), (Numbers{0, 0, 0, 1, 1, 1}));
  EXPECT_EQ(numbers(plain[1]), (Numbers{0, 1, 2, 0, 1, 2}));
  const auto exchanged = meshgrid({rows, columns}, GridIndexing::kXy);
  EXPECT_EQ(exchanged[0].shape(), (Shape{3, 2}));
  EXPECT_EQ(numbers(exchanged[0]), (Numbers{0, 1, 0, 1, 0, 1}));
  EXPECT_EQ(numbers(exchanged[1]), (Numbers{0, 0, 1, 1, 2, 2}));
  EXPECT_EQ(error_of([] { meshgrid({}); }), "meshgrid: needs at least one tensor");
  EXPECT_EQ(error_of([] { meshgrid({zeros({2, 3})}); }), "meshgrid: needs vectors, got f32[2,3]");
}

// ---- diagonals ----------------------------------------------------------------------------------------------------------

TEST(Diagonals, EqualALoopForEveryOffset) {
  const FreshRank rank;
  const Tensor x = counted({3, 5, 2});
  for (int offset = -4; offset <= 6; ++offset) {
    Numbers expected;
    for (int k = 0; k < 2; ++k)
      for (int i = 0; i < 3; ++i)
        if (i + offset >= 0 && i + offset < 5) expected.push_back(10 * i + 2 * (i + offset) + k);
    EXPECT_EQ(numbers(diagonal(x, offset)), expected) << offset;
    EXPECT_EQ(numbers(x.transpose(0, 1).diagonal(-offset)), expected) << offset;
    EXPECT_EQ(numbers(diagonal(x.permute(2, 1, 0), offset, 2, 1)), expected) << offset;
    const Tensor matrix = diag(arange(1, 4), offset);
    EXPECT_EQ(matrix.dim(0), 3 + std::abs(offset));
    EXPECT_EQ(numbers(diag(matrix, offset)), (Numbers{1, 2, 3})) << offset;
    EXPECT_EQ(matrix.sum().item(), 6);
  }
  EXPECT_EQ(numbers(diagonal(Tensor::from({1.0, HUGE_VAL, 3.0, 4.0}, {2, 2}))), (Numbers{1, 4}));
  EXPECT_EQ(numbers(diagonal(eye(2) > 0.0)), (Numbers{1, 1}));
  EXPECT_EQ(error_of([&] { diagonal(x, 0, 1, -2); }),
            "diagonal: needs two different dims of f64[3,5,2], got dim 1 twice");
}

TEST(Diagonals, AreEmbeddedInTwoNewDims) {
  const FreshRank rank;
  const Tensor x = counted({2, 2}) + 1.0;
  EXPECT_EQ(numbers(diag_embed(x)), (Numbers{1, 0, 0, 2, 3, 0, 0, 4}));
  EXPECT_EQ(numbers(diag_embed(x[0], 1)), (Numbers{0, 1, 0, 0, 0, 2, 0, 0, 0}));
  EXPECT_EQ(numbers(diag_embed(x, -1, 0, 2)), numbers(movedim(diag_embed(x, -1), {1, 2}, {0, 2})));
  EXPECT_EQ(trace(counted({3, 5})).item(), 18);
  EXPECT_EQ(trace(eye(3) > 0.0).item(), 3);
  EXPECT_EQ(trace(ones({300, 300}, kBF16)).item(), 300);
  EXPECT_EQ(error_of([] { trace(zeros({3})); }), "trace: needs a matrix, got f32[3]");
  EXPECT_EQ(error_of([] { diag(zeros({2, 2, 2})); }), "diag: needs a vector or a matrix, got f32[2,2,2]");
}

// ---- products -----------------------------------------------------------------------------------------------------------

TEST(NamedProducts, AddScaleAndBatch) {
  const FreshRank rank;
  const Tensor x = counted({2, 3}), y = counted({3, 2});
  EXPECT_EQ(numbers(outer(arange(2), arange(3))), (Numbers{0, 0, 0, 0, 1, 2}));
  EXPECT_EQ(numbers(addmm(ones({2}, kF64), x, y, {.beta = 2, .alpha = 3})), (Numbers{32, 41, 86, 122}));
  const Tensor broken = full({2, 2}, HUGE_VAL, kF64);
  EXPECT_EQ(numbers(addmm(broken, x, y, {.beta = 0})), numbers(matmul(x, y)));
  const Tensor batch = stack({x, x + 1.0});
  EXPECT_EQ(numbers(bmm(batch, stack({y, y}))), numbers(matmul(batch, y)));
  EXPECT_EQ(numbers(baddbmm(ones({2}, kF64), batch, stack({y, y}))), numbers(matmul(batch, y) + 1.0));
  EXPECT_EQ(error_of([&] { bmm(x, y); }), "bmm: needs [b, m, k] and [b, k, n], got f64[2,3] and f64[3,2]");
  EXPECT_EQ(error_of([&] { addmm(ones({2}), x, y); }),
            "addmm: the added tensor is f32[2], but the product is f64[2,2]; convert one with .to()");
}

TEST(NamedProducts, SumsOf16BitsAreRoundedOnce) {
  const FreshRank rank;
  const Tensor x = (counted({5, 7}) * 0.37).to(kBF16), y = (counted({7, 3}) * 0.11).to(kBF16);
  const Tensor added = full({3}, 1000.5, kF32).to(kBF16);
  const Tensor expected = matmul(x.to(kF32), y.to(kF32)) * 0.3 + added.to(kF32);
  EXPECT_EQ(numbers(addmm(added, x, y, {.alpha = 0.3})), numbers(expected.to(kBF16)));
}

// ---- counts, indices ----------------------------------------------------------------------------------------------------

TEST(Counts, IdsOutOfRangeAreNotCounted) {
  const FreshRank rank;
  const Tensor ids = Tensor::from({3, 1, 1, 9, -1}, {5});
  EXPECT_EQ(numbers(bincount(ids, {.size = 4})), (Numbers{0, 2, 0, 1}));
  EXPECT_EQ(bincount(ids, {.size = 4}).dtype(), kS32);
  const Tensor weights = Tensor::from({0.5, 2.0, 3.0, 7.0, 7.0}, {5});
  EXPECT_EQ(numbers(ids.bincount({.size = 4, .weights = weights})), (Numbers{0, 5, 0, 0.5}));
  EXPECT_EQ(numbers(bincount(Tensor::from(std::vector<std::uint8_t>{2, 0, 2}, {3}), {.size = 3})), (Numbers{1, 0, 2}));
  EXPECT_EQ(numbers(bincount(zeros({0}, kS32), {.size = 2})), (Numbers{0, 0}));
  EXPECT_EQ(error_of([&] { bincount(ids); }),
            "bincount: the number of counts depends on the data, but programs have fixed shapes; give it, as in "
            "bincount(ids, {.size = N}), which counts the ids 0 to N - 1");
}

TEST(Members, OnesWithoutABoundNameIt) {
  const FreshRank rank;
  const Tensor x = arange(3);
  const std::string advice = "the number of results depends on the data, but programs have fixed shapes";
  for (const auto& call :
       std::vector<std::function<void()>>{[&] { (void)x.nonzero(); }, [&] { (void)x.masked_select(x > 1); },
                                          [&] { (void)x.unique(); }, [&] { (void)x.repeat_interleave(x); }})
    EXPECT_NE(error_of(call).find(advice), std::string::npos) << error_of(call);
  EXPECT_NE(error_of([&] { (void)x.bincount(); }).find("bincount(ids, {.size = N})"), std::string::npos);
  EXPECT_EQ(numbers(x.nonzero({.size = 2})), (Numbers{1, 2}));
  EXPECT_EQ(numbers(x.masked_select(x > 1, {.size = 1})), Numbers{2});
  EXPECT_EQ(numbers(x.unique({.size = 3}).counts), (Numbers{1, 1, 1}));
}

TEST(Indices, OfTrianglesEqualALoop) {
  const FreshRank rank;
  for (int offset = -4; offset <= 4; ++offset) {
    Numbers lower_rows, lower_columns, upper_rows, upper_columns;
    for (int row = 0; row < 3; ++row)
      for (int column = 0; column < 5; ++column) {
        if (column <= row + offset) lower_rows.push_back(row), lower_columns.push_back(column);
        if (column >= row + offset) upper_rows.push_back(row), upper_columns.push_back(column);
      }
    const Tensor lower = tril_indices(3, 5, offset), upper = triu_indices(3, 5, offset);
    EXPECT_EQ(lower.dim(0), 2);
    EXPECT_EQ(numbers(lower[0]), lower_rows) << offset;
    EXPECT_EQ(numbers(lower[1]), lower_columns) << offset;
    EXPECT_EQ(numbers(upper[0]), upper_rows) << offset;
    EXPECT_EQ(numbers(upper[1]), upper_columns) << offset;
  }
}

TEST(Creation, PowersAtEqualDistancesOfTheExponent) {
  const FreshRank rank;
  EXPECT_EQ(numbers(logspace(-1, 3, 5, 2, kF64)), (Numbers{0.5, 1, 2, 4, 8}));
  EXPECT_EQ(numbers(logspace(0, 4, 5, 10, kF64)), (Numbers{1, 10, 100, 1000, 10000}));
  EXPECT_EQ(logspace(0, 1, 3).type().str(), "f32[3]");
  EXPECT_NEAR(numbers(logspace(0, 1, 3))[1], std::sqrt(10), 1e-6);
}

// ---- collectives --------------------------------------------------------------------------------------------------------

// The collectives of f(x), where x is f64[6,4], and x and the result have these shardings.
std::vector<std::string> collectives_for(const PartitionSpec& of_x, const PartitionSpec& of_result,
                                         const std::function<Tensor(const Tensor&)>& f) {
  const FreshRank rank;
  const Mesh mesh = Mesh::parse("a=2");
  plan_for_devices(2);
  const Tensor x = Tensor::abstract(Type::array(DType::kF64, {6, 4}), "x");
  mark_sharding(x, mesh, of_x);
  const Tensor out = f(x);
  mark_sharding(out, mesh, of_result);
  std::vector<std::string> opcodes;
  const StepPlan plan = plan_step();
  for (const auto& note : plan.partitioned.notes) opcodes.push_back(note.opcode);
  return opcodes;
}

TEST(Rearranging, ShardedDimsStayShardedWithoutCollectives) {
  const std::vector<std::string> none;
  const PartitionSpec rows{"a", {}}, columns{{}, "a"};
  EXPECT_EQ(collectives_for(rows, rows, [](const Tensor& x) { return log2(hypot(x, 2.0)).nan_to_num(); }), none);
  EXPECT_EQ(collectives_for(rows, rows, [](const Tensor& x) { return logaddexp(x, atan2(x, 0.5)).celu(); }), none);
  EXPECT_EQ(collectives_for(rows, rows, [](const Tensor& x) { return x.repeat(1, 3); }), none);
  EXPECT_EQ(collectives_for(rows, {{}, "a", {}}, [](const Tensor& x) { return x.repeat(5, 1, 1); }), none);
  EXPECT_EQ(collectives_for(rows, rows, [](const Tensor& x) { return x.repeat_interleave(3, 0); }), none);
  EXPECT_EQ(collectives_for(rows, columns, [](const Tensor& x) { return x.movedim(0, 1); }), none);
  EXPECT_EQ(collectives_for(rows, {"a"}, [](const Tensor& x) { return x.unbind(1)[2]; }), none);
  EXPECT_EQ(collectives_for(rows, {"a", {}, {}}, [](const Tensor& x) { return x.unfold(1, 2, 1); }), none);
  EXPECT_EQ(collectives_for(rows, {"a", {}, {}}, [](const Tensor& x) { return x.diag_embed(1); }), none);
  EXPECT_EQ(collectives_for(rows, rows, [](const Tensor& x) { return cummax(x, 1).values; }), none);
  EXPECT_EQ(collectives_for(rows, {"a"}, [](const Tensor& x) { return median(x, 1).values; }), none);
}

TEST(Rearranging, CopiesOfAShardedDimAreExchangedInsteadOfGathered) {
  const auto found = collectives_for({"a", {}}, {"a", {}}, [](const Tensor& x) { return x.repeat(3, 1); });
  EXPECT_EQ(found, std::vector<std::string>{"collective-permute"});
}

}  // namespace
}  // namespace tessera
