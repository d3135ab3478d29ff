// SPDX-License-Identifier: Apache-2.0
#include "partitioner/random_program.h"

#include <algorithm>

#include "partitioner/dice.h"

#include "tessera/base/text.h"
#include "tessera/ir/builder.h"
#include "tessera/ops/contraction.h"
#include "tessera/ops/control_flow.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/indexing.h"
#include "tessera/ops/structural.h"
#include "tessera/ops/windows.h"

namespace tessera::testing {
namespace {

const std::vector<std::int64_t> kSizes = {1, 2, 3, 4, 5, 6, 7, 8, 11, 12};

class Generator {
 public:
  Generator(std::uint64_t seed, const RandomProgramOptions& options)
      : dice_(seed), options_(options), program_(fmt::format("random_{}", seed)), main_(program_.computation("main")) {}

  Program make() {
    choose_mesh();
    const int parameters = 2 + static_cast<int>(dice_.below(2));
    for (int p = 0; p < parameters; ++p) {
      const Value value = ops::parameter(main_, p, Type::array(DType::kF32, dims()), fmt::format("p{}", p));
      annotate(value);
      values_.push_back(value);
    }
    while (made_ < options_.instructions) step();
    Value root = values_.back();
    if (!dice_.one_in(3)) {
      annotate(root);
    } else if (dice_.one_in(2)) {
      root = ops::tuple(main_, {values_.back(), at(values_, isize(values_) / 2)});
    }
    const auto id = program_.add(std::move(main_), root);
    return program_.finish(id);
  }

 private:
  void choose_mesh() {
    std::vector<MeshAxis> axes;
    std::int64_t devices = 1;
    const auto count = 1 + dice_.below(3);
    for (std::int64_t a = 0; a < count; ++a) {
      const auto size = dice_.pick(std::vector<std::int64_t>{2, 2, 3, 4, 5, 6, 8});
      if (devices * size > options_.max_devices) continue;
      devices *= size;
      axes.push_back({std::string(1, static_cast<char>('a' + isize(axes))), size});
    }
    if (axes.empty()) axes.push_back({"a", devices = 2});
    mesh_ = Mesh(std::move(axes));
    program_.program().num_partitions = devices;
    program_.program().meshes = {mesh_};
  }

  Dims dims() {
    Dims out(static_cast<std::size_t>(1 + dice_.below(3)));
    for (auto& size : out) size = dice_.pick(kSizes);
    return out;
  }

  Sharding sharding(int ndim) {
    Sharding out = Sharding::replicated(mesh_, ndim);
    std::vector<int> axes;
    for (int a = 0; a < mesh_.axis_count(); ++a) axes.push_back(a);
    while (!axes.empty()) {
      const auto i = dice_.below(isize(axes));
      const AxisRef axis = mesh_.whole_axis(at(axes, i));
      axes.erase(axes.begin() + i);
      if (ndim == 0 || dice_.one_in(8)) continue;
      const auto d = dice_.below(ndim);
      if (axis.size % 2 == 0 && axis.size > 2 && dice_.one_in(4))
        at(out.dims, d).axes.push_back({axis.axis, 1, 2});
      else
        at(out.dims, d).axes.push_back(axis);
    }
    return out;
  }
  void annotate(Value value) { main_.set_sharding(value, make_sharding(sharding(value.type().ndim()))); }

  Value any() { return dice_.pick(values_); }
  // A value of these dims: one that has them, or a broadcast.
  Value with_dims(const Dims& dims) {
    std::vector<Value> fitting;
    for (const Value& value : values_)
      if (value.type().dims() == dims) fitting.push_back(value);
    if (!fitting.empty() && !dice_.one_in(5)) return dice_.pick(fitting);
    const Value scalar = ops::scalar(main_, DType::kF32, static_cast<double>(dice_.below(5)) - 2);
    return ops::splat(scalar, dims);
  }

  void step() {
    const Value x = any();
    Value made;
    using Maker = Value (Generator::*)(Value);
    static const std::vector<Maker> kMakers = {&Generator::binary,
                                               &Generator::unary,
                                               &Generator::broadcast,
                                               &Generator::reshape,
                                               &Generator::transpose,
                                               &Generator::slice,
                                               &Generator::pad,
                                               &Generator::concat,
                                               &Generator::reverse,
                                               &Generator::reduce,
                                               &Generator::dot,
                                               &Generator::dot,
                                               &Generator::rows,
                                               &Generator::scatter,
                                               &Generator::dynamic_slice,
                                               &Generator::update,
                                               &Generator::sort,
                                               &Generator::choose,
                                               &Generator::ramp,
                                               &Generator::mark,
                                               &Generator::reduce,
                                               &Generator::loop,
                                               &Generator::softmax,
                                               &Generator::bits,
                                               &Generator::roll,
                                               &Generator::convolution,
                                               &Generator::convolution,
                                               &Generator::reduce_window,
                                               &Generator::select_and_scatter};
    made = (this->*dice_.pick(kMakers))(x);
    if (made.is_null() || made.type().element_count() > 2000 || made.type().element_count() == 0) return;
    ++made_;
    values_.push_back(made);
  }

  Value binary(Value x) {
    const Value y = with_dims(x.type().dims());
    switch (dice_.below(5)) {
      case 0: return ops::add(x, y);
      case 1: return ops::subtract(x, y);
      case 2: return ops::multiply(x, y);
      case 3: return ops::maximum(x, y);
      default: return ops::minimum(y, x);
    }
  }
  Value unary(Value x) {
    switch (dice_.below(4)) {
      case 0: return ops::tanh(x);
      case 1: return ops::negate(x);
      case 2: return ops::abs(x);
      default: return ops::sin(x);
    }
  }
  Value broadcast(Value x) {
    if (x.type().ndim() > 3) return {};
    Dims result = x.type().dims();
    Dims dimensions;
    const auto place = dice_.below(isize(result) + 1);
    for (int d = 0; d < isize(result); ++d) dimensions.push_back(d < place ? d : d + 1);
    result.insert(result.begin() + place, dice_.pick(kSizes));
    return ops::broadcast(x, result, dimensions);
  }
  Value reshape(Value x) {
    Dims result;
    std::int64_t rest = x.type().element_count();
    while (rest > 1 && isize(result) < 3) {
      std::vector<std::int64_t> divisors;
      for (std::int64_t f = 2; f <= rest; ++f)
        if (rest % f == 0) divisors.push_back(f);
      const auto f = isize(result) == 2 ? rest : dice_.pick(divisors);
      result.push_back(f);
      rest /= f;
    }
    return ops::reshape(x, result);
  }
  Value transpose(Value x) {
    Dims permutation;
    for (int d = 0; d < x.type().ndim(); ++d)
      permutation.insert(permutation.begin() + dice_.below(isize(permutation) + 1), d);
    return ops::transpose(x, permutation);
  }
  Value slice(Value x) {
    std::vector<SliceRange> ranges;
    for (const auto size : x.type().dims()) {
      const auto start = dice_.one_in(2) ? 0 : dice_.below(size);
      const auto limit = dice_.one_in(2) ? size : start + 1 + dice_.below(size - start);
      ranges.push_back({start, limit, 1 + dice_.below(2)});
    }
    return ops::slice(x, ranges);
  }
  Value pad(Value x) {
    std::vector<PaddingDim> padding;
    for (int d = 0; d < x.type().ndim(); ++d)
      padding.push_back(dice_.one_in(2) ? PaddingDim{}
                                        : PaddingDim{dice_.below(5) - 1, dice_.below(5) - 1, dice_.below(3) / 2});
    for (int d = 0; d < x.type().ndim(); ++d)
      if (at(padding, d).low + at(padding, d).high + x.type().dim(d) < 0) return {};
    return ops::pad(x, ops::scalar(main_, DType::kF32, 0.5), padding);
  }
  Value concat(Value x) {
    if (x.type().ndim() == 0) return {};
    const auto dim = dice_.below(x.type().ndim());
    std::vector<Value> parts{x};
    for (auto more = dice_.below(3); more > 0; --more) {
      Dims dims = x.type().dims();
      at(dims, dim) = dice_.one_in(2) ? at(dims, dim) : dice_.pick(kSizes);
      parts.insert(parts.begin() + dice_.below(isize(parts) + 1), with_dims(dims));
    }
    return ops::concatenate(parts, static_cast<int>(dim));
  }
  // Rotated along one dim, as jnp.roll spells it.
  Value roll(Value x) {
    if (x.type().ndim() == 0) return {};
    const int dim = static_cast<int>(dice_.below(x.type().ndim()));
    const auto size = x.type().dim(dim);
    const auto shift = dice_.one_in(2) ? 1 : dice_.below(size + 1);
    if (shift > size) return {};
    return ops::concatenate({ops::slice_dim(x, dim, size - shift, size), ops::slice_dim(x, dim, 0, size - shift)}, dim);
  }
  Value convolution(Value x) {
    const int ndim = x.type().ndim();
    if (ndim < 2) return {};
    ConvolutionAttributes a;
    a.dim_labels = random_labels(dice_, ndim);
    const auto features = x.type().dim(static_cast<int>(a.dim_labels.lhs_feature));
    const auto batch = x.type().dim(static_cast<int>(a.dim_labels.lhs_batch));
    const auto groups = dice_.pick(std::vector<std::int64_t>{1, 2, 3});
    if (dice_.one_in(2) && features % groups == 0) a.feature_group_count = groups;
    if (dice_.one_in(2) && batch % groups == 0 && a.feature_group_count == 1) a.batch_group_count = groups;
    Dims kernel(static_cast<std::size_t>(ndim));
    at(kernel, a.dim_labels.rhs_input) = features / a.feature_group_count;
    at(kernel, a.dim_labels.rhs_output) = (1 + dice_.below(4)) * a.feature_group_count * a.batch_group_count;
    for (int i = 0; i < ndim - 2; ++i) {
      const auto image = x.type().dim(static_cast<int>(at(a.dim_labels.lhs_spatial, i)));
      // Now and then a kernel like an image: the gradient of one.
      WindowDim w = random_window(dice_, dice_.one_in(4) ? image : 1 + dice_.below(4), true);
      w.reversed = dice_.one_in(3);
      at(kernel, at(a.dim_labels.rhs_spatial, i)) = w.size;
      a.window.dims.push_back(w);
    }
    if (product(kernel) > 500) return {};
    return ops::convolution(x, with_dims(kernel), a);
  }
  Value reduce_window(Value x) {
    WindowDims w;
    for (int d = 0; d < x.type().ndim(); ++d)
      w.dims.push_back(dice_.one_in(3) ? WindowDim{} : random_window(dice_, 1 + dice_.below(4), true));
    const std::vector<Reduction> kinds = {Reduction::kSum, Reduction::kSum, Reduction::kMax, Reduction::kMin};
    return ops::reduce_window(x, dice_.pick(kinds), w);
  }
  Value select_and_scatter(Value x) {
    WindowDims w;
    Dims dims;
    for (int d = 0; d < x.type().ndim(); ++d) {
      w.dims.push_back(dice_.one_in(3) ? WindowDim{} : random_window(dice_, 1 + dice_.below(4), false));
      dims.push_back(w.dims.back().count(x.type().dim(d)));
    }
    Builder prefers = program_.computation("prefers");
    const Value a = ops::parameter(prefers, 0, Type::scalar(DType::kF32));
    const Value b = ops::parameter(prefers, 1, Type::scalar(DType::kF32));
    const Value c = ops::compare(a, b, dice_.one_in(2) ? CompareDirection::kGe : CompareDirection::kLt);
    return ops::select_and_scatter(x, with_dims(dims), ops::scalar(main_, DType::kF32, 0), w,
                                   program_.add(std::move(prefers), c),
                                   ops::reduction_computation(program_, Reduction::kSum, DType::kF32));
  }
  Value reverse(Value x) {
    if (x.type().ndim() == 0) return {};
    return ops::reverse(x, {dice_.below(x.type().ndim())});
  }
  Value reduce(Value x) {
    Dims dims;
    for (int d = 0; d < x.type().ndim(); ++d)
      if (dice_.one_in(2)) dims.push_back(d);
    const std::vector<Reduction> kinds = {Reduction::kSum, Reduction::kSum, Reduction::kMax, Reduction::kMin};
    return ops::reduce(x, dice_.pick(kinds), dims);
  }
  Value dot(Value x) {
    const Value y = any();
    for (int a = 0; a < x.type().ndim(); ++a)
      for (int b = 0; b < y.type().ndim(); ++b) {
        if (x.type().dim(a) != y.type().dim(b)) continue;
        DotAttributes dims{{}, {a}, {}, {b}};
        for (int c = 0; c < x.type().ndim(); ++c)
          for (int d = 0; d < y.type().ndim(); ++d)
            if (c != a && d != b && dims.lhs_batch_dims.empty() && x.type().dim(c) == y.type().dim(d) &&
                dice_.one_in(2)) {
              dims.lhs_batch_dims = {c};
              dims.rhs_batch_dims = {d};
            }
        return ops::dot(x, y, dims);
      }
    return {};
  }
  // Indices, some out of range.
  Value indices(const Dims& dims, std::int64_t range) {
    const Value ramp = ops::iota(main_, Type::array(DType::kS32, dims), static_cast<int>(dice_.below(isize(dims))));
    const Value scaled = ops::multiply(ramp, ops::splat(ops::scalar(main_, DType::kS32, 3), dims));
    const Value shift =
        ops::splat(ops::scalar(main_, DType::kS32, static_cast<double>(dice_.below(range + 2) - 2)), dims);
    return ops::subtract(scaled, shift);
  }
  Value rows(Value x) {
    if (x.type().ndim() == 0) return {};
    return ops::take_rows(x, indices({dice_.pick(kSizes)}, x.type().dim(0)));
  }
  Value scatter(Value x) {
    if (x.type().ndim() == 0) return {};
    Dims dims = x.type().dims();
    dims[0] = dice_.pick(kSizes);
    Dims window;
    for (int d = 1; d < isize(dims); ++d) window.push_back(d);
    const ScatterAttributes attributes{.update_window_dims = window,
                                       .inserted_window_dims = {0},
                                       .scatter_dims_to_operand_dims = {0},
                                       .input_batching_dims = {},
                                       .scatter_indices_batching_dims = {},
                                       .index_vector_dim = 1};
    return ops::scatter({x}, indices({dims[0]}, x.type().dim(0)), {with_dims(dims)}, attributes,
                        ops::reduction_computation(program_, Reduction::kSum, DType::kF32));
  }
  std::vector<Value> starts(Value x) {
    std::vector<Value> out;
    for (int d = 0; d < x.type().ndim(); ++d)
      out.push_back(ops::scalar(main_, DType::kS32, static_cast<double>(dice_.below(x.type().dim(d) + 3) - 1)));
    return out;
  }
  Value dynamic_slice(Value x) {
    Dims sizes;
    for (const auto size : x.type().dims()) sizes.push_back(dice_.one_in(2) ? size : 1 + dice_.below(size));
    return ops::dynamic_slice(x, starts(x), sizes);
  }
  Value update(Value x) {
    Dims sizes;
    for (const auto size : x.type().dims()) sizes.push_back(dice_.one_in(2) ? size : 1 + dice_.below(size));
    return ops::dynamic_update_slice(x, with_dims(sizes), starts(x));
  }
  Value sort(Value x) {
    if (x.type().ndim() == 0) return {};
    Builder less = program_.computation("less");
    const Value a = ops::parameter(less, 0, Type::scalar(DType::kF32));
    const Value b = ops::parameter(less, 1, Type::scalar(DType::kF32));
    const Value c = ops::compare(a, b, CompareDirection::kLt);
    return ops::sort({x}, static_cast<int>(dice_.below(x.type().ndim())), true, program_.add(std::move(less), c));
  }
  Value choose(Value x) {
    const Value y = with_dims(x.type().dims());
    return ops::select(ops::compare(x, y, CompareDirection::kGt), y, x);
  }
  Value ramp(Value) {
    const Dims d = dims();
    const Value steps = ops::iota(main_, Type::array(DType::kF32, d), static_cast<int>(dice_.below(isize(d))));
    return ops::multiply(steps, ops::splat(ops::scalar(main_, DType::kF32, 0.25), d));
  }
  Value mark(Value x) { return ops::sharding_mark(x, sharding(x.type().ndim())); }
  Value softmax(Value x) {
    if (x.type().ndim() == 0) return {};
    const int dim = static_cast<int>(dice_.below(x.type().ndim()));
    Dims others;
    for (int d = 0; d < x.type().ndim(); ++d)
      if (d != dim) others.push_back(d);
    const Value most = ops::broadcast(ops::reduce(x, Reduction::kMax, {dim}), x.type().dims(), others);
    const Value e = ops::exp(ops::subtract(x, most));
    return ops::divide(e, ops::broadcast(ops::reduce(e, Reduction::kSum, {dim}), x.type().dims(), others));
  }
  Value bits(Value x) {
    const Value key = ops::constant(main_, Literal::from<std::uint32_t>({2}, {7, 11}));
    return ops::add(x, ops::random_uniform(key, x.type().dims(), DType::kF32));
  }
  // Three rounds of x <- tanh(x + 1/4).
  Value loop(Value x) {
    const Type state = Type::tuple({Type::scalar(DType::kS32), x.type()});
    Builder condition = program_.computation("cond");
    const Value cp = ops::parameter(condition, 0, state);
    const Value more =
        ops::compare(ops::get_tuple_element(cp, 0), ops::scalar(condition, DType::kS32, 3), CompareDirection::kLt);
    const auto condition_id = program_.add(std::move(condition), more);
    Builder body = program_.computation("body");
    const Value bp = ops::parameter(body, 0, state);
    const Value next = ops::add(ops::get_tuple_element(bp, 0), ops::scalar(body, DType::kS32, 1));
    const Value v = ops::get_tuple_element(bp, 1);
    const Value w = ops::tanh(ops::add(v, ops::splat(ops::scalar(body, DType::kF32, 0.25), v.type().dims())));
    const Value root = ops::tuple(body, {next, w});
    const auto body_id = program_.add(std::move(body), root);
    const Value init = ops::tuple(main_, {ops::scalar(main_, DType::kS32, 0), x});
    return ops::get_tuple_element(ops::while_loop(init, condition_id, body_id), 1);
  }

  Dice dice_;
  RandomProgramOptions options_;
  ProgramBuilder program_;
  Builder main_;
  Mesh mesh_;
  std::vector<Value> values_;
  int made_ = 0;
};

}  // namespace

Program random_program(std::uint64_t seed, const RandomProgramOptions& options) {
  Generator generator(seed, options);
  return generator.make();
}

}  // namespace tessera::testing
