// SPDX-License-Identifier: Apache-2.0
// Subscripts with tensors: values by loops, the place of the dims, errors, communication.
#include "tessera/frontend/tensor/subscript.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "frontend/on_ranks.h"
#include "frontend/tensor/numbers.h"
#include "tessera/frontend/compile/compiled_function.h"
#include "tessera/frontend/execution/runtime.h"
#include "tessera/frontend/sharding/mark_sharding.h"
#include "tessera/frontend/tensor/functions.h"
#include "tessera/frontend/tracing/dump.h"

namespace tessera {
namespace {

using testing::counted;
using testing::error_of;
using testing::numbers;
using testing::Numbers;
using Ids = std::vector<std::int32_t>;

// f(index) for each index of an array of these dims, in row-major order.
Numbers each(const Dims& dims, const std::function<std::int64_t(const Dims&)>& f) {
  Numbers out;
  for_each_index(dims, [&](const Dims& index) { out.push_back(static_cast<double>(f(index))); });
  return out;
}

// The position that an id reads in a dim of this size.
std::int64_t read_position(std::int64_t id, std::int64_t size) {
  return std::clamp<std::int64_t>(id < 0 ? id + size : id, 0, size - 1);
}

// Element [i][j][k] of counted({5, 7, 3}).
std::int64_t element(std::int64_t i, std::int64_t j, std::int64_t k) { return (i * 7 + j) * 3 + k; }

void expect_equal(const Tensor& x, const Shape& shape, const std::function<std::int64_t(const Dims&)>& f) {
  EXPECT_EQ(x.shape(), shape);
  EXPECT_EQ(numbers(x), each(x.dims(), f));
}

// Ids of an array of dims {2, 4}; some are negative, and some are out of range.
const Ids kIds{3, -1, 0, 3, 9, -7, 4, -8};
std::int64_t id_at(std::int64_t a, std::int64_t b) { return kIds[static_cast<std::size_t>(a * 4 + b)]; }
Tensor ids() { return Tensor::from(kIds, {2, 4}); }

TEST(Subscripts, ATensorReplacesTheDimAlongWhichItSelects) {
  const FreshRank rank;
  const Tensor x = counted({5, 7, 3});
  expect_equal(x[ids()], {2, 4, 7, 3},
               [](const Dims& i) { return element(read_position(id_at(i[0], i[1]), 5), i[2], i[3]); });
  expect_equal(x[{All, ids()}], {5, 2, 4, 3},
               [](const Dims& i) { return element(i[0], read_position(id_at(i[1], i[2]), 7), i[3]); });
  expect_equal(x[{Ellipsis, ids()}], {5, 7, 2, 4},
               [](const Dims& i) { return element(i[0], i[1], read_position(id_at(i[2], i[3]), 3)); });
}

TEST(Subscripts, SeveralTensorsBroadcastAndSelectPairs) {
  const FreshRank rank;
  const Tensor x = counted({5, 7, 3});
  const Ids rows{4, -5};
  const Ids columns{2, 0, -1, 6};
  const Tensor r = Tensor::from(rows, {2, 1});
  const Tensor c = Tensor::from(columns, {4});
  const auto row = [&](std::int64_t a) { return read_position(rows[static_cast<std::size_t>(a)], 5); };
  const auto column = [&](std::int64_t b) { return read_position(columns[static_cast<std::size_t>(b)], 7); };
  expect_equal(x[{r, c}], {2, 4, 3}, [&](const Dims& i) { return element(row(i[0]), column(i[1]), i[2]); });
  const Tensor turned = x.permute(2, 0, 1);  // [3, 5, 7]
  expect_equal(turned[{All, r, c}], {3, 2, 4}, [&](const Dims& i) { return element(row(i[1]), column(i[2]), i[0]); });
  const Tensor between = x.permute(0, 2, 1);  // [5, 3, 7]
  const auto first = [&](const Dims& i) { return element(row(i[0]), column(i[1]), i[2]); };
  expect_equal(between[{r, All, c}], {2, 4, 3}, first);
  expect_equal(x[{r, NewAxis, c, NewAxis}], {2, 4, 1, 1, 3},
               [&](const Dims& i) { return element(row(i[0]), column(i[1]), i[4]); });
  expect_equal(x[{r, Ellipsis, c, 1}], {2, 4}, [&](const Dims& i) { return element(row(i[0]), column(i[1]), 1); });
}

// As in PyTorch. NumPy counts numbers as tensors.
TEST(Subscripts, NumbersAndScalarsDoNotSeparateTensors) {
  const FreshRank rank;
  const Tensor x = counted({5, 7, 3});
  const Ids columns{2, 0, -1, 1};
  const Tensor c = Tensor::from(columns, {4});
  const auto column = [&](std::int64_t b) { return read_position(columns[static_cast<std::size_t>(b)], 3); };
  const Tensor two = Tensor::from({2}, {});
  for (const Tensor& y : {x[{2, All, c}], x[{two, All, c}], x[{-3, All, c}], x[{two - 5.0, All, c}]})
    expect_equal(y, {7, 4}, [&](const Dims& i) { return element(2, i[0], column(i[1])); });
  for (const Tensor& y : {x[{Range(1, 4), 2, c}], x[{Range(1, 4), two, c}]})
    expect_equal(y, {3, 4}, [&](const Dims& i) { return element(i[0] + 1, 2, column(i[1])); });
  const Tensor rows = Tensor::from({4, 0, 1, 3}, {4});
  const Ids row{4, 0, 1, 3};
  for (const Tensor& y : {x[{rows, 2, c}], x[{rows, two, c}]})
    expect_equal(y, {4}, [&](const Dims& i) { return element(row[static_cast<std::size_t>(i[0])], 2, column(i[0])); });
  expect_equal(x[{All, two}], {5, 3}, [](const Dims& i) { return element(i[0], 2, i[1]); });
  expect_equal(x[{two, two, two}], {}, [](const Dims&) { return element(2, 2, 2); });
}

TEST(Subscripts, TensorsAndRangesMix) {
  const FreshRank rank;
  const Tensor x = counted({5, 7, 3});
  expect_equal(x[{Range({}, {}, -2), ids(), Range(1, 3)}], {3, 2, 4, 2},
               [](const Dims& i) { return element(4 - 2 * i[0], read_position(id_at(i[1], i[2]), 7), i[3] + 1); });
  // The tensor selects from the range.
  expect_equal(x[{All, Range(1, 6, 2), NewAxis}][{0, Tensor::from({2, -3}, {2})}], {2, 1, 3},
               [](const Dims& i) { return element(0, i[0] == 0 ? 5 : 1, i[2]); });
}

TEST(Subscripts, IdsMayHaveEveryIntegerType) {
  const FreshRank rank;
  const Tensor x = counted({5, 7});
  const Tensor wide = Tensor::from({4, -1, -9}, {3});
  const Numbers expected = numbers(x[wide]);
  EXPECT_EQ(numbers(x[wide.to(kS8)]), expected);
  EXPECT_EQ(numbers(x[wide.to(kS64)]), expected);
  EXPECT_EQ(numbers(x[Tensor::from(std::vector<std::uint8_t>{4, 255}, {2})]), numbers(x[Tensor::from({4, 4}, {2})]));
  EXPECT_EQ(numbers(x[{wide.to(kS64), Tensor::from(std::vector<std::uint8_t>{6, 0, 250}, {3})}]), (Numbers{34, 28, 6}));
  const Tensor none = zeros({0}, kS32);
  EXPECT_EQ(x[none].shape(), (Shape{0, 7}));
  EXPECT_EQ(zeros({0, 7})[none].shape(), (Shape{0, 7}));
}

TEST(Subscripts, ErrorsTellWhatIsWrong) {
  const FreshRank rank;
  const Tensor x = counted({5, 7});
  EXPECT_EQ(error_of([&] { (void)x[ones({3})]; }), "operator[]: positions must be integers, got f32[3]");
  const std::string mask = error_of([&] { (void)x[x > 3.0]; });
  EXPECT_NE(mask.find("operator[]: pred[5,7] is a mask"), std::string::npos) << mask;
  EXPECT_NE(mask.find("masked_select(x, mask, {.size = N})"), std::string::npos) << mask;
  EXPECT_NE(mask.find("where(mask, values, x)"), std::string::npos) << mask;
  EXPECT_NE(error_of([&] { (void)x.at(x > 3.0).set(0); }).find("at().set: pred[5,7] is a mask"), std::string::npos);
  EXPECT_EQ(error_of([&] {
              (void)x[{zeros({3}, kS32), zeros({4}, kS32)}];
            }),
            "operator[]: shapes [3] and [4] do not broadcast: sizes 3 and 4 at dim 1 from the end");
  EXPECT_EQ(error_of([&] {
              (void)x[{All, zeros({3}, kS32), All}];
            }),
            "operator[]: 3 entries for the 2 dims of f64[5,7]");
  EXPECT_EQ(error_of([&] { (void)zeros({0, 7})[zeros({3}, kS32)]; }), "operator[]: dim 0 of f32[0,7] has no elements");
}

TEST(Subscripts, TheRowsThatAMaskSelectsAreReadWithABound) {
  const FreshRank rank;
  const Tensor x = counted({5, 2});
  const Tensor mask = x[{All, 0}] > 3.0;
  EXPECT_EQ(numbers(x[nonzero(mask, {.size = 3})[{All, 0}]]), (Numbers{4, 5, 6, 7, 8, 9}));
}

TEST(Subscripts, ACompiledFunctionReadsAtTheIdsOfEachCall) {
  const FreshRank rank;
  CompiledFunction rows = compile([](const std::vector<Tensor>& x) {
    return std::vector<Tensor>{x[0][x[1]], x[0].at(x[1]).add(1)};
  });
  const Tensor x = counted({5, 2});
  for (const int id : {3, -1, 0}) {
    const auto results = rows({x, Tensor::from({id}, {1})});
    EXPECT_EQ(numbers(results[0]), numbers(x[{id}])) << id;
    EXPECT_EQ(numbers(results[1]), numbers(x.at(id).add(1))) << id;
  }
}

// ---- take, select, narrow -----------------------------------------------------------------------------------------------

TEST(Indexing, TakeCountsTheElementsInOrder) {
  const FreshRank rank;
  expect_equal(take(counted({5, 7, 3}), Tensor::from({0, 104, -1, 50, -105, 300}, {2, 3})), {2, 3},
               [](const Dims& i) { return Dims{0, 104, 104, 50, 0, 104}[static_cast<std::size_t>(i[0] * 3 + i[1])]; });
  EXPECT_EQ(numbers(take(full({}, 7, kF64), zeros({2}, kS32))), (Numbers{7, 7}));
  EXPECT_EQ(take(zeros({0, 3}), zeros({0}, kS32)).shape(), Shape{0});
  EXPECT_EQ(error_of([] { take(zeros({0, 3}), zeros({1}, kS32)); }), "take: dim 0 of f32[0,3] has no elements");
  EXPECT_EQ(error_of([] { take(zeros({3}), zeros({1})); }), "take: positions must be integers, got f32[1]");
}

TEST(Indexing, NarrowAndSelectAreParts) {
  const FreshRank rank;
  const Tensor x = counted({5, 7, 3});
  EXPECT_EQ(numbers(select(x, 1, -2)), numbers(x[{All, 5}]));
  EXPECT_EQ(numbers(narrow(x, 1, 2, 3)), numbers(x[{All, Range(2, 5)}]));
  EXPECT_EQ(numbers(x.narrow(-1, -2, 2)), numbers(x[{All, All, Range(1, 3)}]));
  EXPECT_EQ(x.narrow(0, 5, 0).shape(), (Shape{0, 7, 3}));
  for (const auto& [start, first] : std::vector<std::pair<int, int>>{{-4, 0}, {1, 1}, {4, 4}, {9, 4}})
    EXPECT_EQ(numbers(x.narrow(1, Tensor::from({start}, {}), 3)), numbers(x[{All, Range(first, first + 3)}])) << start;
  EXPECT_EQ(error_of([&] { narrow(x, 1, 5, 3); }), "narrow: 3 elements from 5 on are not all in dim 1 of f64[5,7,3]");
  EXPECT_EQ(error_of([&] { narrow(x, 0, -6, 1); }), "narrow: 1 elements from -6 on are not all in dim 0 of f64[5,7,3]");
  EXPECT_EQ(error_of([&] { narrow(x, 2, zeros({1}, kS32), 2); }),
            "narrow: the start must be a scalar of an integer type, got s32[1]");
}

// ---- communication ------------------------------------------------------------------------------------------------------

struct Operands {
  Tensor x, ids, values;
};

// The collectives of a step on two devices. The specs are those of x, the ids, the values and the result.
std::vector<std::string> collectives_of(const std::vector<PartitionSpec>& specs,
                                        const std::function<Tensor(const Operands&)>& f) {
  const FreshRank rank;
  const Mesh mesh = Mesh::parse("a=2");
  plan_for_devices(2);
  Operands operands{Tensor::abstract(Type::array(kF64, {4, 6, 8}), "x"),
                    Tensor::abstract(Type::array(kS32, {4, 3}), "ids"),
                    Tensor::abstract(Type::array(kF64, {4, 3, 8}), "values")};
  mark_sharding(operands.x, mesh, specs[0]);
  mark_sharding(operands.ids, mesh, specs[1]);
  mark_sharding(operands.values, mesh, specs[2]);
  Tensor out = f(operands);
  mark_sharding(out, mesh, specs[3]);
  std::vector<std::string> opcodes;
  for (const auto& note : plan_step().partitioned.notes) opcodes.push_back(note.opcode);
  return opcodes;
}

TEST(Subscripts, OfEachRowOfABatchNeedNoCommunication) {
  const PartitionSpec batch{"a", {}, {}};
  const PartitionSpec columns{{}, {}, "a"};
  const PartitionSpec rows{{}, "a", {}};
  const PartitionSpec none{{}, {}, {}};
  const PartitionSpec no_ids{{}, {}};
  const auto in_batch = [](const Operands& o) { return std::vector<Index>{arange(4).reshape({4, 1}), o.ids}; };
  const auto read = [](const Operands& o) { return o.x[{arange(4).reshape({4, 1}), o.ids}]; };
  const auto write = [&](const Operands& o) { return index_put(o.x, in_batch(o), o.values); };
  const std::vector<std::string> silence;
  EXPECT_EQ(collectives_of({batch, {"a", {}}, batch, batch}, read), silence);
  EXPECT_EQ(collectives_of({batch, {"a", {}}, batch, batch}, write), silence);
  EXPECT_EQ(collectives_of({columns, no_ids, columns, columns}, read), silence);
  EXPECT_EQ(collectives_of({columns, no_ids, columns, columns}, write), silence);
  EXPECT_EQ(collectives_of({rows, no_ids, none, rows}, write), silence);
  EXPECT_EQ(collectives_of({rows, no_ids, none, none}, read), std::vector<std::string>{"all-reduce"});
  // A slice assignment.
  const auto assign = [](const Operands& o) { return o.x.at({All, Range(1, 4)}).set(o.values); };
  EXPECT_EQ(collectives_of({batch, {"a", {}}, batch, batch}, assign), silence);
  EXPECT_EQ(collectives_of({rows, no_ids, none, rows}, assign), silence);
}

TEST(Subscripts, AreOneGatherOrOneScatter) {
  const FreshRank rank;
  const Tensor x = counted({5, 7, 3});
  const auto count = [](const Tensor& y, const std::string& op) {
    const std::string text = dump_hlo({y});
    int out = 0;
    for (auto at = text.find(" " + op + "("); at != std::string::npos; at = text.find(" " + op + "(", at + 1)) ++out;
    return out;
  };
  for (const Tensor& read : {x[ids()], x[{All, ids()}], x[{ids(), All, ids()}], take(x, ids())}) {
    EXPECT_EQ(count(read, "gather"), 1);
    EXPECT_EQ(count(read, "dot") + count(read, "while"), 0);
  }
  for (const Tensor& written : {x.at(ids()).set(1), x.at({All, ids()}).max(1), x.at({ids(), All, ids()}).add(1)}) {
    EXPECT_EQ(count(written, "scatter"), 1);
    EXPECT_EQ(count(written, "gather") + count(written, "dot") + count(written, "while"), 0);
  }
  EXPECT_EQ(count(x.at({Range(1, 4), All, 2}).set(1), "dynamic-update-slice"), 1);
}

}  // namespace
}  // namespace tessera
