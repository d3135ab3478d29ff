// SPDX-License-Identifier: Apache-2.0
// Reads `f32[2,3]{1,0:T(8,128)}`, `(f32[], (s32[2]{0}, token[]))`.
#include <fmt/format.h>

#include <algorithm>

#include "tessera/base/text.h"
#include "text/text_reader.h"

namespace tessera {
namespace {

Dims read_dims(TextCursor& in) {
  Dims dims;
  in.expect("[", "before the sizes");
  if (in.take("]")) return dims;
  do {
    in.skip_blanks();
    const auto place = in.position();
    if (in.next_is("<=") || in.next_is("?"))
      in.fail_at(place, "sizes that are known only at run time are not supported");
    if (isize(dims) == kDeepestNesting) in.fail_at(place, fmt::format("more than {} dims", kDeepestNesting));
    dims.push_back(in.integer("a size"));
    if (dims.back() < 0) in.fail_at(place, "a size may not be negative");
  } while (in.take(","));
  in.expect("]", "after the sizes");
  return dims;
}

struct Layout {
  Dims order;
  std::string tail;  // `:T(8,128)S(1)`, which describes tiles and memories of other hardware
};

// Reads the rest after `{`.
Layout read_layout(TextCursor& in, int ndim) {
  in.skip_blanks();
  const auto place = in.position();
  Layout out;
  Dims& layout = out.order;
  if (!in.next_is(":") && !in.next_is("}")) {
    do {
      layout.push_back(in.integer("a dim of the layout"));
    } while (in.take(","));
  }
  if (in.take(":")) {
    out.tail = ":";
    while (!in.next_is("}") && !in.at_end()) out.tail += in.take(",") ? "," : in.value("\"}\" after the layout");
    if (out.tail == ":") out.tail.clear();
  }
  in.expect("}", "after the layout");
  auto sorted = layout;
  std::sort(sorted.begin(), sorted.end());
  bool ordered = isize(layout) == ndim || layout.empty();
  for (int i = 0; i < isize(sorted); ++i) ordered = ordered && at(sorted, i) == i;
  if (!ordered)
    in.fail_at(place, fmt::format("the layout must order the {} dims, got {{{}}}", ndim, fmt::join(layout, ",")));
  return out;
}

bool layout_is_next(TextCursor& in, LayoutRule rule) {
  if (!in.next_is("{")) return false;
  if (rule == LayoutRule::kAnywhere) return true;
  const auto place = in.position();
  in.take("{");
  const char next = in.peek();
  in.seek(place);
  return next == ':' || (next >= '0' && next <= '9');
}

Type read_array(TextCursor& in, LayoutRule rule, std::vector<std::string>* tails) {
  in.skip_blanks();
  const auto place = in.position();
  const auto name = in.identifier("a type such as f32[2,3]");
  if (name == "token") {
    in.expect("[", "after token");
    in.expect("]", "after token[");
    if (layout_is_next(in, rule) && in.take("{")) read_layout(in, 0);
    if (tails != nullptr) tails->emplace_back();
    return Type::token();
  }
  const auto dtype = with_place(in, place, [&] { return dtype_from_name(name); });
  auto dims = read_dims(in);
  Layout layout;
  if (layout_is_next(in, rule) && in.take("{")) layout = read_layout(in, isize(dims));
  if (tails != nullptr) tails->push_back(std::move(layout.tail));
  return with_place(in, place, [&] { return Type::array(dtype, std::move(dims), std::move(layout.order)); });
}

Type read_nested(TextCursor& in, LayoutRule rule, int depth, std::vector<std::string>* tails) {
  if (!in.next_is("(")) return read_array(in, rule, tails);
  if (depth >= kDeepestNesting) in.fail_at(in.position(), fmt::format("types nested deeper than {}", kDeepestNesting));
  const auto place = in.position();
  in.take("(");
  std::vector<Type> elements;
  if (!in.take(")")) {
    do {
      elements.push_back(read_nested(in, LayoutRule::kAnywhere, depth + 1, tails));
    } while (in.take(","));
    in.expect(")", "after the types of a tuple");
  }
  return with_place(in, place, [&] { return Type::tuple(std::move(elements)); });
}

// The type with its layouts and their tails, which are in the order of its leaves.
std::string tailed_text(const Type& type, const std::vector<std::string>& tails, std::size_t& leaf) {
  if (type.is_tuple()) {
    std::vector<std::string> parts;
    for (const auto& element : type.elements()) parts.push_back(tailed_text(element, tails, leaf));
    return fmt::format("({})", fmt::join(parts, ", "));
  }
  std::string text = type.str(true);
  const std::string& tail = tails[leaf++];
  if (tail.empty()) return text;
  if (!text.ends_with('}')) return fmt::format("{}{{{}}}", text, tail);
  return text.insert(text.size() - 1, tail);
}

}  // namespace

Type read_type(TextCursor& in, LayoutRule rule) { return read_nested(in, rule, 0, nullptr); }

TailedType read_tailed_type(TextCursor& in) {
  TailedType out;
  std::vector<std::string> tails;
  out.type = read_nested(in, LayoutRule::kAnywhere, 0, &tails);
  std::size_t leaf = 0;
  if (std::any_of(tails.begin(), tails.end(), [](const std::string& tail) { return !tail.empty(); }))
    out.text = tailed_text(out.type, tails, leaf);
  return out;
}

bool type_is_next(TextCursor& in) {
  if (in.next_is("(")) return true;
  const auto word = in.peek_identifier();
  const auto end = in.position() + word.size();
  return !word.empty() && end < in.text().size() && in.text()[end] == '[';
}

}  // namespace tessera
