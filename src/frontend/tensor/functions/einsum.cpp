// SPDX-License-Identifier: Apache-2.0
// einsum: reads the equation, takes diagonals, then contracts two operands at a time.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <limits>
#include <map>
#include <string>

#include "tensor/functions/labelled.h"
#include "tessera/base/text.h"
#include "tessera/frontend/tensor/products.h"
#include "tessera/ops/contraction.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/structural.h"
#include "tracing/recorded.h"

namespace tessera {
namespace {

// ---- the equation -------------------------------------------------------------------------------------------------------

// A label is a letter, or for the dims of `...` -1 for the last one, -2 for the one before, …. While a term is read,
// kFurther stands for all of them.
constexpr int kFurther = 0;

struct Equation {
  std::vector<Labels> terms;
  std::optional<Labels> output;
};

Labels term_labels(std::string_view text) {
  Labels out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (text.substr(i, 3) == "...") {
      require(std::find(out.begin(), out.end(), kFurther) == out.end(), "the term \"{}\" has `...` twice", text);
      out.push_back(kFurther);
      i += 2;
      continue;
    }
    require(std::isalpha(static_cast<unsigned char>(c)) != 0,
            "'{}' in the term \"{}\" is not a label; labels are letters, and `...` stands for further dims", c, text);
    out.push_back(c);
  }
  return out;
}

Equation parse_equation(std::string_view given) {
  std::string text;
  std::copy_if(given.begin(), given.end(), std::back_inserter(text), [](char c) { return c != ' '; });
  Equation out;
  std::string inputs = text;
  if (const auto arrow = text.find("->"); arrow != std::string::npos) {
    inputs = text.substr(0, arrow);
    out.output = term_labels(std::string_view(text).substr(arrow + 2));
  }
  std::size_t begin = 0;
  while (true) {
    const std::size_t comma = inputs.find(',', begin);
    out.terms.push_back(term_labels(std::string_view(inputs).substr(begin, comma - begin)));
    if (comma == std::string::npos) break;
    begin = comma + 1;
  }
  return out;
}

std::string label_text(int label) {
  return label > 0 ? fmt::format("'{}'", static_cast<char>(label)) : fmt::format("dim {} of `...`", label);
}

// Replaces kFurther by the labels of `count` dims.
Labels with_further(const Labels& term, int count) {
  Labels out;
  for (const int label : term) {
    if (label != kFurther) {
      out.push_back(label);
      continue;
    }
    for (int i = count; i > 0; --i) out.push_back(-i);
  }
  return out;
}

bool names_further(const Labels& term) { return std::find(term.begin(), term.end(), kFurther) != term.end(); }

// One label for each dim of operand number `i`.
Labels operand_labels(const Labels& term, const Type& type, int i) {
  const bool is_open = names_further(term);
  const int named = isize(term) - (is_open ? 1 : 0);
  require(is_open ? named <= type.ndim() : named == type.ndim(), "term {} names {} dims{}, but operand {} is {}", i,
          named, is_open ? " in addition to `...`" : "", i, type);
  return with_further(term, type.ndim() - named);
}

// `...` first, then the letters that occur once, in alphabetical order.
Labels implicit_output(const std::vector<Labels>& operands) {
  std::map<int, int> counts;
  for (const auto& labels : operands)
    for (const int label : labels) ++counts[label];
  Labels out;
  for (const auto& [label, count] : counts)
    if (label < 0 || count == 1) out.push_back(label);
  return out;
}

Labels checked_output(const Equation& equation, const std::vector<Labels>& operands) {
  if (!equation.output) return implicit_output(operands);
  int further = 0;
  for (const auto& labels : operands)
    for (const int label : labels) further = std::max(further, -label);
  require(names_further(*equation.output) || further == 0,
          "the output has no `...`, but the operands have {} dims for it; write `...` in the output or sum them first",
          further);
  Labels out = with_further(*equation.output, further);
  for (int i = 0; i < isize(out); ++i) {
    const int label = at(out, i);
    require(std::count(out.begin(), out.end(), label) == 1, "the output names {} twice",
            [&] { return label_text(label); });
    const bool occurs = std::any_of(operands.begin(), operands.end(), [&](const Labels& labels) {
      return std::find(labels.begin(), labels.end(), label) != labels.end();
    });
    require(occurs, "the output names {}, which no operand has", [&] { return label_text(label); });
  }
  return out;
}

// ---- the operands -------------------------------------------------------------------------------------------------------

using LabelSizes = std::map<int, std::int64_t>;

LabelSizes checked_sizes(const std::vector<Labels>& operands, const std::vector<Value>& values) {
  LabelSizes sizes;
  std::map<int, int> owners;
  for (int i = 0; i < isize(values); ++i)
    for (int d = 0; d < isize(at(operands, i)); ++d) {
      const int label = at(at(operands, i), d);
      const std::int64_t size = at(values, i).type().dim(d);
      const auto [entry, fresh] = sizes.try_emplace(label, size);
      if (fresh || entry->second == 1) {
        entry->second = fresh ? size : std::max(size, entry->second);
        owners[label] = i;
        continue;
      }
      require(
          size == entry->second || size == 1, "{} has size {} in operand {} and size {} in operand {}",
          [&] { return label_text(label); }, entry->second, owners[label], size, i);
    }
  return sizes;
}

// Removes dims of size 1 that broadcast, and takes the diagonal of labels that occur twice.
Labelled distinct(Value x, const Labels& labels, const LabelSizes& sizes) {
  Labelled out{x, {}};
  Dims kept;
  for (int d = 0; d < isize(labels); ++d) {
    if (x.type().dim(d) == 1 && sizes.at(at(labels, d)) != 1) continue;
    kept.push_back(x.type().dim(d));
    out.labels.push_back(at(labels, d));
  }
  if (kept != x.type().dims()) out.value = ops::reshape(x, std::move(kept));
  for (int b = isize(out.labels) - 1; b > 0; --b) {
    const auto first = std::find(out.labels.begin(), out.labels.end(), at(out.labels, b)) - out.labels.begin();
    if (first == b) continue;
    out.value = diagonal_of(out.value, static_cast<int>(first), b);
    out.labels.erase(out.labels.begin() + b);
  }
  return out;
}

// ---- the order of products ----------------------------------------------------------------------------------------------

void add_labels(Labels& out, const Labels& labels) {
  for (const int label : labels)
    if (std::find(out.begin(), out.end(), label) == out.end()) out.push_back(label);
}

// The two operands whose product takes the fewest multiplications.
std::array<std::size_t, 2> next_pair(const std::vector<Labelled>& operands, const LabelSizes& sizes) {
  std::array<std::size_t, 2> best{0, 1};
  double least = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < operands.size(); ++i)
    for (std::size_t j = i + 1; j < operands.size(); ++j) {
      Labels all = operands[i].labels;
      add_labels(all, operands[j].labels);
      double cost = 1;
      for (const int label : all) cost *= static_cast<double>(sizes.at(label));
      if (cost >= least) continue;
      least = cost;
      best = {i, j};
    }
  return best;
}

Value contract_all(std::vector<Labelled> operands, const Labels& output, const LabelSizes& sizes) {
  while (operands.size() > 1) {
    const auto [i, j] = next_pair(operands, sizes);
    Labels kept = output;
    for (std::size_t k = 0; k < operands.size(); ++k)
      if (k != i && k != j) add_labels(kept, operands[k].labels);
    Labelled product = contract(operands[i], operands[j], kept);
    operands.erase(operands.begin() + static_cast<std::ptrdiff_t>(j));
    operands[i] = std::move(product);
  }
  return in_order(sum_others(operands.front(), output), output);
}

Value einsum_value(std::string_view text, const std::vector<Value>& values) {
  const Equation equation = parse_equation(text);
  require(equation.terms.size() == values.size(), "the equation has {} terms for {} operands", equation.terms.size(),
          values.size());
  std::vector<Labels> labels;
  for (int i = 0; i < isize(values); ++i) {
    const Type& type = at(values, i).type();
    require(type.dtype() == values.front().type().dtype() && type.dtype() != DType::kPred,
            "operands must have one numeric element type, got {} and {}; convert with .to()", values.front().type(),
            type);
    labels.push_back(operand_labels(at(equation.terms, i), type, i));
  }
  const Labels output = checked_output(equation, labels);
  const LabelSizes sizes = checked_sizes(labels, values);
  std::vector<Labelled> operands;
  for (int i = 0; i < isize(values); ++i) operands.push_back(distinct(at(values, i), at(labels, i), sizes));
  return contract_all(std::move(operands), output, sizes);
}

}  // namespace

Tensor einsum(std::string_view equation, const std::vector<Tensor>& operands, std::source_location where) {
  std::vector<const Tensor*> pointers;
  for (const auto& operand : operands) pointers.push_back(&operand);
  try {
    require(!operands.empty(), "needs at least one operand");
    return trace().record(where, [&](Builder&) {
      std::vector<Value> values;
      for (const auto& operand : operands) values.push_back(autocast_value("einsum", operand));
      return einsum_value(equation, values);
    });
  } catch (InternalError&) {
    throw;
  } catch (Error& error) {
    add_context(error, fmt::format("einsum \"{}\"", equation), pointers, where);
    throw;
  }
}

Tensor einsum(std::string_view equation, Operand x) { return einsum(equation, {x.tensor()}, x.where()); }
Tensor einsum(std::string_view equation, Operand x, Operand y) {
  return einsum(equation, {x.tensor(), y.tensor()}, x.where());
}
Tensor einsum(std::string_view equation, Operand x, Operand y, Operand z) {
  return einsum(equation, {x.tensor(), y.tensor(), z.tensor()}, x.where());
}

}  // namespace tessera
