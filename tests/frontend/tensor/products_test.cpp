// SPDX-License-Identifier: Apache-2.0
// matmul and einsum: their values, programs and errors.
#include "tessera/frontend/tensor/products.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "frontend/on_ranks.h"
#include "frontend/tensor/numbers.h"
#include "tessera/frontend/execution/runtime.h"
#include "tessera/frontend/tensor/functions.h"
#include "tessera/ir/op_def.h"

namespace tessera {
namespace {

using testing::counted;
using testing::error_of;
using testing::numbers;
using testing::Numbers;

// The ops of the traced program, without parameters.
std::map<std::string, int> ops_of(const Tensor&) {
  std::map<std::string, int> out;
  const Program program = plan_step().global;
  for (const auto& instruction : program.entry_computation().instructions) ++out[std::string(instruction.op->name)];
  out.erase("parameter");
  out.erase("tuple");
  return out;
}
using Ops = std::map<std::string, int>;

Tensor given(Shape shape) {
  return Tensor::from(std::vector<float>(static_cast<std::size_t>(shape.numel()), 1), shape);
}

TEST(Products, EinsumOfTwoOperandsIsOneDot) {
  const auto ops = [](const std::string& equation, const std::vector<Shape>& shapes) {
    const FreshRank rank;
    std::vector<Tensor> operands;
    for (const auto& shape : shapes) operands.push_back(given(shape));
    const Tensor result = einsum(equation, operands);
    return ops_of(result);
  };
  EXPECT_EQ(ops("ij,jk->ik", {{5, 3}, {3, 4}}), (Ops{{"dot", 1}}));
  EXPECT_EQ(ops("ij,jk->ki", {{5, 3}, {3, 4}}), (Ops{{"dot", 1}}));  // the operands exchanged
  EXPECT_EQ(ops("bhqd,bhkd->bhqk", {{2, 3, 5, 4}, {2, 3, 7, 4}}), (Ops{{"dot", 1}}));
  EXPECT_EQ(ops("bthd,bshd->bhts", {{2, 5, 3, 4}, {2, 7, 3, 4}}), (Ops{{"dot", 1}}));
  EXPECT_EQ(ops("bhts,bshd->bthd", {{2, 3, 5, 7}, {2, 7, 3, 4}}), (Ops{{"dot", 1}, {"transpose", 1}}));
  EXPECT_EQ(ops("...ij,jk->...ik", {{2, 5, 3}, {3, 4}}), (Ops{{"dot", 1}}));
  EXPECT_EQ(ops("ij,jk,kl->il", {{5, 3}, {3, 2}, {2, 4}}), (Ops{{"dot", 2}}));
}

// The definition: a sum over all values of the labels. Dims of size 1 broadcast.
Numbers sum_of_products(const std::string& equation, const std::vector<Tensor>& operands) {
  const auto arrow = equation.find("->");
  const std::string output = equation.substr(arrow + 2);
  std::vector<std::string> terms{""};
  for (const char c : equation.substr(0, arrow)) {
    if (c == ',')
      terms.emplace_back();
    else
      terms.back().push_back(c);
  }
  std::string labels = output;
  std::map<char, std::int64_t> sizes;
  for (std::size_t i = 0; i < terms.size(); ++i)
    for (std::size_t d = 0; d < terms[i].size(); ++d) {
      sizes[terms[i][d]] = std::max(sizes[terms[i][d]], operands[i].dim(static_cast<int>(d)));
      if (labels.find(terms[i][d]) == std::string::npos) labels.push_back(terms[i][d]);
    }
  std::vector<Numbers> values;
  for (const auto& operand : operands) values.push_back(numbers(operand));
  Dims box;
  for (const char label : labels) box.push_back(sizes[label]);
  std::int64_t count = 1;
  for (const char label : output) count *= sizes[label];
  Numbers out(static_cast<std::size_t>(count));
  for_each_index(box, [&](const Dims& index) {
    double product = 1;
    for (std::size_t i = 0; i < terms.size(); ++i) {
      std::int64_t place = 0;
      for (std::size_t d = 0; d < terms[i].size(); ++d) {
        const std::int64_t size = operands[i].dim(static_cast<int>(d));
        place = place * size + (size == 1 ? 0 : index[labels.find(terms[i][d])]);
      }
      product *= values[i][static_cast<std::size_t>(place)];
    }
    std::int64_t place = 0;
    for (std::size_t d = 0; d < output.size(); ++d) place = place * sizes[output[d]] + index[d];
    out[static_cast<std::size_t>(place)] += product;
  });
  return out;
}

TEST(Products, EqualTheSumOverAllIndices) {
  struct Row {
    std::string equation;  // as it is written
    std::string plain;     // the same without `...`, with an output
    std::vector<Shape> shapes;
  };
  const std::vector<Row> rows = {
      {"ij,jk->ik", "ij,jk->ik", {{5, 3}, {3, 4}}},
      {"ij,jk->ki", "ij,jk->ki", {{5, 3}, {3, 4}}},
      {"ba, cb", "ba,cb->ac", {{5, 3}, {4, 5}}},
      {"ijk->kij", "ijk->kij", {{5, 3, 2}}},
      {"ijk->j", "ijk->j", {{5, 3, 2}}},
      {"ii->", "ii->", {{5, 5}}},
      {"ii", "ii->", {{5, 5}}},
      {"iji->ij", "iji->ij", {{5, 3, 5}}},
      {"iii->i", "iii->i", {{3, 3, 3}}},
      {"iij,jk->ik", "iij,jk->ik", {{5, 5, 3}, {3, 2}}},
      {"bthd,bshd->bhts", "bthd,bshd->bhts", {{2, 5, 3, 4}, {2, 7, 3, 4}}},
      {"bhts,bshd->bthd", "bhts,bshd->bthd", {{2, 3, 5, 7}, {2, 7, 3, 4}}},
      {"i,j->ij", "i,j->ij", {{5}, {3}}},
      {"i,j->ji", "i,j->ji", {{5}, {3}}},
      {"i,i", "i,i->", {{5}, {5}}},
      {"ij,ij->i", "ij,ij->i", {{5, 3}, {5, 3}}},
      {"ij,ji->ij", "ij,ji->ij", {{5, 3}, {3, 5}}},
      {"ij,jk->ik", "ij,jk->ik", {{5, 1}, {3, 4}}},
      {"ijl,jk->k", "ijl,jk->k", {{5, 3, 2}, {3, 4}}},
      {"ij,jk,kl->il", "ij,jk,kl->il", {{5, 3}, {3, 2}, {2, 4}}},
      {"bi,oij,bj->bo", "bi,oij,bj->bo", {{5, 3}, {2, 3, 4}, {5, 4}}},
      {"ai,bi,ci->abc", "ai,bi,ci->abc", {{2, 3}, {4, 3}, {5, 3}}},
      {"a,b,c,d->dbca", "a,b,c,d->dbca", {{2}, {3}, {4}, {5}}},
      {"...ij,...jk->...ik", "bij,jk->bik", {{2, 5, 3}, {3, 4}}},
      {"...ij,jk", "bij,jk->bik", {{2, 5, 3}, {3, 4}}},
      {"...i,j...->...ij", "bci,jc->bcij", {{2, 1, 3}, {4, 5}}},
      {"...->...", "ab->ab", {{2, 3}}},
  };
  for (const Row& row : rows) {
    const FreshRank rank;
    std::vector<Tensor> operands;
    for (const auto& shape : row.shapes) operands.push_back(sin(counted(shape) + 1.0));
    const Numbers given = numbers(einsum(row.equation, operands));
    const Numbers expected = sum_of_products(row.plain, operands);
    ASSERT_EQ(given.size(), expected.size()) << row.equation;
    for (std::size_t i = 0; i < given.size(); ++i)
      EXPECT_NEAR(given[i], expected[i], 1e-13) << row.equation << " " << i;
  }
}

TEST(Products, MatmulFollowsTheRulesOfNumPy) {
  struct Row {
    std::string plain;
    Shape x;
    Shape y;
    Shape result;
  };
  const std::vector<Row> rows = {
      {"i,i->", {5}, {5}, {}},
      {"i,ij->j", {5}, {5, 3}, {3}},
      {"ij,j->i", {5, 3}, {3}, {5}},
      {"bij,j->bi", {2, 5, 3}, {3}, {2, 5}},
      {"i,bij->bj", {5}, {2, 5, 3}, {2, 3}},
      {"ij,bjk->bik", {5, 3}, {2, 3, 4}, {2, 5, 4}},
      {"bij,jk->bik", {2, 5, 3}, {3, 4}, {2, 5, 4}},
      {"abij,bjk->abik", {2, 1, 5, 3}, {7, 3, 4}, {2, 7, 5, 4}},
      {"bij,bjk->bik", {1, 5, 3}, {1, 3, 4}, {1, 5, 4}},
      {"abij,abjk->abik", {2, 1, 5, 3}, {1, 7, 3, 2}, {2, 7, 5, 2}},
  };
  for (const Row& row : rows) {
    const FreshRank rank;
    const Tensor x = sin(counted(row.x) + 1.0);
    const Tensor y = cos(counted(row.y));
    const Tensor product = matmul(x, y);
    EXPECT_EQ(product.shape(), row.result) << row.plain;
    const Numbers given = numbers(product);
    const Numbers expected = sum_of_products(row.plain, {x, y});
    ASSERT_EQ(given.size(), expected.size()) << row.plain;
    for (std::size_t i = 0; i < given.size(); ++i) EXPECT_NEAR(given[i], expected[i], 1e-13) << row.plain << " " << i;
  }
}

TEST(Products, MatmulDoesNotRepeatTheOperandThatBroadcasts) {
  const FreshRank rank;
  const Tensor y = matmul(given({7, 2, 5, 3}), given({2, 3, 4}));
  EXPECT_EQ(ops_of(y), (Ops{{"dot", 1}, {"transpose", 1}}));
  EXPECT_EQ(y.shape(), (Shape{7, 2, 5, 4}));
}

TEST(Products, EinsumTakesTheLeastExpensivePairFirst) {
  const FreshRank rank;
  const Tensor y = einsum("ij,jk,k->i", given({50, 30}), given({30, 20}), given({20}));
  const Program program = plan_step().global;
  std::vector<std::string> types;
  for (const auto& instruction : program.entry_computation().instructions)
    if (instruction.op->name == std::string_view("dot")) types.push_back(instruction.type.str());
  EXPECT_EQ(types, (std::vector<std::string>{"f32[30]", "f32[50]"}));
}

TEST(Products, EquationsThatDoNotFitAreErrors) {
  const FreshRank rank;
  const Tensor m = given({5, 3});
  const auto message = [&](const std::string& equation, const std::vector<Tensor>& operands) {
    return error_of([&] { einsum(equation, operands); });
  };
  EXPECT_EQ(message("ij,jk", {m}), "einsum \"ij,jk\": the equation has 2 terms for 1 operands");
  EXPECT_EQ(message("ijk", {m}), "einsum \"ijk\": term 0 names 3 dims, but operand 0 is f32[5,3]");
  EXPECT_EQ(message("...ijk", {m}),
            "einsum \"...ijk\": term 0 names 3 dims in addition to `...`, but operand 0 is f32[5,3]");
  EXPECT_EQ(message("ij,jk->ik", {m, m}), "einsum \"ij,jk->ik\": 'j' has size 3 in operand 0 and size 5 in operand 1");
  EXPECT_EQ(message("ij->ik", {m}), "einsum \"ij->ik\": the output names 'k', which no operand has");
  EXPECT_EQ(message("ij->ii", {m}), "einsum \"ij->ii\": the output names 'i' twice");
  EXPECT_EQ(
      message("i+j", {m}),
      "einsum \"i+j\": '+' in the term \"i+j\" is not a label; labels are letters, and `...` stands for further dims");
  EXPECT_EQ(
      message("...j->j", {m}),
      "einsum \"...j->j\": the output has no `...`, but the operands have 1 dims for it; write `...` in the output or "
      "sum them first");
  EXPECT_EQ(message("ij,ij->ij", {m, m.to(kF64)}),
            "einsum \"ij,ij->ij\": operands must have one numeric element type, got f32[5,3] and f64[5,3]; convert "
            "with .to()");
}

TEST(Products, MatmulNamesTheSizesThatDiffer) {
  const FreshRank rank;
  EXPECT_EQ(error_of([] {
              matmul(given({5, 3}), given({4}));
            }),
            "matmul: the last dim of f32[5,3] is 3, but dim 0 of f32[4] is 4");
  EXPECT_EQ(error_of([] {
              matmul(given({5, 2, 3}), given({4, 3, 2}));
            }),
            "matmul: shapes [5] and [4] do not broadcast: sizes 5 and 4 at dim 1 from the end");
}

TEST(Einsum, TakesAListOfAnyNumberOfOperands) {
  const FreshRank rank;
  const Tensor x = Tensor::from<double>({2}, {3, 4});
  EXPECT_EQ(einsum("i->", {x}).item(), 7);
  EXPECT_EQ(einsum("i,i->", {x, x}).item(), 25);
  EXPECT_EQ(einsum("i,i,i->", {x, x, x}).item(), 91);
}

}  // namespace
}  // namespace tessera
