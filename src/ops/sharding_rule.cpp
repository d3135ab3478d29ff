// SPDX-License-Identifier: Apache-2.0
#include "sharding_rule.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <set>

#include "tessera/base/checked.h"
#include "tessera/base/text_cursor.h"

namespace tessera::rows {
namespace {

std::string dim_text(const DimFactors& dim, const std::vector<std::string>& symbols) {
  std::string out;
  for (const int factor : dim) out += at(symbols, factor);
  return out;
}

std::string side_text(const std::vector<TensorFactors>& side, const std::vector<std::string>& symbols) {
  std::vector<std::string> tensors;
  for (const auto& tensor : side) {
    std::vector<std::string> dims;
    for (const auto& dim : tensor) dims.push_back(dim_text(dim, symbols));
    tensors.push_back(fmt::format("[{}]", fmt::join(dims, ", ")));
  }
  return fmt::format("({})", fmt::join(tensors, ", "));
}

class RuleReader {
 public:
  explicit RuleReader(std::string_view text) : in_(text) {}

  ShardingRule read() {
    in_.expect("#sdy.op_sharding_rule<", "before the rule");
    rule_.map.operands = side();
    in_.expect("->", "after the operands");
    rule_.map.results = side();
    sizes();
    in_.skip_blanks();
    const auto tail = in_.position();
    while (!in_.take(">")) {
      in_.take(",");
      const auto word = in_.identifier("a kind of factors");
      if (word != "custom") kinds(word);
    }
    auto text = in_.text().substr(tail);
    rule_.tail = text.substr(0, text.rfind('>'));
    return std::move(rule_);
  }

 private:
  // Reads `i` or `z_1`: one letter and an optional number.
  int symbol() {
    in_.skip_blanks();
    const auto start = in_.position();
    const auto text = in_.text();
    std::size_t end = start + 1;
    if (start >= text.size() || std::isalpha(static_cast<unsigned char>(text[start])) == 0)
      in_.fail_expected("a factor");
    if (end < text.size() && text[end] == '_')
      for (++end; end < text.size() && std::isdigit(static_cast<unsigned char>(text[end])) != 0;) ++end;
    in_.seek(end);
    const std::string name(text.substr(start, end - start));
    const auto found = std::find(rule_.symbols.begin(), rule_.symbols.end(), name);
    if (found != rule_.symbols.end()) return static_cast<int>(found - rule_.symbols.begin());
    rule_.symbols.push_back(name);
    return rule_.map.add(1);
  }

  TensorFactors tensor() {
    TensorFactors out;
    in_.expect("[", "before the dims");
    if (in_.take("]")) return out;
    do {
      DimFactors dim;
      do {
        dim.push_back(symbol());
      } while (!in_.next_is(",") && !in_.next_is("]"));
      out.push_back(std::move(dim));
    } while (in_.take(","));
    in_.expect("]", "after the dims");
    return out;
  }

  std::vector<TensorFactors> side() {
    std::vector<TensorFactors> out;
    in_.expect("(", "before the tensors");
    if (in_.take(")")) return out;
    do {
      out.push_back(tensor());
    } while (in_.take(","));
    in_.expect(")", "after the tensors");
    return out;
  }

  void sizes() {
    in_.expect("{", "before the sizes");
    if (in_.take("}")) return;
    do {
      const int factor = symbol();
      in_.expect("=", "after a factor");
      at(rule_.map.factors, factor).size = in_.integer("the size of a factor");
    } while (in_.take(","));
    in_.expect("}", "after the sizes");
  }

  void kinds(std::string_view word) {
    constexpr std::pair<std::string_view, FactorKind> kKinds[] = {{"reduction", FactorKind::kReduce},
                                                                  {"need_replication", FactorKind::kBlocked},
                                                                  {"permutation", FactorKind::kBlocked},
                                                                  {"blocked_propagation", FactorKind::kPass}};
    const auto* kind =
        std::find_if(std::begin(kKinds), std::end(kKinds), [&](const auto& k) { return k.first == word; });
    require(kind != std::end(kKinds),
            "unknown kind of factors \"{}\"; there are reduction, need_replication, permutation, blocked_propagation",
            word);
    in_.expect("=", "after a kind of factors");
    in_.expect("{", "before factors");
    do {
      at(rule_.map.factors, symbol()).kind = kind->second;
    } while (in_.take(","));
    in_.expect("}", "after factors");
  }

  TextCursor in_;
  ShardingRule rule_;
};

std::vector<Type> leaves_of(const std::vector<Type>& types) {
  std::vector<Type> out;
  for (const auto& type : types)
    for (const auto& leaf : type.leaves()) out.push_back(leaf);
  return out;
}

void check_side(const ShardingRule& rule, const std::vector<TensorFactors>& side, const std::vector<Type>& types,
                std::string_view what) {
  require(side.size() == types.size(), "has {} {}s, but the custom-call has {}", side.size(), what, types.size());
  for (std::size_t i = 0; i < side.size(); ++i) {
    require(types[i].is_array() && types[i].ndim() == isize(side[i]),
            "{} {} has {} dims, but that of the custom-call is {}", what, i, side[i].size(), types[i]);
    for (int d = 0; d < types[i].ndim(); ++d) {
      Checked size = 1;
      for (const int factor : at(side[i], d)) size *= at(rule.map.factors, factor).size;
      require(size.fits() && size.value() == types[i].dim(d), "gives dim {} of {} {} the size {}, but the type is {}",
              d, what, i, size.value_or_most(), types[i]);
    }
  }
}

// A factor may be sharded if all results and some operand have it, or if no result has it, so that it is summed.
void settle_kinds(FactorMap& map) {
  const auto count = [&](const std::vector<TensorFactors>& tensors) {
    std::vector<std::size_t> out(map.factors.size(), 0);
    for (const auto& tensor : tensors)
      for (const auto& dim : tensor)
        for (const int factor : dim) ++at(out, factor);
    return out;
  };
  const auto operands_with = count(map.operands);
  const auto results_with = count(map.results);
  for (std::size_t f = 0; f < map.factors.size(); ++f) {
    const bool reduced = map.factors[f].kind == FactorKind::kReduce;
    if (results_with[f] != (reduced ? 0 : map.results.size()) || operands_with[f] == 0)
      map.factors[f].kind = FactorKind::kBlocked;
  }
}

std::int64_t element_at(const TensorFactors& tensor, const FactorMap& map, const Dims& index) {
  std::int64_t position = 0;
  for (const auto& dim : tensor)
    for (const int factor : dim) position = position * at(map.factors, factor).size + at(index, factor);
  return position;
}

DimFactors factors_of(const TensorFactors& tensor) {
  std::set<int> out;
  for (const auto& dim : tensor) out.insert(dim.begin(), dim.end());
  return {out.begin(), out.end()};
}

// f(index) for every index of these factors, with index zero of the others.
template <class F>
void for_each_of(const FactorMap& map, const DimFactors& factors, F&& f) {
  Dims sizes;
  for (const int factor : factors) sizes.push_back(at(map.factors, factor).size);
  Dims index(map.factors.size(), 0);
  for_each_index(sizes, [&](const Dims& of_these) {
    for (std::size_t k = 0; k < factors.size(); ++k) at(index, factors[k]) = of_these[k];
    f(index);
  });
}

// An operand, summed over the factors that only it has.
struct SummedOperand {
  bool exact = false;  // integers
  TensorFactors factors;
  std::vector<double> values;
};

// Complex elements as real numbers.
std::vector<double> numbers(const Literal& array) {
  const Literal reals = array.as_reals();
  const bool pairs = is_complex(array.type().dtype());
  std::vector<double> out;
  for (std::int64_t i = 0; i < array.type().element_count(); ++i)
    out.push_back(pairs ? element_as_double(reals, 2 * i) + 0.5 * element_as_double(reals, 2 * i + 1)
                        : element_as_double(reals, i));
  return out;
}

SummedOperand summed(const Literal& operand, int which, const FactorMap& map) {
  const TensorFactors& tensor = at(map.operands, which);
  std::set<int> elsewhere;
  for (int i = 0; i < isize(map.operands); ++i)
    if (i != which)
      for (const int f : factors_of(at(map.operands, i))) elsewhere.insert(f);
  for (const auto& result : map.results)
    for (const int f : factors_of(result)) elsewhere.insert(f);
  SummedOperand out;
  out.exact = is_integer(operand.type().dtype()) || operand.type().dtype() == DType::kPred;
  const std::vector<double> elements = numbers(operand);
  std::int64_t count = 1;
  for (const int f : factors_of(tensor))
    if (elsewhere.contains(f)) {
      out.factors.push_back({f});
      count *= at(map.factors, f).size;
    }
  out.values.assign(static_cast<std::size_t>(count), 0.0);
  for_each_of(map, factors_of(tensor), [&](const Dims& index) {
    at(out.values, element_at(out.factors, map, index)) += at(elements, element_at(tensor, map, index));
  });
  return out;
}

}  // namespace

std::string ShardingRule::str() const {
  std::vector<std::string> sizes;
  for (std::size_t f = 0; f < symbols.size(); ++f)
    sizes.push_back(fmt::format("{}={}", symbols[f], map.factors[f].size));
  return fmt::format("#sdy.op_sharding_rule<{}->{} {{{}}}{}{}>", side_text(map.operands, symbols),
                     side_text(map.results, symbols), fmt::join(sizes, ", "), tail.empty() || tail[0] == ',' ? "" : " ",
                     tail);
}

ShardingRule parse_sharding_rule(std::string_view text, const OpView& view) {
  try {
    ShardingRule rule = RuleReader(text).read();
    check_side(rule, rule.map.operands, leaves_of(view.operands), "operand");
    check_side(rule, rule.map.results, view.result.leaves(), "result");
    settle_kinds(rule.map);
    return rule;
  } catch (Error& error) {
    throw error.prefix(fmt::format("sharding rule {}: ", text));
  }
}

ShardingRule with_local_sizes(ShardingRule rule, const std::vector<Type>& operands, const std::vector<Type>& results) {
  const auto apply = [&](const std::vector<TensorFactors>& side, const std::vector<Type>& types) {
    for (std::size_t i = 0; i < side.size(); ++i)
      for (int d = 0; d < types[i].ndim(); ++d) {
        const DimFactors& dim = at(side[i], d);
        std::int64_t minor = 1;
        for (std::size_t k = 1; k < dim.size(); ++k) minor *= at(rule.map.factors, dim[k]).size;
        if (!dim.empty() && minor > 0) at(rule.map.factors, dim.front()).size = types[i].dim(d) / minor;
      }
  };
  apply(rule.map.operands, leaves_of(operands));
  apply(rule.map.results, results);
  return rule;
}

// The sum of products, in which sums over factors of only one operand are computed first.
Literal evaluate_sharding_rule(const ShardingRule& rule, const EvalContext& context) {
  const FactorMap& map = rule.map;
  std::vector<SummedOperand> operands;
  std::set<int> shared;
  for (const auto& operand : context.operands)
    for (const auto& leaf : operand.leaves()) {
      operands.push_back(summed(leaf, isize(operands), map));
      for (const int f : factors_of(operands.back().factors)) shared.insert(f);
    }
  for (const auto& result : map.results)
    for (const int f : factors_of(result)) shared.insert(f);
  const auto types = context.view.result.leaves();
  std::vector<Literal> results(types.begin(), types.end());
  std::vector<std::vector<double>> sums;
  for (const auto& type : types) sums.emplace_back(static_cast<std::size_t>(type.element_count()), 0.0);
  const bool some_exact =
      std::any_of(operands.begin(), operands.end(), [](const SummedOperand& operand) { return operand.exact; });
  const auto is_exact = [&](std::size_t r) { return is_integer(types[r].dtype()) || types[r].dtype() == DType::kPred; };
  for_each_of(map, {shared.begin(), shared.end()}, [&](const Dims& index) {
    double product = 1;
    double exact =
        // A sum of floats could truncate to different integers after rounding, so this uses only integer operands.
        some_exact ? 1 : 0;
    for (const SummedOperand& operand : operands) {
      const double sum = at(operand.values, element_at(operand.factors, map, index));
      product *= sum;
      if (operand.exact) exact *= sum;
    }
    for (std::size_t r = 0; r < results.size(); ++r)
      at(sums[r], element_at(map.results[r], map, index)) += is_exact(r) ? exact : product;
  });
  for (std::size_t r = 0; r < results.size(); ++r)
    visit_any_dtype(types[r].dtype(), [&]<class T>() {
      auto to = results[r].mutable_data<T>();
      for (std::size_t i = 0; i < to.size(); ++i)
        if constexpr (is_complex(kDTypeOf<T>))
          to[i] = T(static_cast<typename T::value_type>(sums[r][i]));
        else if constexpr (is_integer(kDTypeOf<T>))
          to[i] = static_cast<T>(static_cast<std::int64_t>(std::fmod(sums[r][i], 9007199254740992.0)));
        else
          to[i] = static_cast<T>(sums[r][i]);
    });
  return context.view.result.is_tuple() ? Literal::tuple(std::move(results)) : results.front();
}

}  // namespace tessera::rows
