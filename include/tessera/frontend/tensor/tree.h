// SPDX-License-Identifier: Apache-2.0
// Trees of tensors: the arguments and results of functions that are traced. A tree is
//
//   - a Tensor; a null tensor has no value and is no leaf, but part of the structure;
//   - a std::vector, std::array, std::map (by value), std::optional, std::pair or std::tuple of trees;
//   - a struct that lists its members (JAX: a registered pytree):
//
//       struct State {
//         Tensor hidden, cell;
//         static void fields(auto& self, auto&& visit) { visit("hidden", self.hidden), visit("cell", self.cell); }
//       };
//
//   - a number, a bool, an enum or a std::string. These are not leaves; they belong to the structure. A compiled
//     function is traced again if one of them differs.
#pragma once

#include <array>
#include <concepts>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/frontend/tensor/tensor.h"

namespace tessera {
namespace detail {

/// Ignores the members that fields() visits. Used only to check the concept below.
struct AnyField {
  template <class T>
  void operator()(std::string_view, T&&) const {}
};

template <class T>
concept HasFields = requires(T& tree, AnyField visit) { std::remove_const_t<T>::fields(tree, visit); };

template <class T>
inline constexpr bool kIsStatic =
    std::is_arithmetic_v<T> || std::is_enum_v<T> || std::is_same_v<T, std::string> || std::is_empty_v<T>;

template <class T>
struct IsSequence : std::false_type {};
template <class T, class A>
struct IsSequence<std::vector<T, A>> : std::true_type {};
template <class T, std::size_t N>
struct IsSequence<std::array<T, N>> : std::true_type {};
template <class T>
struct IsMap : std::false_type {};
template <class K, class V, class C, class A>
struct IsMap<std::map<K, V, C, A>> : std::true_type {};
template <class T>
struct IsOptional : std::false_type {};
template <class T>
struct IsOptional<std::optional<T>> : std::true_type {};
template <class T>
concept TupleLike = requires { std::tuple_size<std::remove_const_t<T>>::value; };

template <class T>
inline constexpr bool kAlwaysFalse = false;

/// `"text"`, with a backslash before quotes and backslashes, so that different texts stay different.
inline std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + '"';
}

}  // namespace detail

/// Visits a tree in order. Calls `visitor.leaf(Tensor&)` for each tensor, and `visitor.fact(text)` for each number,
/// text and name of a member. `visitor.open(bracket)` and `visitor.close(bracket)` enclose the elements of a vector,
/// map, tuple or struct. `visitor.colon()` follows a key and a name.
template <class T, class Visitor>
void visit_tree(T& tree, Visitor& visitor) {
  using Plain = std::remove_const_t<T>;
  if constexpr (std::is_same_v<Plain, Tensor>) {
    visitor.leaf(tree);
  } else if constexpr (std::is_empty_v<Plain>) {
    return;
  } else if constexpr (std::is_enum_v<Plain>) {
    visitor.fact(std::to_string(static_cast<std::underlying_type_t<Plain>>(tree)));
  } else if constexpr (std::is_floating_point_v<Plain>) {
    visitor.fact(fmt::format("{}", tree));  // to_string would round
  } else if constexpr (std::is_arithmetic_v<Plain>) {
    visitor.fact(std::to_string(tree));
  } else if constexpr (std::is_same_v<Plain, std::string>) {
    visitor.fact(detail::quoted(tree));
  } else if constexpr (detail::IsSequence<Plain>::value) {
    visitor.open('[');
    for (auto& element : tree) visit_tree(element, visitor);
    visitor.close(']');
  } else if constexpr (detail::IsMap<Plain>::value) {
    visitor.open('{');
    for (auto& [key, value] : tree) {
      visit_tree(key, visitor);
      visitor.colon();
      visit_tree(value, visitor);
    }
    visitor.close('}');
  } else if constexpr (detail::IsOptional<Plain>::value) {
    visitor.open('<');
    if (tree.has_value()) visit_tree(*tree, visitor);
    visitor.close('>');
  } else if constexpr (detail::TupleLike<Plain>) {
    visitor.open('(');
    std::apply([&](auto&... element) { (visit_tree(element, visitor), ...); }, tree);
    visitor.close(')');
  } else if constexpr (detail::HasFields<T>) {
    visitor.open('{');
    Plain::fields(tree, [&](std::string_view name, auto& member) {
      visitor.fact(name);
      visitor.colon();
      visit_tree(member, visitor);
    });
    visitor.close('}');
  } else {
    static_assert(
        detail::kAlwaysFalse<T>,
        "this type is no tree of tensors: use Tensor, vector, array, map, optional, pair, tuple, a number, or a "
        "struct with static void fields(auto& self, auto&& visit)");
  }
}

namespace detail {

/// A visitor that sees only the tensors.
struct LeafVisitor {
  void fact(std::string_view) {}
  void open(char) {}
  void close(char) {}
  void colon() {}
};
struct LeafCollector : LeafVisitor {
  std::vector<Tensor> leaves;
  void leaf(const Tensor& tensor) {
    if (!tensor.is_null()) leaves.push_back(tensor);
  }
};
struct LeafSetter : LeafVisitor {
  const std::vector<Tensor>& leaves;
  std::size_t next = 0;
  explicit LeafSetter(const std::vector<Tensor>& given) : leaves(given) {}
  void leaf(Tensor& tensor) {
    if (!tensor.is_null()) tensor = leaves.at(next++);
  }
};

/// Writes a tree: `(*, [*, null], {power: 3})`.
class StructureText {
 public:
  std::string text;
  void leaf(const Tensor& tensor) { fact(tensor.is_null() ? "null" : "*"); }
  void fact(std::string_view fact) {
    if (!text.empty() && std::string_view("([{< ").find(text.back()) == std::string_view::npos) text += ", ";
    text += fact;
  }
  void open(char bracket) { fact(std::string_view(&bracket, 1)); }
  void close(char bracket) { text += bracket; }
  void colon() { text += ": "; }
};
/// Writes a tree with the types of its tensors: `(f32[4,8] {data,-}, 3)`.
class TypesText : public StructureText {
 public:
  void leaf(const Tensor& tensor) { fact(type_text(tensor)); }

 private:
  /// Type and sharding of a tensor.
  static std::string type_text(const Tensor& tensor);
};

/// Stands for a tensor in a tree of which only the structure is kept. Has no value.
Tensor placeholder();

}  // namespace detail

/// The tensors of a tree, in order, without those that are null.
template <class T>
std::vector<Tensor> tree_leaves(const T& tree) {
  detail::LeafCollector collector;
  visit_tree(tree, collector);
  return std::move(collector.leaves);
}

/// A copy of the tree with other tensors, in the order of tree_leaves(). Null tensors stay null.
template <class T>
T tree_with_leaves(T tree, const std::vector<Tensor>& leaves) {
  detail::LeafSetter setter{leaves};
  visit_tree(tree, setter);
  ensure(setter.next == leaves.size(), "{} tensors for a tree with {}", leaves.size(), setter.next);
  return tree;
}

/// The tree with f(leaf) in place of each tensor; with f(leaf, other...) if there are further trees of the same structure.
/// (jax.tree.map)
template <class F, class T, class... More>
  requires(std::is_same_v<T, More> && ...)
T tree_map(F&& f, const T& tree, const More&... more) {
  const std::array<std::vector<Tensor>, 1 + sizeof...(More)> all{tree_leaves(tree), tree_leaves(more)...};
  for (const auto& leaves : all)
    require(leaves.size() == all[0].size(), "tree_map: the trees have {} and {} tensors", all[0].size(), leaves.size());
  std::vector<Tensor> out;
  for (std::size_t i = 0; i < all[0].size(); ++i)
    out.push_back(std::apply([&](const auto&... leaves) -> Tensor { return f(leaves[i]...); }, all));
  return tree_with_leaves(tree, out);
}

/// The structure of a tree, for tree_with_leaves(). It does not keep the tensors.
template <class T>
T tree_without_leaves(const T& tree) {
  return tree_with_leaves(tree, std::vector<Tensor>(tree_leaves(tree).size(), detail::placeholder()));
}

/// A text that is equal for trees with the same structure and the same numbers: `(*, [*, *], {power: 3})`.
template <class T>
std::string tree_structure(const T& tree) {
  detail::StructureText text;
  visit_tree(tree, text);
  return std::move(text.text);
}

/// The tree with the types of its tensors: `(f32[4,8] {data,-}, 3)`.
template <class T>
std::string tree_types(const T& tree) {
  detail::TypesText text;
  visit_tree(tree, text);
  return std::move(text.text);
}

}  // namespace tessera
