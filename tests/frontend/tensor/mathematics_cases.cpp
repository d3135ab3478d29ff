// SPDX-License-Identifier: Apache-2.0
// Cases of mathematical functions, activations, statistics and order.
#include <cmath>
#include <limits>

#include "frontend/tensor/function_cases.h"

namespace tessera::testing {
namespace {

using Inputs = const std::vector<Tensor>&;

double away_from_one(double x) { return 0.9 * x; }
double above_one(double x) { return x + 2.5; }
double times_five(double x) { return 5 * x; }

FunctionCase elementwise_case(std::string name, Tensor (*f)(Operand), std::function<double(double)> values = {}) {
  return {std::move(name), {{5, 3}}, [f](Inputs x) { return f(x[0]); }, std::move(values)};
}

void add_elementwise(std::vector<FunctionCase>& out) {
  out.push_back(elementwise_case("tan", tan));
  out.push_back(elementwise_case("asin", asin, away_from_one));
  out.push_back(elementwise_case("acos", acos, away_from_one));
  out.push_back(elementwise_case("atan", atan));
  out.push_back(elementwise_case("sinh", sinh));
  out.push_back(elementwise_case("cosh", cosh));
  out.push_back(elementwise_case("asinh", asinh));
  out.push_back(elementwise_case("acosh", acosh, above_one));
  out.push_back(elementwise_case("atanh", atanh, away_from_one));
  out.push_back(elementwise_case("log2", log2, above_one));
  out.push_back(elementwise_case("log10", log10, above_one));
  out.push_back(elementwise_case("exp2", exp2, times_five));
  out.push_back(elementwise_case("sinc", sinc, times_five));
  out.push_back(elementwise_case("trunc", trunc, times_five));
  out.push_back(elementwise_case("frac", frac, times_five));
  out.push_back(elementwise_case("log_sigmoid", log_sigmoid, times_five));
  out.push_back(elementwise_case("relu6", relu6, [](double x) { return 9 * x; }));
  out.push_back({"logit", {{5, 3}}, [](Inputs x) { return logit(0.5 + 0.4 * x[0]); }});
  out.push_back({"logit_epsilon", {{5, 3}}, [](Inputs x) { return logit(0.5 + 0.6 * x[0], 0.1); }});
  out.push_back({"celu", {{5, 3}}, [](Inputs x) { return celu(x[0] * 3.0, 0.7); }});
  out.push_back({"hardtanh", {{5, 3}}, [](Inputs x) { return hardtanh(x[0], -0.5, 0.4); }});
  out.push_back({"threshold", {{5, 3}}, [](Inputs x) { return threshold(x[0], 0.1, -7); }});
  out.push_back({"nan_to_num", {{5, 3}}, [](Inputs x) {
                   const Tensor broken = where(x[0] > 0.5, std::numeric_limits<double>::quiet_NaN(), x[0]);
                   return nan_to_num(broken, {.nan = 3}) * where(isnan(broken), 2.0, x[0]);
                 }});
}

void add_of_two(std::vector<FunctionCase>& out) {
  const auto add = [&](std::string name, std::vector<Dims> inputs, std::function<Tensor(Inputs)> f) {
    out.push_back({std::move(name), std::move(inputs), std::move(f)});
  };
  add("atan2", {{5, 3}, {3}}, [](Inputs x) { return atan2(x[0], x[1]); });
  add("hypot", {{5, 3}, {3}}, [](Inputs x) { return hypot(x[0], x[1]); });
  add("logaddexp", {{5, 3}, {5, 1}}, [](Inputs x) { return logaddexp(3.0 * x[0], x[1]); });
  add("xlogy", {{5, 3}, {3}}, [](Inputs x) { return xlogy(x[0], x[1] + 1.5); });
  add("fmod", {{5, 3}, {3}}, [](Inputs x) { return fmod(5.0 * x[0], x[1] + 1.5); });
  add("remainder", {{5, 3}, {3}}, [](Inputs x) { return remainder(5.0 * x[0], x[1] + 1.5); });
  add("floor_divide", {{5, 3}, {3}}, [](Inputs x) { return x[0] * floor_divide(5.0 * x[0], x[1] + 1.5); });
  add("lerp", {{5, 3}, {3}, {5, 1}}, [](Inputs x) { return lerp(x[0], x[1], x[2]) * lerp(x[0], x[1], 0.7); });
  add("prelu", {{5, 3, 2}, {3}, {1}}, [](Inputs x) { return prelu(x[0], x[1]) + prelu(x[0] * 2.0, x[2]); });
  add("glu", {{5, 6}}, [](Inputs x) { return glu(x[0]); });
}

void add_reductions(std::vector<FunctionCase>& out) {
  const auto add = [&](std::string name, std::vector<Dims> inputs, std::function<Tensor(Inputs)> f) {
    out.push_back({std::move(name), std::move(inputs), std::move(f)});
  };
  add("amax", {{5, 7}}, [](Inputs x) { return x[0].amax(0) * amin(x[0], {.dims = {1}, .keep_dims = true}); });
  add("count_nonzero", {{5, 7}}, [](Inputs x) { return x[0].sum(0) * (floor(x[0]).count_nonzero(0)).to(kF64); });
  const auto broken = [](const Tensor& x) { return where(x > 0.5, std::numeric_limits<double>::quiet_NaN(), x); };
  add("nansum", {{5, 7}}, [broken](Inputs x) { return nansum(broken(x[0]), 0) * broken(x[0]).nansum(); });
  add("nanmean", {{5, 7}}, [broken](Inputs x) { return nanmean(broken(x[0]), 0) * broken(x[0]).nanmean(); });
  add("softmin", {{5, 7}}, [](Inputs x) { return softmin(x[0], 1) + x[0].softmin(0); });
  add("logcumsumexp", {{5, 7}}, [](Inputs x) { return logcumsumexp(x[0], 0) * logcumsumexp(3.0 * x[0], -1); });
  add("cov", {{5, 7}}, [](Inputs x) { return cov(x[0]) * cov(x[0].flatten(), 0); });
  add("normalize", {{5, 7}}, [](Inputs x) { return normalize(x[0]) * normalize(x[0], {.p = 1, .dim = 0}); });
  add("pairwise_distance", {{5, 7}, {7}}, [](Inputs x) { return pairwise_distance(x[0], x[1]); });
  add("cdist", {{5, 3}, {7, 3}}, [](Inputs x) { return cdist(x[0], x[1]) * cdist(x[0], x[1], 1); });
  add("cdist_batches", {{2, 1, 5, 3}, {3, 2, 3}}, [](Inputs x) { return cdist(x[0], x[1], 3); });
}

void add_order(std::vector<FunctionCase>& out) {
  const auto add = [&](std::string name, std::vector<Dims> inputs, std::function<Tensor(Inputs)> f) {
    out.push_back({std::move(name), std::move(inputs), std::move(f)});
  };
  add("cummax", {{5, 7}}, [](Inputs x) {
    const SortResult largest = cummax(x[0], 1);
    return largest.values * largest.indices.to(kF64) + cummin(x[0], 0).values;
  });
  add("median", {{5, 7}}, [](Inputs x) {
    const SortResult rows = median(x[0], 1);
    return rows.values * rows.indices.to(kF64) + median(x[0]) * x[0].median({.dim = 0, .keep_dims = true}).values.sum();
  });
  add("quantile", {{5, 7}}, [](Inputs x) {
    return quantile(x[0], {0.1, 0.75}, {.dim = 1}) + quantile(x[0], 0.4, {.method = QuantileMethod::kMidpoint});
  });
  add("searchsorted", {{5, 7}, {5, 3}, {4}}, [](Inputs x) {
    const Tensor places = searchsorted(sort(x[0]).values, x[1]) + bucketize(x[1], sort(x[2]).values, {.right = true});
    return places.to(kF64) * x[1];
  });
}

}  // namespace

std::vector<FunctionCase> mathematics_cases() {
  std::vector<FunctionCase> out;
  add_elementwise(out);
  add_of_two(out);
  return out;
}

std::vector<FunctionCase> statistics_cases() {
  std::vector<FunctionCase> out;
  add_reductions(out);
  add_order(out);
  return out;
}

}  // namespace tessera::testing
