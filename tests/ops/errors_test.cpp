// SPDX-License-Identifier: Apache-2.0
// The exact reasons that rows give for errors. The common part (op, operands, location) is tested once.
#include <gtest/gtest.h>

#include <limits>

#include "ops/run_text.h"
#include "tessera/ops/collectives.h"
#include "tessera/ops/contraction.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/structural.h"
#include "tessera/ops/windows.h"

namespace tessera {
namespace {

class OpErrors : public ::testing::Test {
 protected:
  Value in(DType dtype, Dims dims) {
    return ops::parameter(main, next++, Type::array(dtype, std::move(dims)),
                          fmt::format("p{}", main.computation().size() + 1));
  }
  Value f32(Dims dims) { return in(DType::kF32, std::move(dims)); }
  // Returns the first line of the error.
  template <class F>
  std::string reason(F&& f) {
    try {
      f();
    } catch (const InternalError& error) {
      return std::string("internal: ") + error.what();
    } catch (const Error& error) {
      const std::string text = error.what();
      return text.substr(0, text.find('\n'));
    }
    return "no error";
  }
  ProgramBuilder program{"errors"};
  Builder main = program.computation("main");
  std::int64_t next = 0;
};

TEST_F(OpErrors, NameOpOperandsAndPlace) {
  const Value x = f32({128, 64});
  const Value w = f32({32, 256});
  main.default_notes = notes_at(std::source_location::current());
  const int line = main.default_notes->source_line;
  try {
    ops::matmul(x, w);
    FAIL() << "64 met 32";
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()), fmt::format("dot: contracting sizes differ: lhs dim 1 is 64, rhs dim 0 is 32\n"
                                                     "  lhs  %p1: f32[128,64]\n"
                                                     "  rhs  %p2: f32[32,256]\n"
                                                     "  at   errors_test.cpp:{}, rank 0 of 1",
                                                     line));
  }
}

TEST_F(OpErrors, OfElementwiseOps) {
  EXPECT_EQ(reason([&] {
              ops::add(f32({3, 4}), f32({4}));
            }),
            "add: dims differ: lhs is [3,4], rhs is [4]; broadcast is explicit");
  EXPECT_EQ(reason([&] { ops::add(f32({3}), in(DType::kF64, {3})); }),
            "add: element types differ: lhs is f32, rhs is f64; convert one of them");
  EXPECT_EQ(reason([&] { ops::tanh(in(DType::kS32, {3})); }),
            "tanh: takes floating-point or complex elements, got s32[3]");
  EXPECT_EQ(reason([&] { ops::logical_and(f32({3}), f32({3})); }), "and: takes integer or pred elements, got f32[3]");
  EXPECT_EQ(reason([&] { ops::subtract(in(DType::kPred, {3}), in(DType::kPred, {3})); }),
            "subtract: takes floating-point or integer or complex elements, got pred[3]");
  EXPECT_EQ(reason([&] { ops::select(f32({3}), f32({3}), f32({3})); }),
            "select: the predicate must be pred, got f32[3]");
  EXPECT_EQ(reason([&] { ops::select(in(DType::kPred, {2}), f32({3}), f32({3})); }),
            "select: the predicate must be a scalar or have dims [3], got pred[2]");
  EXPECT_EQ(reason([&] { ops::compare(f32({3}), f32({3}), CompareDirection::kLt, CompareType::kSigned); }),
            "compare: type=SIGNED does not fit operands of type f32");
  EXPECT_EQ(reason([&] { ops::bitcast_convert(f32({3}), Type::array(DType::kU8, {3})); }),
            "bitcast-convert: f32[3] reinterpreted as u8 has dims [3,4], but [3] are declared");
}

TEST_F(OpErrors, OfOpsThatMoveElements) {
  EXPECT_EQ(reason([&] { ops::reshape(f32({3, 5}), {4, 4}); }), "reshape: f32[3,5] has 15 elements, f32[4,4] has 16");
  EXPECT_EQ(reason([&] { ops::broadcast(f32({3}), {3, 4}, {1}); }), "broadcast: operand dim 0 is 3, result dim 1 is 4");
  EXPECT_EQ(reason([&] {
              ops::broadcast(f32({3, 3}), {3, 3}, {1, 1});
            }),
            "broadcast: dimensions names dim 1 twice: {1,1}");
  EXPECT_EQ(reason([&] {
              ops::transpose(f32({3, 4}), {0});
            }),
            "transpose: dimensions={0} needs one entry per dim of f32[3,4]");
  EXPECT_EQ(reason([&] { ops::transpose(f32({3, 4}), {0, 2}); }), "transpose: dimensions 2 is out of range for 2 dims");
  EXPECT_EQ(reason([&] { ops::slice_dim(f32({3}), 0, 1, 4); }), "slice: dim 0: [1:4] is outside of size 3");
  EXPECT_EQ(reason([&] { ops::pad(f32({3}), f32({}), {{-2, -2, 0}}); }), "pad: dim 0: padding -2_-2_0 leaves size -1");
  EXPECT_EQ(reason([&] {
              ops::pad(f32({3}), f32({1}), {{1, 1, 0}});
            }),
            "pad: the padding value must be a scalar, got f32[1]");
  EXPECT_EQ(reason([&] {
              ops::concatenate({f32({3, 4}), f32({3, 5})}, 0);
            }),
            "concatenate: dim 1 of operand 1 is 5, of operand 0 4");
  EXPECT_EQ(reason([&] { ops::iota(main, Type::array(DType::kS32, {3}), 1); }),
            "iota: iota_dimension 1 is out of range for 1 dims");
  EXPECT_EQ(reason([&] { ops::get_tuple_element(f32({3}), 0); }),
            "get-tuple-element: the operand must be a tuple, got f32[3]");
  EXPECT_EQ(reason([&] { ops::get_tuple_element(ops::tuple(main, {f32({3})}), 1); }),
            "get-tuple-element: index 1 is out of range for a tuple of 1");
}

TEST_F(OpErrors, OfSizesThatOverflow64Bits) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  constexpr std::int64_t kHuge = std::int64_t{1} << 59;
  const auto s8 = [&](Dims dims) { return in(DType::kS8, std::move(dims)); };
  EXPECT_EQ(
      reason([&] {
        s8({kHuge, 4});
      }),
      "s8[576460752303423488,4]: more than 2^60 bytes, the most that an array may have (a size of 0 is taken as 1)");
  EXPECT_EQ(
      reason([&] {
        s8({0, kHuge, 4});
      }),
      "s8[0,576460752303423488,4]: more than 2^60 bytes, the most that an array may have (a size of 0 is taken as 1)");
  EXPECT_EQ(reason([&] {
              ops::pad(f32({4}), f32({}), {{kMost, kMost, 0}});
            }),
            "pad: dim 0: padding 9223372036854775807_9223372036854775807_0 is larger than 2^60, the most that a dim "
            "may have");
  EXPECT_EQ(reason([&] {
              ops::pad(f32({1}), f32({}), {{0, 0, std::int64_t{1} << 62}});
            }),
            "pad: dim 0: padding 0_0_4611686018427387904 is larger than 2^60, the most that a dim may have");
  EXPECT_EQ(reason([&] {
              ops::pad(f32({100}), f32({}), {{0, 0, kHuge}});
            }),
            "pad: dim 0: 100 elements with padding 0_0_576460752303423488 are more than 64 bits can count");
  const Value part = s8({kHuge});
  EXPECT_EQ(reason([&] { ops::concatenate(std::vector<Value>(20, part), 0); }),
            "concatenate: dim 0: the 20 operands together have more elements than 64 bits can count");
  EXPECT_EQ(reason([&] {
              ops::concatenate({part, part, part}, 0);
            }),
            "concatenate: s8[1729382256910270464]: more than 2^60 bytes, the most that an array may have (a size of 0 "
            "is taken as 1)");
  EXPECT_EQ(reason([&] {
              ops::dot(s8({kHuge, 1}), s8({1, 8}), {{}, {1}, {}, {0}});
            }),
            "dot: s8[576460752303423488,8]: more than 2^60 bytes, the most that an array may have (a size of 0 is "
            "taken as 1)");
  EXPECT_EQ(reason([&] { ops::tuple(main, std::vector<Value>(9, part)); }),
            "tuple: a tuple of 9 elements has more than 2^62 bytes, the most that one may have");
  ReplicaGroups groups;
  for (std::int64_t d = 0; d < 32; ++d) groups.groups.resize(1), groups.groups[0].push_back(d);
  EXPECT_EQ(reason([&] { ops::all_gather(part, 0, groups, 1); }),
            "dim 0: 576460752303423488 elements from each of 32 devices are more than 64 bits can count");
  const Value rows = s8({0, std::int64_t{1} << 58});
  const WindowDims dilated{{WindowDim{}, WindowDim{.base_dilation = 1 << 20}}};
  const ComputationId max = ops::reduction_computation(program, Reduction::kMax, DType::kS8);
  EXPECT_EQ(reason([&] { ops::reduce_window({rows}, {s8({})}, dilated, max); }),
            "reduce-window: dim 1: 288230376151711744 elements, dilated by 1048576 and padded by 0_0, are more "
            "positions than 64 bits can count");
}

TEST_F(OpErrors, OfDotAndReduce) {
  EXPECT_EQ(reason([&] {
              ops::dot(f32({2, 3}), f32({3, 2}), {{0}, {1}, {}, {0}});
            }),
            "dot: 1 batch dims of lhs, 0 of rhs");
  EXPECT_EQ(reason([&] {
              ops::dot(f32({2, 3}), f32({2, 3}), {{0}, {0}, {0}, {0}});
            }),
            "dot: lhs dim 0 is both batch and contracting");
  EXPECT_EQ(reason([&] {
              ops::dot(f32({2, 3}), f32({2, 3}), {{}, {4}, {}, {0}});
            }),
            "dot: lhs_contracting_dims 4 is out of range for 2 dims");
  const ComputationId sum = ops::reduction_computation(program, Reduction::kSum, DType::kF64);
  EXPECT_EQ(reason([&] {
              ops::reduce({f32({2, 3})}, {f32({})}, {0}, sum);
            }),
            "reduce: parameter 0 of to_apply %sum_f64 is f64[], the elements are f32[]");
  EXPECT_EQ(reason([&] {
              ops::reduce({f32({2, 3})}, {f32({}), f32({})}, {0}, sum);
            }),
            "reduce: needs an init per operand, got 3 operands in all");
  EXPECT_EQ(reason([&] {
              ops::reduce({f32({2, 3})}, {f32({})}, {2}, sum);
            }),
            "reduce: dimensions 2 is out of range for 2 dims");
}

}  // namespace
}  // namespace tessera
