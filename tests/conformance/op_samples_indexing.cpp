// SPDX-License-Identifier: Apache-2.0
#include <optional>

#include "conformance/op_samples.h"
#include "tessera/ops/contraction.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/indexing.h"
#include "tessera/ops/structural.h"

namespace tessera::conformance {
namespace {

using Values = std::vector<Value>;

// ---- gather --------------------------------------------------------------------------------------------------------

GatherAttributes rows_of(Dims offset_dims, std::int64_t index_vector_dim, Dims sizes) {
  GatherAttributes out;
  out.offset_dims = std::move(offset_dims);
  out.collapsed_slice_dims = {0};
  out.start_index_map = {0};
  out.index_vector_dim = index_vector_dim;
  out.slice_sizes = std::move(sizes);
  return out;
}

void add_gathers(std::vector<Sample>& out) {
  const auto gather = [&](std::string label, const Type& operand, const Type& indices,
                          const GatherAttributes& attributes) {
    out.push_back({.op = "gather",
                   .label = std::move(label),
                   .operands = {{operand}, {indices, 0, 9}},
                   .build = [=](Builder&, const Values& v) { return ops::gather(v[0], v[1], attributes); }});
    out.back().operands[1].low = is_unsigned_int(indices.dtype()) ? 0 : -3;  // out of range on both sides
  };
  gather("table", f64(7, 5), s32(3, 4), rows_of({2}, 2, {1, 5}));
  gather("rows", f32(7, 5), s32(5, 1), rows_of({1}, 1, {1, 5}));
  gather("part_of_a_row", f64(7, 5), array(DType::kU8, {5}), rows_of({0}, 1, {1, 3}));
  gather("wide_windows", f64(7, 5), u32(4), [] {
    auto a = rows_of({1, 2}, 1, {3, 5});
    a.collapsed_slice_dims = {};
    return a;
  }());
  gather("points", s32(5, 3, 7), s32(2, 5), [] {  // index vectors along dim 0, components in another order
    auto a = rows_of({1}, 0, {1, 3, 1});
    a.collapsed_slice_dims = {0, 2};
    a.start_index_map = {2, 0};
    return a;
  }());
  gather("batching", f64(3, 7, 5), s32(4, 3, 1), [] {
    GatherAttributes a;
    a.offset_dims = {2};
    a.collapsed_slice_dims = {1};
    a.start_index_map = {1};
    a.operand_batching_dims = {0};
    a.start_indices_batching_dims = {1};
    a.index_vector_dim = 2;
    a.slice_sizes = {1, 1, 5};
    return a;
  }());
  gather("pred", pred(7, 5), array(DType::kS8, {5}), rows_of({1}, 1, {1, 5}));
}

// ---- scatter -------------------------------------------------------------------------------------------------------

ScatterAttributes into_rows(Dims update_window_dims, std::int64_t index_vector_dim) {
  ScatterAttributes out;
  out.update_window_dims = std::move(update_window_dims);
  out.inserted_window_dims = {0};
  out.scatter_dims_to_operand_dims = {0};
  out.index_vector_dim = index_vector_dim;
  return out;
}

// Without a reduction, the scatter overwrites.
Sample scatter(std::string label, const Type& operand, const Type& indices, const Type& updates,
               const ScatterAttributes& attributes, std::optional<Reduction> reduction) {
  const double low = is_unsigned_int(indices.dtype()) ? 0 : -3;
  return {.op = "scatter",
          .label = std::move(label),
          .operands = {{operand}, {indices, low, 9}, {updates}},
          .build = [=](Builder& b, const Values& v) {
            const DType dtype = operand.dtype();
            const auto combiner = reduction ? ops::reduction_computation(b.program(), *reduction, dtype)
                                            : ops::overwrite_computation(b.program(), dtype);
            return ops::scatter({v[0]}, v[1], {v[2]}, attributes, combiner);
          }};
}

// With many updates, some have the same place, and some are dropped.
void add_scatters(std::vector<Sample>& out) {
  const auto add = [&](auto... arguments) { out.push_back(scatter(std::move(arguments)...)); };
  add("add_rows", f64(7, 5), s32(3, 4), f64(3, 4, 5), into_rows({2}, 2), Reduction::kSum);
  add("add_elements", f64(7), u32(5, 1), f64(5), into_rows({}, 1), Reduction::kSum);
  add("max_rows", f32(7, 5), array(DType::kS8, {5}), f32(5, 5), into_rows({1}, 1), Reduction::kMax);
  add("or", pred(7, 3), s32(5), pred(5, 3), into_rows({1}, 1), Reduction::kOr);
  add("multiply_rows", f64(7, 3), s32(11), f64(11, 3), into_rows({1}, 1), Reduction::kProduct);
  add("min_rows", f64(7, 3), s32(11), f64(11, 3), into_rows({1}, 1), Reduction::kMin);
  add("overwrite_rows", f64(7, 3), s32(3, 5), f64(3, 5, 3), into_rows({2}, 2), std::nullopt);
  add("overwrite_pred", pred(7, 3), s32(11), pred(11, 3), into_rows({1}, 1), std::nullopt);
  auto wide = into_rows({1, 2}, 1);
  wide.inserted_window_dims = {};
  add("wide_windows", f64(7, 5), s32(3), f64(3, 2, 5), wide, Reduction::kSum);
  add("overlapping_windows", f64(7, 5), s32(9), f64(9, 3, 5), wide, Reduction::kMax);
  add("overwrite_overlapping_windows", f64(7, 5), s32(9), f64(9, 3, 5), wide, std::nullopt);
  auto points = into_rows({1}, 0);
  points.inserted_window_dims = {0, 2};
  points.scatter_dims_to_operand_dims = {2, 0};
  add("points", s32(5, 3, 7), s32(2, 5), s32(5, 3), points, Reduction::kSum);
  add("overwrite_points", f64(5, 3, 7), s32(2, 13), f64(13, 3), points, std::nullopt);
  ScatterAttributes batching;
  batching.update_window_dims = {2};
  batching.inserted_window_dims = {1};
  batching.scatter_dims_to_operand_dims = {1};
  batching.input_batching_dims = {0};
  batching.scatter_indices_batching_dims = {1};
  batching.index_vector_dim = 2;
  add("batching", f64(3, 7, 5), s32(4, 3, 1), f64(4, 3, 5), batching, Reduction::kSum);
  add("overwrite_batching", f64(3, 5, 2), s32(9, 3, 1), f64(9, 3, 2), batching, std::nullopt);
}

// Two operands at the same time, and a combiner that is not a known reduction.
void add_scatter_of_two(std::vector<Sample>& out) {
  out.push_back({.op = "scatter",
                 .label = "two_operands",
                 .operands = {{s32(7, 3)}, {s32(7, 3)}, {s32(5), -1, 8}, {s32(5, 3)}, {s32(5, 3)}},
                 .build = [](Builder& b, const Values& v) {
                   Builder inner = b.program().computation("swap_add");
                   Values p;
                   for (int i = 0; i < 4; ++i) p.push_back(ops::parameter(inner, i, Type::scalar(DType::kS32)));
                   const Value root = ops::tuple(inner, {ops::add(p[0], p[3]), ops::subtract(p[1], p[2])});
                   const auto combiner = b.program().add(std::move(inner), root);
                   return ops::scatter({v[0], v[1]}, v[2], {v[3], v[4]}, into_rows({1}, 1), combiner);
                 }});
}

// ---- dynamic slices ------------------------------------------------------------------------------------------------

void add_dynamic_slices(std::vector<Sample>& out) {
  const auto slice = [&](std::string label, const Type& x, const Type& index, const Dims& sizes) {
    const double low = is_unsigned_int(index.dtype()) ? 0 : -3;
    out.push_back({.op = "dynamic-slice",
                   .label = std::move(label),
                   .operands = {{x}, {index, low, 9}, {index, low, 9}},
                   .build = [=](Builder&, const Values& v) {
                     return ops::dynamic_slice(v[0], {v[1], v[2]}, sizes);
                   }});
  };
  slice("window", f64(7, 5), s32(), {3, 2});
  slice("whole_rows", f32(7, 5), u32(), {2, 5});
  slice("one_row", f64(7, 5), array(DType::kU8, {}), {1, 5});
  slice("one_element", s32(7, 5), s32(), {1, 1});
  slice("pred", pred(7, 5), array(DType::kS64, {}), {1, 4});
  const auto update = [&](std::string label, const Type& x, const Dims& sizes) {
    out.push_back({.op = "dynamic-update-slice",
                   .label = std::move(label),
                   .operands = {{x}, {x.with_dims(sizes)}, {s32(), -3, 9}, {s32(), -3, 9}},
                   .build = [](Builder&, const Values& v) {
                     return ops::dynamic_update_slice(v[0], v[1], {v[2], v[3]});
                   }});
  };
  update("window", f64(7, 5), {3, 2});
  update("whole_rows", f32(7, 5), {2, 5});
  update("one_row", f64(7, 5), {1, 5});
  update("one_element", s32(7, 5), {1, 1});
}

// ---- sort, random bits ---------------------------------------------------------------------------------------------

ComputationId comparator(ProgramBuilder& program, DType key, DType value, bool by_absolute) {
  Builder b = program.computation("goes_first");
  const Value x = ops::parameter(b, 0, Type::scalar(key));
  const Value y = ops::parameter(b, 1, Type::scalar(key));
  ops::parameter(b, 2, Type::scalar(value));
  ops::parameter(b, 3, Type::scalar(value));
  const Value root = by_absolute ? ops::compare(ops::abs(x), ops::abs(y), CompareDirection::kLt)
                                 : ops::compare(x, y, CompareDirection::kGt);
  return program.add(std::move(b), root);
}

void add_sorts(std::vector<Sample>& out) {
  for (const bool by_absolute : {false, true})
    for (const int dim : {0, 1})
      out.push_back(
          {.op = "sort",
           .label = fmt::format("pairs{}{}", dim, by_absolute ? "_by_absolute" : ""),
           .operands = {{f64(5, 3)}, {f64(5, 3)}},
           .build = [=](Builder& b, const Values& v) {
             return ops::sort({v[0], v[1]}, dim, true, comparator(b.program(), DType::kF64, DType::kF64, by_absolute));
           }});
  out.push_back(
      {.op = "sort", .label = "one", .operands = {{array(DType::kU64, {7})}}, .build = [](Builder& b, const Values& v) {
         Builder inner = b.program().computation("less");
         const Value x = ops::parameter(inner, 0, Type::scalar(DType::kU64));
         const Value y = ops::parameter(inner, 1, Type::scalar(DType::kU64));
         const Value root = ops::compare(x, y, CompareDirection::kLt);
         return ops::sort({v[0]}, 0, false, b.program().add(std::move(inner), root));
       }});
  out.back().operands[0].low = 0;
}

void add_random(std::vector<Sample>& out) {
  for (const auto algorithm : {RngAlgorithm::kPhilox, RngAlgorithm::kThreeFry, RngAlgorithm::kDefault})
    out.push_back(
        {.op = "rng-bit-generator",
         .label = field_text(algorithm),
         .operands = {{array(DType::kU64, {2}), 0, 1e6}},
         .build = [=](Builder&, const Values& v) { return ops::rng_bit_generator(v[0], u32(3, 5), algorithm); }});
}

}  // namespace

std::vector<Sample> indexing_samples() {
  std::vector<Sample> out;
  add_gathers(out);
  add_scatters(out);
  add_scatter_of_two(out);
  add_dynamic_slices(out);
  add_sorts(out);
  add_random(out);
  return out;
}

}  // namespace tessera::conformance
