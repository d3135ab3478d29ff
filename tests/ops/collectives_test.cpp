// SPDX-License-Identifier: Apache-2.0
// Collectives in lockstep on six devices: the position of each element in the result.
#include "tessera/ops/collectives.h"

#include <gtest/gtest.h>

#include <set>

#include "tessera/ops/async.h"
#include "tessera/ops/contraction.h"
#include "tessera/ops/evaluate.h"
#include "tessera/ops/op_table.h"
#include "tessera/ops/rows.h"
#include "tessera/ops/structural.h"

namespace tessera {
namespace {

constexpr std::int64_t kDevices = 6;
const ReplicaGroups kRows{{{0, 1, 2}, {3, 4, 5}}};
const ReplicaGroups kTurned{{{2, 0, 1}, {4, 5, 3}}};

// Device d holds 100*d + element number.
std::vector<Literal> on_devices(const Dims& dims, const std::function<Value(Value)>& emit) {
  ProgramBuilder program("collective");
  program.program().num_partitions = kDevices;
  Builder main = program.computation("main");
  const Value x = ops::parameter(main, 0, Type::array(DType::kS32, dims));
  const Value root = emit(x);
  const auto entry = program.add(std::move(main), root);
  std::vector<std::vector<Literal>> arguments;
  for (std::int32_t d = 0; d < kDevices; ++d) {
    std::vector<std::int32_t> values;
    for (std::int32_t i = 0; i < product(dims); ++i) values.push_back(100 * d + i);
    arguments.push_back({Literal::from<std::int32_t>(dims, values)});
  }
  return evaluate_lockstep(program.finish(entry), arguments);
}
Literal ints(const Dims& dims, const std::vector<std::int32_t>& values) {
  return Literal::from<std::int32_t>(dims, values);
}

TEST(Collectives, AllGatherConcatenatesInTheOrderOfTheGroup) {
  const auto out = on_devices({2, 1}, [](Value x) { return ops::all_gather(x, 1, kTurned, 1); });
  EXPECT_EQ(out[0], ints({2, 3}, {200, 0, 100, 201, 1, 101}));
  EXPECT_EQ(out[2], out[0]);
  EXPECT_EQ(out[3], ints({2, 3}, {400, 500, 300, 401, 501, 301}));
}

TEST(Collectives, ReduceScatterGivesMemberKPartK) {
  const auto out = on_devices({3}, [](Value x) { return ops::reduce_scatter(x, 0, Reduction::kSum, kTurned, 1); });
  EXPECT_EQ(out[2], ints({1}, {300}));
  EXPECT_EQ(out[0], ints({1}, {303}));
  EXPECT_EQ(out[1], ints({1}, {306}));
  EXPECT_EQ(out[3], ints({1}, {1206}));
}

TEST(Collectives, AllReduceWithoutGroupsIsOverAllDevices) {
  const auto out = on_devices({2}, [](Value x) { return ops::all_reduce(x, Reduction::kMax, {}, 0); });
  for (const Literal& one : out) EXPECT_EQ(one, ints({2}, {500, 501}));
}

TEST(Collectives, AllToAllSendsPartKToMemberK) {
  const auto out = on_devices({3}, [](Value x) { return ops::all_to_all(x, 0, kRows, 1); });
  EXPECT_EQ(out[0], ints({3}, {0, 100, 200}));
  EXPECT_EQ(out[1], ints({3}, {1, 101, 201}));
  EXPECT_EQ(out[5], ints({3}, {302, 402, 502}));
}

TEST(Collectives, AllToAllOfTuplesSendsElementKToMemberK) {
  const auto out = on_devices({2}, [](Value x) {
    Builder& b = *x.builder;
    std::vector<Value> parts;
    for (int k = 0; k < 2; ++k) parts.push_back(ops::slice_dim(x, 0, k, k + 1));
    CollectiveAttributes attributes;
    attributes.replica_groups.groups = {{0, 3}, {1, 4}, {2, 5}};
    const Value all = b.emit(op_table().get("all-to-all"), parts, make_attributes(attributes));
    return ops::concatenate({ops::get_tuple_element(all, 0), ops::get_tuple_element(all, 1)}, 0);
  });
  EXPECT_EQ(out[0], ints({2}, {0, 300}));
  EXPECT_EQ(out[3], ints({2}, {1, 301}));
}

TEST(Collectives, PermuteLeavesZerosWhereNothingArrives) {
  const auto out = on_devices({2}, [](Value x) { return ops::collective_permute(x, {{{0, 4}, {4, 1}}}, 1); });
  EXPECT_EQ(out[4], ints({2}, {0, 1}));
  EXPECT_EQ(out[1], ints({2}, {400, 401}));
  EXPECT_EQ(out[0], ints({2}, {0, 0}));
}

TEST(Collectives, BroadcastComesFromTheFirstOfTheGroup) {
  const auto out = on_devices({1}, [](Value x) {
    CollectiveAttributes attributes;
    attributes.replica_groups.groups = {{3, 1}, {0, 5}};
    return x.builder->emit(op_table().get("collective-broadcast"), {x}, make_attributes(attributes));
  });
  EXPECT_EQ(out[1], ints({1}, {300}));
  EXPECT_EQ(out[5], ints({1}, {0}));
  EXPECT_EQ(out[2], ints({1}, {0}));
}

TEST(Collectives, RaggedAllToAllPutsRowsAtThePositionsOfTheSender) {
  // Device d sends its first row to member 0, which stores it at row 2, and its last two rows to member 1, which stores
  // them at row 0.
  const auto out = on_devices({3}, [](Value x) {
    const auto list = [&](std::vector<std::int32_t> values) {
      return ops::constant(*x.builder, Literal::from<std::int32_t>({2}, values));
    };
    const Value room = ops::constant(*x.builder, ints({4}, {-1, -1, -1, -1}));
    CollectiveAttributes attributes;
    attributes.replica_groups = {{{0, 1}, {2, 3}, {5, 4}}};
    return x.builder->emit(op_table().get("ragged-all-to-all"),
                           {x, room, list({0, 1}), list({1, 2}), list({2, 0}), list({1, 2})},
                           make_attributes(attributes), {.type = room.type()});
  });
  EXPECT_EQ(out[0], ints({4}, {-1, -1, 100, -1}));  // of the two senders, the later one
  EXPECT_EQ(out[1], ints({4}, {101, 102, -1, -1}));
  EXPECT_EQ(out[5], ints({4}, {-1, -1, 400, -1}));
  EXPECT_EQ(out[4], ints({4}, {401, 402, -1, -1}));
}

TEST(Collectives, SeveralOperandsAreExchangedTogether) {
  const auto out = on_devices({2}, [](Value x) {
    Builder& b = *x.builder;
    CollectiveAttributes attributes;
    attributes.replica_groups = kRows;
    const auto add = ops::reduction_computation(b.program(), Reduction::kSum, DType::kS32);
    const Value both = b.emit(op_table().get("all-reduce"), {x, ops::slice_dim(x, 0, 0, 1)},
                              make_attributes(attributes), {.called = {add}});
    return ops::concatenate({ops::get_tuple_element(both, 1), ops::get_tuple_element(both, 0)}, 0);
  });
  EXPECT_EQ(out[0], ints({3}, {300, 300, 303}));
}

std::string first_line_of_error(const Dims& dims, const std::function<Value(Value)>& emit) {
  try {
    on_devices(dims, emit);
  } catch (const Error& error) {
    return std::string(error.what()).substr(0, std::string(error.what()).find('\n'));
  }
  return "no error";
}

TEST(Collectives, ErrorsNameDevicesWithoutAGroupAndSizesThatDoNotDivide) {
  EXPECT_EQ(first_line_of_error({3},
                                [](Value x) {
                                  return ops::all_reduce(x, Reduction::kSum, {{{0, 1}, {2, 3}}}, 1);
                                }),
            "all-reduce: device 4 is in no group of [2,2]<=[4]");
  EXPECT_EQ(first_line_of_error({4}, [](Value x) { return ops::all_to_all(x, 0, kRows, 1); }),
            "all-to-all: dim 0 of s32[4] is not a multiple of the group size 3");
  EXPECT_EQ(first_line_of_error({4}, [](Value x) { return ops::reduce_scatter(x, 0, Reduction::kSum, kRows, 1); }),
            "reduce-scatter: dim 0 is 4, which is not a multiple of 3");
}

// The properties of a collective's row that the scheduler, explain and the runtime use.
TEST(CollectiveRows, EachHasADistinctKindAndACost) {
  std::set<CollectiveKind> kinds;
  for (const OpDef* op : op_table().rows()) {
    if (op->role != Role::kCollective || async_half(*op) != AsyncHalf::kNeither) {
      EXPECT_EQ(op->collective, CollectiveKind::kNone) << op->name;
      continue;
    }
    EXPECT_TRUE(op->collective != CollectiveKind::kNone && kinds.insert(op->collective).second) << op->name;
    ASSERT_NE(op->bytes_received, nullptr) << op->name;
  }
  EXPECT_EQ(kinds.size(), 7U);
  EXPECT_EQ(rows::kAllGather.bytes_received(8, 24, 3), 16);
  EXPECT_EQ(rows::kReduceScatter.bytes_received(24, 8, 3), 16);
  EXPECT_EQ(rows::kAllReduce.bytes_received(24, 24, 3), 32);
  EXPECT_EQ(rows::kCollectivePermute.bytes_received(24, 24, 2), 24);
}

TEST(CollectiveRows, AStartAndItsDoneBelongToTheOpThatTheyReplace) {
  EXPECT_EQ(&start_op(rows::kAllGather), &rows::kAllGatherStart);
  EXPECT_EQ(&start_op(rows::kReduceScatter), &rows::kAsyncStart);
  for (const OpDef* op : op_table().rows())
    if (async_half(*op) == AsyncHalf::kStart) {
      EXPECT_EQ(&start_op(synchronous_op(*op)), op) << op->name;
      EXPECT_EQ(async_half(done_op(*op)), AsyncHalf::kDone) << op->name;
    }
}

TEST(ReductionRows, EachReductionHasAnOpThatCombinesTwoNumbers) {
  std::multiset<Reduction> combined;
  for (const OpDef* op : op_table().rows())
    if (op->combines) combined.insert(op->combines->of_numbers);
  for (const Reduction reduction :
       {Reduction::kSum, Reduction::kProduct, Reduction::kMin, Reduction::kMax, Reduction::kAnd, Reduction::kOr})
    EXPECT_EQ(combined.count(reduction), 1U) << reduction_name(reduction);
}

}  // namespace
}  // namespace tessera
