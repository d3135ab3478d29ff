// SPDX-License-Identifier: Apache-2.0
#include "frontend/tensor/function_cases.h"
#include "tessera/base/text.h"

#include <cmath>

namespace tessera::testing {
namespace {

using Inputs = const std::vector<Tensor>&;

double positive(double x) { return x + 1.5; }
// Zeros at some elements.
double with_zeros(double x) { return std::fabs(x) < 0.2 ? 0 : x; }

}  // namespace

std::vector<FunctionCase> pointwise_cases() {
  std::vector<FunctionCase> out;
  const auto unary = [&](std::string name, Tensor (*f)(Operand), std::function<double(double)> values = {}) {
    out.push_back({std::move(name), {{5, 3}}, [f](Inputs x) { return f(x[0]); }, std::move(values)});
  };
  unary("expm1", expm1);
  unary("log1p", log1p);
  unary("reciprocal", reciprocal, positive);
  unary("silu", silu);
  unary("relu", relu);
  unary("floor", floor);
  unary("ceil", ceil);
  unary("round", tessera::round);
  // No element is at -3 or 3, where hardsigmoid has no slope.
  const auto wide = [](double x) { return 5 * x; };
  unary("selu", selu, wide);
  unary("hardsigmoid", hardsigmoid, wide);
  unary("hardswish", hardswish, wide);
  unary("mish", mish, wide);
  out.push_back({"leaky_relu", {{5, 3}}, [](Inputs x) { return leaky_relu(x[0], 0.2); }});
  out.push_back({"elu", {{5, 3}}, [](Inputs x) { return elu(x[0] * 3.0, 0.7); }});
  out.push_back({"softplus", {{7}}, [](Inputs x) { return softplus(x[0] * 9.0); }});
  out.push_back({"softplus_beta", {{7}}, [](Inputs x) { return softplus(x[0], 2.5); }});
  out.push_back({"clamp", {{5, 3}}, [](Inputs x) { return clamp(x[0], -0.5, 0.4); }});
  out.push_back({"clamp_min", {{5, 3}}, [](Inputs x) { return clamp(x[0], {.min = 0.1}); }});
  out.push_back({"clamp_max", {{5, 3}}, [](Inputs x) { return clamp(x[0], {.max = 0.1}); }});
  out.push_back({"masked_fill", {{5, 3}, {3}}, [](Inputs x) { return masked_fill(x[0], x[1] > 0.0, -7); }});
  out.push_back({"masked_fill_scalar", {{5, 3}, {}}, [](Inputs x) { return masked_fill(x[0], x[0] > 0.3, x[1]); }});
  out.push_back({"where", {{5, 1}, {3}}, [](Inputs x) { return where(x[1] > 0.0, x[0], x[1] * x[0]); }});
  out.push_back({"maximum", {{5, 3}, {3}}, [](Inputs x) { return maximum(x[0], x[1]) * minimum(x[0], 0.2); }});
  out.push_back({"logical", {{5, 3}, {3}}, [](Inputs x) {
                   return where(logical_xor(x[0] > 0.0, logical_and(x[1] > 0.1, logical_not(x[0]))), x[0], x[1]);
                 }});
  out.push_back({"compound_assignment", {{5, 3}, {3}}, [](Inputs x) {
                   Tensor y = x[0] * 2.0;
                   y += x[1];
                   y *= x[0];
                   y -= 0.5;
                   y /= x[1] + 2.0;
                   return y;
                 }});
  return out;
}

std::vector<FunctionCase> reduction_cases() {
  std::vector<FunctionCase> out;
  const auto add = [&](std::string name, std::vector<Dims> inputs, std::function<Tensor(Inputs)> f,
                       std::function<double(double)> values = {}) {
    out.push_back({std::move(name), std::move(inputs), std::move(f), std::move(values)});
  };
  add("sum", {{5, 7, 3}}, [](Inputs x) { return x[0].sum({0, -1}); });
  add("mean", {{5, 7}}, [](Inputs x) { return x[0].mean(1) * x[0].mean(); });
  add("max", {{5, 7}}, [](Inputs x) { return x[0].max(0) + x[0].max(); });
  add("min_keep", {{5, 7}}, [](Inputs x) { return x[0].min({.dims = {-1}, .keep_dims = true}) * x[0]; });
  add("prod", {{5, 7}}, [](Inputs x) { return x[0].prod(1); });
  add(
      "prod_zeros", {{5, 7}}, [](Inputs x) { return x[0].prod(0); }, with_zeros);
  add("prod_all", {{3, 2}}, [](Inputs x) { return x[0].prod(); });
  add("var", {{5, 7}}, [](Inputs x) { return x[0].var({.dims = {1}}); });
  add("var_biased", {{5, 7}}, [](Inputs x) { return var(x[0], {.dims = {0}, .correction = 0, .keep_dims = true}); });
  add("std", {{5, 7}}, [](Inputs x) { return tessera::std(x[0], 0) * x[0].std(); });
  add("norm", {{5, 7}}, [](Inputs x) { return x[0].norm({.dims = {1}, .keep_dims = true}) * x[0]; });
  add(
      "norm_of_zeros", {{5, 7}}, [](Inputs x) { return square(norm(x[0], {.dims = {1}})); },
      [](double) { return 0.0; });
  add("norm_1", {{5, 7}}, [](Inputs x) { return norm(x[0], {.p = 1, .dims = {0}}); });
  add("norm_3", {{5, 7}}, [](Inputs x) { return norm(x[0], {.p = 3, .dims = {0}}); });
  add("norm_minus_1", {{5, 7}}, [](Inputs x) { return norm(x[0] + 2.0, {.p = -1, .dims = {1}}); });
  add("norm_inf", {{5, 7}}, [](Inputs x) { return norm(x[0], {.p = HUGE_VAL, .dims = {1}}); });
  add("cumsum", {{5, 7}}, [](Inputs x) { return cumsum(x[0], 1) * cumsum(x[0], 0); });
  add("cumprod", {{5, 7}}, [](Inputs x) { return cumprod(x[0], -1); });
  add(
      "cumprod_zeros", {{7, 5}}, [](Inputs x) { return cumprod(x[0], 0); }, with_zeros);
  add("softmax", {{5, 7}}, [](Inputs x) { return softmax(x[0], 0) + log_softmax(x[0], 1); });
  add("logsumexp", {{5, 7}}, [](Inputs x) { return logsumexp(x[0], 1); });
  add("argmax", {{5, 7}},
      [](Inputs x) { return (argmax(x[0], 1).sum() + argmin(x[0]) + x[0].argmin(0).max()).to(kF64); });
  add("any_all", {{5, 7}}, [](Inputs x) {
    return where(any(x[0] > 0.8, 0), x[0], 2.0 * x[0]) * all(x[0] > -0.9, {.dims = {1}, .keep_dims = true}).to(kF64);
  });
  return out;
}

std::vector<FunctionCase> shaping_cases() {
  std::vector<FunctionCase> out;
  const auto add = [&](std::string name, std::vector<Dims> inputs, std::function<Tensor(Inputs)> f) {
    out.push_back({std::move(name), std::move(inputs), std::move(f)});
  };
  add("stack", {{5, 3}, {5, 3}}, [](Inputs x) { return stack({x[0], x[1] * x[0], x[1]}, 1); });
  add("cat", {{5, 3}, {2, 3}}, [](Inputs x) { return square(cat({x[0], x[1]})); });
  add("split", {{7, 3}}, [](Inputs x) {
    const auto parts = split(x[0], 2);
    const auto others = split(x[0], {4, 3});
    return cat({parts[3] * 2.0, parts[0], parts[1] * parts[2], others[1] * 3.0});
  });
  add("chunk", {{3, 7}}, [](Inputs x) {
    const auto parts = chunk(x[0], 3, 1);
    return parts[0] * parts[1] + parts[2];
  });
  add("permute", {{5, 3, 2}}, [](Inputs x) {
    return permute(x[0], {-1, 0, 1}) * transpose(x[0], 0, 1).transpose(0, 2).sum();
  });
  add("flatten", {{5, 3, 2}}, [](Inputs x) { return x[0].flatten(1) * flatten(x[0]).sum(); });
  add("expand", {{5, 1}}, [](Inputs x) { return expand(x[0], {3, -1, 4}); });
  add("tile", {{5, 3}}, [](Inputs x) { return tile(x[0], {2, 3, 2}); });
  add("roll", {{5, 7}}, [](Inputs x) { return roll(x[0], 3, 1) * roll(x[0], {-1, 9}, {0, 1}); });
  add("flip", {{5, 7}}, [](Inputs x) { return flip(x[0], {0, 1}) * flip(x[0], 1); });
  add("tril", {{2, 5, 7}}, [](Inputs x) { return tril(x[0], 1) - triu(x[0], -2); });
  add("subscript", {{5, 7, 3}}, [](Inputs x) {
    return x[0][{Range(1, 4), All, 2}] * x[0][{Ellipsis, 0}][{Range({}, {}, -2)}][{Range(0, 1)}];
  });
  add("subscript_new", {{5, 7}}, [](Inputs x) { return x[0][{NewAxis, -1, Range(6, 1, -2)}] * x[0][2][3]; });
  return out;
}

std::vector<FunctionCase> product_cases() {
  std::vector<FunctionCase> out;
  const auto add = [&](std::string name, std::vector<Dims> inputs, std::function<Tensor(Inputs)> f) {
    out.push_back({std::move(name), std::move(inputs), std::move(f)});
  };
  const auto product = [&](std::string name, Dims x, Dims y) {
    add("matmul_" + std::move(name), {std::move(x), std::move(y)}, [](Inputs v) { return matmul(v[0], v[1]); });
  };
  product("vectors", {5}, {5});
  product("vector_matrix", {5}, {5, 3});
  product("matrix_vector", {5, 3}, {3});
  product("batch_vector", {2, 5, 3}, {3});
  product("vector_batch", {5}, {2, 5, 3});
  product("matrix_batch", {5, 3}, {2, 3, 4});
  product("batches_of_one", {2, 1, 5, 3}, {7, 3, 4});
  product("all_batches_of_one", {1, 5, 3}, {1, 3, 4});
  product("equal_batches", {2, 3, 5, 3}, {2, 3, 3, 2});
  const auto equation = [&](std::string name, const std::string& text, std::vector<Dims> inputs) {
    add("einsum_" + std::move(name), std::move(inputs), [text](Inputs v) { return einsum(text, v); });
  };
  equation("matmul", "ij,jk->ik", {{5, 3}, {3, 4}});
  equation("matmul_swapped", "ij,jk->ki", {{5, 3}, {3, 4}});
  equation("implicit", "ba,cb", {{5, 3}, {4, 5}});
  equation("transpose", "ijk->kij", {{5, 3, 2}});
  equation("sum", "ijk->j", {{5, 3, 2}});
  equation("trace", "ii->", {{5, 5}});
  equation("diagonal", "iji->ij", {{5, 3, 5}});
  equation("diagonal_of_product", "iij,jk->ik", {{5, 5, 3}, {3, 2}});
  equation("attention", "bthd,bshd->bhts", {{2, 5, 3, 4}, {2, 7, 3, 4}});
  equation("attention_values", "bhts,bshd->bthd", {{2, 3, 5, 7}, {2, 7, 3, 4}});
  equation("outer", "i,j->ij", {{5}, {3}});
  equation("inner", "i,i", {{5}, {5}});
  equation("rows", "ij,ij->i", {{5, 3}, {5, 3}});
  equation("elementwise", "ij,ji->ij", {{5, 3}, {3, 5}});
  equation("ellipsis", "...ij,...jk->...ik", {{2, 5, 3}, {3, 4}});
  equation("ellipsis_broadcast", "...i,j...->...ij", {{2, 1, 3}, {4, 5}});
  equation("size_one", "ij,jk->ik", {{5, 1}, {3, 4}});
  equation("summed_before", "ijl,jk->k", {{5, 3, 2}, {3, 4}});
  equation("three", "ij,jk,kl->il", {{5, 3}, {3, 2}, {2, 4}});
  equation("bilinear", "bi,oij,bj->bo", {{5, 3}, {2, 3, 4}, {5, 4}});
  equation("shared_by_three", "ai,bi,ci->abc", {{2, 3}, {4, 3}, {5, 3}});
  return out;
}

std::vector<FunctionCase> indexing_cases() {
  std::vector<FunctionCase> out;
  const auto add = [&](std::string name, std::vector<Dims> inputs, std::function<Tensor(Inputs)> f) {
    out.push_back({std::move(name), std::move(inputs), std::move(f)});
  };
  // Positions in [0, size), in no order and some of them equal.
  const auto positions = [](Shape shape, int size) {
    std::vector<std::int32_t> values(static_cast<std::size_t>(shape.numel()));
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<std::int32_t>((7 * i + i * i / 3 + 2)) % size;
    return Tensor::from(values, shape);
  };
  add("gather_rows", {{5, 3}}, [=](Inputs x) { return gather(x[0], 0, positions({4, 3}, 5)); });
  add("gather_fewer_rows", {{5, 7}}, [=](Inputs x) { return gather(x[0], 1, positions({3, 4}, 7)); });
  add("take_along_dim", {{5, 7}}, [=](Inputs x) { return take_along_dim(x[0], positions({1, 4}, 7), 1); });
  add("index_select", {{5, 7, 2}}, [=](Inputs x) { return index_select(x[0], 1, positions({9}, 7)); });
  add("scatter", {{5, 7}, {5, 4}}, [=](Inputs x) { return scatter(x[0], 1, positions({5, 4}, 7), x[1]); });
  add("scatter_fewer", {{5, 7}, {4, 3}}, [=](Inputs x) { return scatter(x[0], 0, positions({3, 2}, 5), x[1]); });
  add("scatter_number", {{5, 7}}, [=](Inputs x) { return scatter(x[0], 1, positions({5, 3}, 7), 2.5); });
  add("scatter_add", {{5, 7}, {5, 4}}, [=](Inputs x) {
    return square(scatter_add(x[0], 1, positions({5, 4}, 7), x[1]));
  });
  add("scatter_add_fewer", {{5, 7}, {9, 2}}, [=](Inputs x) {
    return scatter_add(x[0], 0, positions({9, 2}, 5), x[1]);
  });
  add("one_hot", {{5, 7}}, [=](Inputs x) { return matmul(one_hot(positions({3}, 5), 5, kF64), x[0]); });
  add("cosine_similarity", {{5, 7}, {7}}, [](Inputs x) { return cosine_similarity(x[0], x[1].expand({5, 7})); });
  add("sort", {{5, 7}}, [](Inputs x) { return sort(x[0]).values * sort(x[0], {.dim = 0, .descending = true}).values; });
  add("argsort", {{5, 7}},
      [](Inputs x) { return (argsort(x[0], {.descending = true}) + argsort(x[0], {.dim = 0})).to(kF64); });
  add("topk", {{5, 7}}, [](Inputs x) {
    const SortResult largest = topk(x[0], 3);
    return largest.values * largest.indices.to(kF64) + topk(x[0], 2, {.dim = 0, .largest = false}).values.sum();
  });
  add("masked_select", {{5, 7}},
      [](Inputs x) { return masked_select(square(x[0]), x[0] > 0.0, {.size = 11, .fill_value = 4}); });
  add("masked_select_all", {{5, 3}}, [](Inputs x) { return masked_select(x[0], x[0] < 0.5, {.size = 20}); });
  add("nonzero", {{5, 7}}, [](Inputs x) { return nonzero(x[0] > 0.2, {.size = 19, .fill_value = -1}).to(kF64); });
  add("unique", {{5, 7}}, [](Inputs x) {
    const UniqueResult found = unique(floor(x[0] * 5.0), {.size = 8});
    return found.values * found.counts.to(kF64) * found.count.to(kF64) * (found.inverse.sum(0).max()).to(kF64);
  });
  return out;
}

std::vector<FunctionCase> random_cases() {
  std::vector<FunctionCase> out;
  const auto add = [&](std::string name, std::vector<Dims> inputs, std::function<Tensor(Inputs)> f) {
    out.push_back({std::move(name), std::move(inputs), std::move(f)});
  };
  add("rand", {{5, 7}}, [](Inputs x) { return x[0] * rand(Key(3), {5, 7}, kF64) * randn(Key(4), {5, 1}, kF64); });
  add("randint", {{5, 7}}, [](Inputs x) {
    return x[0] * randint(Key(5).fold_in(2), -3, 10, {5, 7}).to(kF64) + randperm(Key(6), 7).to(kF64);
  });
  add("bernoulli", {{5, 7}}, [](Inputs x) {
    const auto keys = Key(7).split(3);
    const Tensor kept = bernoulli(keys[0], 0.6, {5, 7});
    return where(kept && bernoulli(keys[1], sigmoid(x[0].detach())), x[0], gumbel(keys[2], {7}, kF64));
  });
  add("categorical", {{5, 7}}, [](Inputs x) {
    const Tensor drawn = categorical(Key(8), x[0].detach()) + categorical(Key(9), x[0].detach(), 0).sum();
    const Tensor several = multinomial(Key(10), exp(x[0].detach()), 3);
    return x[0].sum(1) * drawn.to(kF64) + several.to(kF64).sum(1) * x[0][{All, 1}];
  });
  return out;
}

std::vector<FunctionCase> function_cases() {
  std::vector<FunctionCase> out;
  for (auto* group : {pointwise_cases, mathematics_cases, reduction_cases, statistics_cases, shaping_cases,
                      rearranging_cases, product_cases, indexing_cases, writing_cases, random_cases})
    for (auto& one : group()) out.push_back(std::move(one));
  return out;
}

std::vector<std::vector<double>> input_values(const FunctionCase& one) {
  std::vector<std::vector<double>> out;
  int drawn = 0;
  for (const Dims& dims : one.inputs) {
    std::vector<double> values(static_cast<std::size_t>(Shape(dims).numel()));
    for (double& value : values) {
      const double turned = ++drawn * 0.6180339887498949;  // multiples of the golden ratio are far from each other
      value = 2 * (turned - std::floor(turned)) - 1;
      if (one.values) value = one.values(value);
    }
    out.push_back(std::move(values));
  }
  return out;
}

std::vector<Tensor> inputs_of(const FunctionCase& one, std::vector<std::vector<double>> values) {
  std::vector<Tensor> out;
  for (std::size_t i = 0; i < values.size(); ++i) {
    out.push_back(Tensor::from(values[i], one.inputs[i]));
    out.back().set_requires_grad();
  }
  return out;
}

Tensor loss_of(const Tensor& result) {
  std::vector<double> weights(static_cast<std::size_t>(result.numel()));
  for (std::size_t i = 0; i < weights.size(); ++i) weights[i] = std::cos(static_cast<double>(3 * i + 1));
  return sum(result * Tensor::from(weights, result.shape()));
}

}  // namespace tessera::testing
