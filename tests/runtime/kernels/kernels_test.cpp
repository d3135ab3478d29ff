// SPDX-License-Identifier: Apache-2.0
// Compares kernels with the reference evaluation for all element types, odd sizes, empty arrays, special values and
// fused groups, for each instruction set.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "runtime/close.h"
#include "runtime/on_each_isa.h"
#include "tessera/collectives/virtual_ranks.h"
#include "tessera/ops/contraction.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/evaluate.h"
#include "tessera/ops/indexing.h"
#include "tessera/ops/op_table.h"
#include "tessera/ops/structural.h"
#include "tessera/runtime/executable/executable.h"
#include "tessera/runtime/metrics/metrics.h"

namespace tessera {
namespace {

using testing::close;
using testing::expect_as_reference;
using testing::program_of;

constexpr DType kAllTypes[] = {DType::kPred, DType::kS8,  DType::kS16, DType::kS32, DType::kS64,
                               DType::kU8,   DType::kU16, DType::kU32, DType::kU64, DType::kF16,
                               DType::kBF16, DType::kF32, DType::kF64};

// Values for which kernels are most likely to be wrong.
Literal special_values(DType dtype) {
  const double inf = std::numeric_limits<double>::infinity();
  const std::vector<double> reals = {0.0,   -0.0,   1,    -1,   0.5,    -0.5, 1.5,    2.5,          -2.5,
                                     1e-40, -1e-40, 1e-8, 3e-4, 88.7,   89,   -87.5,  -104,         300,
                                     -300,  3e9,    -3e9, 1e20, 3.4e38, inf,  -inf,   std::nan(""), -std::nan(""),
                                     7.9,   4.1,    126,  127,  128,    255,  32767.5};
  return visit_dtype(dtype, [&]<class T>() {
    std::vector<T> out;
    if constexpr (is_float(kDTypeOf<T>)) {
      for (const double x : reals) out.push_back(static_cast<T>(x));
    } else if constexpr (kDTypeOf<T> == DType::kPred) {
      Literal both(Type::array(DType::kPred, {2}));
      both.mutable_data<bool>()[1] = true;
      return both;
    } else {
      for (const std::int64_t x : {0, 1, -1, 2, 3, 7, 31, 32, 63, 64, 100, -100}) out.push_back(static_cast<T>(x));
      out.push_back(std::numeric_limits<T>::max());
      out.push_back(std::numeric_limits<T>::min());
    }
    if constexpr (kDTypeOf<T> != DType::kPred)
      return Literal::from<T>({static_cast<std::int64_t>(out.size())}, out);
    else
      return Literal();
  });
}

// Returns all pairs of special values.
std::pair<Literal, Literal> special_pairs(DType dtype) {
  const Literal values = special_values(dtype);
  const std::int64_t n = values.type().element_count();
  Literal a(Type::array(dtype, {n, n}));
  Literal b = a;
  const std::int64_t bytes = dtype_size(dtype);
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t j = 0; j < n; ++j)
      for (std::int64_t k = 0; k < bytes; ++k) {
        at(a.mutable_bytes(), (i * n + j) * bytes + k) = at(values.bytes(), i * bytes + k);
        at(b.mutable_bytes(), (i * n + j) * bytes + k) = at(values.bytes(), j * bytes + k);
      }
  return {a, b};
}

TEST(Elementwise, EveryUnaryAndBinaryOpOnSpecialValuesOfEveryType) {
  for (const OpDef* row : op_table().rows()) {
    if (!row->elementwise || row->parse != nullptr || row->min_operands > 2) continue;
    for (const DType dtype : kAllTypes) {
      SCOPED_TRACE(fmt::format("{} {}", row->name, dtype_name(dtype)));
      const auto [a, b] = special_pairs(dtype);
      std::optional<Program> program;
      try {
        program = program_of(std::vector<Type>(static_cast<std::size_t>(row->min_operands), a.type()),
                             [&](Builder& main, const std::vector<Value>& v) { return main.emit(*row, v); });
      } catch (const Error&) {
        continue;  // the op does not support this type
      }
      std::vector<Literal> arguments = {a, b};
      arguments.resize(static_cast<std::size_t>(row->min_operands));
      expect_as_reference(*program, arguments, 16);
    }
  }
}

// Returns true for a NaN with a set sign bit. If both operands are NaN, either may be the result.
Value is_negative_nan(Value y, const std::vector<Value>& operands) {
  const auto is_nan = [](Value x) { return ops::compare(x, x, CompareDirection::kNe); };
  const Value zero = ops::full(*y.builder, y.type(), 0);
  const Value below = ops::compare(y, zero, CompareDirection::kLt, CompareType::kTotalOrder);
  const Value negative = ops::logical_and(is_nan(y), below);
  if (operands.size() < 2) return negative;
  return ops::logical_and(negative, ops::logical_not(ops::logical_and(is_nan(operands[0]), is_nan(operands[1]))));
}

// An invalid operation gives the NaN of the processor's arithmetic, and a NaN operand keeps its sign. A sort in total
// order makes the sign visible.
TEST(Elementwise, NanHasTheSameSignAsInTheReference) {
  for (const OpDef* row : op_table().rows()) {
    if (!row->elementwise || row->parse != nullptr || row->min_operands > 2) continue;
    for (const DType dtype : {DType::kF32, DType::kF64, DType::kBF16, DType::kF16}) {
      SCOPED_TRACE(fmt::format("{} {}", row->name, dtype_name(dtype)));
      auto [a, b] = special_pairs(dtype);
      std::optional<Program> program;
      try {
        program = program_of(std::vector<Type>(static_cast<std::size_t>(row->min_operands), a.type()),
                             [&](Builder& main, const std::vector<Value>& v) {
                               const Value y = main.emit(*row, v);
                               return ops::tuple(main, {y, is_negative_nan(y, v)});
                             });
      } catch (const Error&) {
        continue;  // the op does not take floating-point operands, or has other results
      }
      std::vector<Literal> arguments = {a, b};
      arguments.resize(static_cast<std::size_t>(row->min_operands));
      expect_as_reference(*program, arguments, 16);
    }
  }
}

TEST(Elementwise, ExtremaDistinguishTheTwoZeros) {
  for (const DType dtype : {DType::kF32, DType::kF64, DType::kBF16, DType::kF16}) {
    SCOPED_TRACE(dtype_name(dtype));
    const auto [a, b] = special_pairs(dtype);
    expect_as_reference(
        program_of({a.type(), b.type()},
                   [&](Builder& main, const std::vector<Value>& v) {
                     const Value one = ops::full(main, a.type(), 1);
                     const auto sign = [&](Value x) { return ops::divide(one, x); };  // of infinity
                     return ops::tuple(main, {sign(ops::maximum(v[0], v[1])), sign(ops::minimum(v[0], v[1])),
                                              sign(ops::clamp(v[0], v[1], v[0])), sign(ops::clamp(v[1], v[0], v[0]))});
                   }),
        {a, b}, 1);
  }
}

TEST(Elementwise, ConvertsBetweenEveryTwoTypes) {
  for (const DType from : kAllTypes)
    for (const DType to : kAllTypes) {
      SCOPED_TRACE(fmt::format("{} to {}", dtype_name(from), dtype_name(to)));
      const Literal values = special_values(from);
      const Program program =
          program_of({values.type()}, [&](Builder&, const std::vector<Value>& v) { return ops::convert(v[0], to); });
      expect_as_reference(program, {values}, 0);
    }
}

TEST(Elementwise, ComparesInEveryDirectionAndOrder) {
  for (const DType dtype : kAllTypes)
    for (int direction = 0; direction < 6; ++direction)
      for (const CompareType type : {CompareType::kDefault, CompareType::kTotalOrder}) {
        if (type == CompareType::kTotalOrder && !is_float(dtype)) continue;
        SCOPED_TRACE(fmt::format("{} {}", dtype_name(dtype), direction));
        const auto [a, b] = special_pairs(dtype);
        const Program program = program_of({a.type(), a.type()}, [&](Builder&, const std::vector<Value>& v) {
          return ops::compare(v[0], v[1], static_cast<CompareDirection>(direction), type);
        });
        expect_as_reference(program, {a, b});
      }
}

TEST(Elementwise, TranscendentalsOfF32AreAccurateToAFewUlpsOverTheirRange) {
  std::vector<float> x;
  for (int i = -20000; i <= 20000; ++i) x.push_back(static_cast<float>(i) * 0.0051F);
  const Literal values = Literal::from<float>({static_cast<std::int64_t>(x.size())}, x);
  for (const auto op : {ops::exp, ops::log, ops::tanh, ops::logistic, ops::erf, ops::rsqrt}) {
    const Program program =
        program_of({values.type()}, [&](Builder&, const std::vector<Value>& v) { return op(v[0]); });
    expect_as_reference(program, {values}, 6);
  }
}

TEST(Fused, AChainWithBroadcastsRowsScalarsAndReshapesMatches) {
  for (const Dims& dims : {Dims{3, 5}, Dims{7, 128}, Dims{33, 192}, Dims{2, 5000}, Dims{1, 1}, Dims{0, 4}}) {
    SCOPED_TRACE(fmt::format("{}", fmt::join(dims, "x")));
    const Type type = Type::array(DType::kF32, dims);
    expect_as_reference(
        {type, Type::array(DType::kF32, {dims[1]}), Type::array(DType::kF32, {dims[0]}), Type::scalar(DType::kF32)},
        [&](Builder& main, const std::vector<Value>& v) {
          const Value x = ops::add(v[0], ops::broadcast(v[1], dims, {1}));
          const Value y = ops::multiply(ops::tanh(x), ops::broadcast(v[2], dims, {0}));
          const Value flat = ops::reshape(y, {product(dims)});
          const Value z = ops::subtract(flat, ops::splat(v[3], {product(dims)}));
          const Value mask = ops::compare(z, ops::full(main, z.type(), 0), CompareDirection::kGt);
          const Value kept = ops::select(mask, z, ops::negate(z));
          return ops::tuple(main, {ops::reshape(kept, dims), x, ops::convert(mask, DType::kS32)});
        });
  }
}

TEST(Fused, GroupsReadTransposesSlicesIotasAndConversions) {
  const Type type = Type::array(DType::kBF16, {6, 4, 32});
  expect_as_reference({type, type}, [](Builder& main, const std::vector<Value>& v) {
    const Value moved = ops::transpose(ops::slice_dim(v[0], 0, 1, 5), {1, 0, 2});
    const Value other = ops::slice_dim(v[1], 0, 2, 6);
    const Value count = ops::iota(main, Type::array(DType::kS32, {4, 4, 32}), 1);
    const Value wide = ops::add(ops::convert(moved, DType::kF32), ops::convert(count, DType::kF32));
    return ops::multiply(wide, ops::convert(other, DType::kF32));
  });
}

TEST(Fused, ALargeGroupGivesRightResults) {
  const Type type = Type::array(DType::kF32, {1037});
  expect_as_reference({type, type}, [](Builder& main, const std::vector<Value>& v) {
    std::vector<Value> all = {v[0], v[1]};
    for (int i = 0; i < 400; ++i) {
      const Value a = at(all, isize(all) - 1);
      const Value b = at(all, isize(all) - 2);
      all.push_back(i % 3 == 0 ? ops::maximum(a, ops::multiply(b, ops::full(main, a.type(), 0.5)))
                               : (i % 3 == 1 ? ops::subtract(a, b) : ops::tanh(a)));
    }
    return ops::tuple(main, {all.back(), all[100], all[57]});
  });
}

TEST(Fused, PhiloxBitsAreExact) {
  expect_as_reference({Type::array(DType::kU32, {2})}, [](Builder&, const std::vector<Value>& v) {
    return ops::random_bits(v[0], {13, 7, 5});
  });
}

TEST(Movement, EveryOpMovesElementsOfEveryWidth) {
  for (const DType dtype : {DType::kPred, DType::kBF16, DType::kS32, DType::kF64}) {
    SCOPED_TRACE(dtype_name(dtype));
    expect_as_reference({Type::array(dtype, {3, 5, 17}), Type::scalar(dtype)}, [&](Builder& main,
                                                                                   const std::vector<Value>& v) {
      const Value padded = ops::pad(v[0], v[1], {{1, 2, 1}, {-1, 3, 0}, {2, -4, 2}});
      return ops::tuple(
          main, {ops::transpose(v[0], {2, 0, 1}), ops::transpose(v[0], {1, 2, 0}), ops::reverse(v[0], {0, 2}),
                 ops::concatenate({v[0], ops::slice_dim(v[0], 1, 1, 3), v[0]}, 1), padded,
                 ops::slice(v[0], {{0, 3, 2}, {1, 5, 3}, {2, 17, 4}}), ops::broadcast(v[0], {3, 2, 5, 17}, {0, 2, 3})});
    });
  }
}

TEST(Reduce, SupportsAnyDimsOfEveryTypeAndEveryReduction) {
  const std::vector<Dims> sets = {{0}, {1}, {2}, {0, 1}, {1, 2}, {0, 2}, {0, 1, 2}, {}};
  for (const DType dtype : kAllTypes)
    for (const Reduction reduction : {Reduction::kSum, Reduction::kProduct, Reduction::kMin, Reduction::kMax}) {
      if (dtype == DType::kPred && (reduction == Reduction::kMin || reduction == Reduction::kProduct)) continue;
      expect_as_reference(
          {Type::array(dtype, {3, 7, 40})},
          [&](Builder& main, const std::vector<Value>& v) {
            std::vector<Value> out;
            for (const Dims& dims : sets) out.push_back(ops::reduce(v[0], reduction, dims));
            return ops::tuple(main, out);
          },
          32);
    }
  expect_as_reference({Type::array(DType::kF32, {0, 3})},
                      [](Builder&, const std::vector<Value>& v) { return ops::reduce(v[0], Reduction::kSum, {0}); });
}

TEST(Indexing, GathersClampAndScattersDropWindowsOutOfRange) {
  const auto ids = Literal::from<std::int32_t>({6}, {0, 4, -3, 9, 2, 2});
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kS32}) {
    const Type table = Type::array(dtype, {5, 3});
    const Program gather =
        program_of({table, ids.type()}, [](Builder&, const auto& v) { return ops::take_rows(v[0], v[1]); });
    expect_as_reference(gather, {testing::random_literal(table, 1), ids});
    const Program scatter =
        program_of({table, ids.type(), Type::array(dtype, {6, 3})}, [&](Builder& main, const auto& v) {
          const ComputationId sum = ops::reduction_computation(main.program(), Reduction::kSum, dtype);
          ScatterAttributes a;
          a.update_window_dims = {1};
          a.inserted_window_dims = {0};
          a.scatter_dims_to_operand_dims = {0};
          a.index_vector_dim = 1;
          return ops::scatter({v[0]}, v[1], {v[2]}, a, sum);
        });
    expect_as_reference(
        scatter, {testing::random_literal(table, 1), ids, testing::random_literal(Type::array(dtype, {6, 3}), 2)});
  }
}

TEST(Indexing, DynamicSlicesClampTheirStarts) {
  for (const std::int32_t start : {-2, 0, 2, 4, 100}) {
    const Program program =
        program_of({Type::array(DType::kF32, {5, 4}), Type::scalar(DType::kS32), Type::array(DType::kF32, {2, 3})},
                   [](Builder& main, const auto& v) {
                     const Value slice = ops::dynamic_slice(v[0], {v[1], v[1]}, {2, 3});
                     return ops::tuple(main, {slice, ops::dynamic_update_slice(v[0], v[2], {v[1], v[1]})});
                   });
    expect_as_reference(program, {testing::random_literal(Type::array(DType::kF32, {5, 4}), 1), Literal::scalar(start),
                                  testing::random_literal(Type::array(DType::kF32, {2, 3}), 2)});
  }
}

// Every integer type at both ends of its range: a value too large for s64 is after the end, not before the start.
TEST(Indexing, StartsOfEveryTypeClamp) {
  const Type table = Type::array(DType::kF32, {5, 4});
  const Type rows = Type::array(DType::kF32, {1, 4});
  for (const DType dtype : {DType::kS8, DType::kS16, DType::kS32, DType::kS64, DType::kU8, DType::kU16, DType::kU32,
                            DType::kU64, DType::kS4, DType::kU4, DType::kS2, DType::kU2})
    for (const bool is_largest : {false, true}) {
      SCOPED_TRACE(fmt::format("{} {}", dtype_name(dtype), is_largest ? "largest" : "least"));
      Literal start(Type::scalar(dtype));
      const bool is_signed = is_signed_int(dtype) || dtype == DType::kS4 || dtype == DType::kS2;
      for (auto& byte : start.mutable_bytes()) byte = std::byte{is_largest ? std::uint8_t{0xff} : std::uint8_t{0}};
      if (is_narrow(dtype)) start = scalar_of(dtype, is_largest ? (is_signed ? 1 : 3) : (is_signed ? -2 : 0));
      if (is_signed && !is_narrow(dtype)) start.mutable_bytes().back() ^= std::byte{0x80};
      const Program program = program_of({table, start.type(), rows}, [](Builder& main, const auto& v) {
        const Value ids = ops::broadcast(v[1], {3}, {});
        return ops::tuple(main, {ops::dynamic_slice(v[0], {v[1], v[1]}, {2, 3}),
                                 ops::dynamic_update_slice(v[0], v[2], {v[1], v[1]}), ops::take_rows(v[0], ids)});
      });
      expect_as_reference(program, {testing::random_literal(table, 1), start, testing::random_literal(rows, 2)});
    }
}

// Windows of one element become products without copies. The kernel's gradient adds up the images.
TEST(Convolution, WithWindowsOfOneElementIsAProduct) {
  struct Form {
    std::string lhs, rhs, result, rest;
  };
  const std::vector<Form> forms = {
      {"f32[3,5,7,2]", "f32[11,5,1,1]", "f32[3,11,7,2]", "window={size=1x1}, dim_labels=bf01_oi01->bf01"},
      {"f32[3,7,2,5]", "f32[1,1,5,11]", "f32[3,7,2,11]", "window={size=1x1}, dim_labels=b01f_01io->b01f"},
      {"f32[3,11,7,2]", "f32[11,5,1,1]", "f32[3,5,7,2]",
       "window={size=1x1 rhs_reversal=1x1}, dim_labels=bf01_io01->bf01"},
      {"f32[3,5,7,2]", "f32[3,11,7,2]", "f32[5,11,1,1]", "window={size=7x2}, dim_labels=fb01_io01->bf01"},
      {"f32[3,5,7,2]", "f32[3,11,7,2]", "f32[11,5,1,1]", "window={size=7x2}, dim_labels=fb01_io01->fb01"},
      {"f32[1,5,13]", "f32[11,5,1]", "f32[1,11,13]", "window={size=1}, dim_labels=bf0_oi0->bf0"},
      {"f32[3,5,7,2]", "f32[11,5,1,1]", "f32[3,11,9,2]", "window={size=1x1 pad=1_1x0_0}, dim_labels=bf01_oi01->bf01"},
      {"f32[3,6,7,2]", "f32[10,3,1,1]", "f32[3,10,7,2]",
       "window={size=1x1}, dim_labels=bf01_oi01->bf01, feature_group_count=2"}};
  for (const Form& form : forms) {
    const Program program =
        testing::read(fmt::format("HloModule pointwise\nENTRY main {{\n  x = {} parameter(0)\n  w = {} parameter(1)\n  "
                                  "ROOT y = {} convolution(x, w), {}\n}}\n",
                                  form.lhs, form.rhs, form.result, form.rest));
    SCOPED_TRACE(form.result + " " + form.rest);
    expect_as_reference(program, testing::random_arguments(program, 5), 32);
  }
}

}  // namespace
}  // namespace tessera
