// SPDX-License-Identifier: Apache-2.0
// Attributes of an instruction. Each op has a typed struct, whose function `fields` lists the fields once. Printing,
// parsing, comparing and hashing use this list.
//
//   struct DotAttributes {
//     Dims lhs_contracting_dims, rhs_contracting_dims;
//     template <class Self, class Visit> static void fields(Self& self, Visit&& visit) {
//       visit("lhs_contracting_dims", self.lhs_contracting_dims, Presence::kAlways);
//       visit("rhs_contracting_dims", self.rhs_contracting_dims, Presence::kAlways);
//     }
//     friend bool operator==(const DotAttributes&, const DotAttributes&) = default;
//   };
//
// The type of a field needs `std::string field_text(const T&)` and `void parse_field(std::string_view, T&)`, found by
// ADL or among those below. The text is the text after `name=`. Hashing uses the text unless field_hash() is
// overloaded.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/base/text_detail.h"
#include "tessera/tensor/literal.h"

namespace tessera {

/// When a field is printed: always, or only if it differs from its value in a default-constructed struct. A kRequired
/// field is always printed, and a text without it is an error.
enum class Presence : std::uint8_t { kRequired, kAlways, kIfNotDefault };

/// `name=text` as in the HLO text.
struct TextAttribute {
  std::string name;
  std::string text;
  friend bool operator==(const TextAttribute&, const TextAttribute&) = default;
};

/// The attributes of one instruction while it is read. The row of its op takes the attributes that it defines. The
/// other attributes are kept verbatim.
class AttributeReader {
 public:
  explicit AttributeReader(std::vector<TextAttribute> all) : all_(std::move(all)) {}
  /// Takes an attribute and returns the text after `name=`; null if it is absent. Valid as long as the reader.
  const std::string* take(std::string_view name);
  /// The names that take() was called with: the names that the row defines.
  [[nodiscard]] const std::vector<std::string>& asked() const { return asked_; }
  /// The attributes that were not taken, in order.
  [[nodiscard]] std::vector<TextAttribute> rest() const;
  /// The text between the parentheses of a row with Payload::kLiteral; null for other rows.
  const Literal* literal = nullptr;

 private:
  std::vector<TextAttribute> all_;
  std::vector<bool> taken_;
  std::vector<std::string> asked_;  // only while there are attributes to take
};

/// The frontend attribute with the origins, by leaf, of a constant whose elements the text omits (Literal::elided). It
/// is printed only if an origin is not COMPUTATION/NAME of the instruction itself, for example in a copy that a pass
/// made.
inline constexpr std::string_view kElidedKey = "tessera.elided";

class AttributesBase {
 public:
  virtual ~AttributesBase() = default;
  [[nodiscard]] virtual std::vector<TextAttribute> texts() const = 0;
  [[nodiscard]] virtual bool equals(const AttributesBase& other) const = 0;
  [[nodiscard]] virtual std::size_t hash() const = 0;
};
/// Null if the op has no attributes.
using Attributes = std::shared_ptr<const AttributesBase>;

std::string field_text(std::int64_t value);
std::string field_text(bool value);
std::string field_text(double value);              // the shortest text that reads back as this value
std::string field_text(const Dims& value);         // {1,2}
std::string field_text(const std::string& value);  // "quoted"
std::string field_text(const Literal& value);
std::string field_text(const std::vector<bool>& value);  // {true,false}
void parse_field(std::string_view text, std::int64_t& value);
void parse_field(std::string_view text, int& value);
void parse_field(std::string_view text, double& value);
void parse_field(std::string_view text, bool& value);  // true false 1 0
void parse_field(std::string_view text, Dims& value);
void parse_field(std::string_view text, std::string& value);
void parse_field(std::string_view text, std::vector<bool>& value);

/// The hash of a field: the hash of its text. Overloads for common and large types do not use the text.
template <class T>
std::size_t field_hash(const T& value) {
  return detail::hash_text(field_text(value));
}
inline std::size_t field_hash(std::int64_t value) { return static_cast<std::size_t>(value); }
inline std::size_t field_hash(bool value) { return value ? 1 : 0; }
std::size_t field_hash(const Dims& value);
std::size_t field_hash(const Literal& value);

/// A row of a table of the values of an enum and their words. enum_text() returns the word of a value, and enum_value()
/// the value of a word. Error, with the nearest word, if there is no such word.
template <class E>
struct EnumWord {
  E value;
  std::string_view word;
};
template <class E, std::size_t N>
std::string enum_text(const EnumWord<E> (&words)[N], E value) {
  for (const auto& row : words)
    if (row.value == value) return std::string(row.word);
  throw InternalError("enum value without a word");
}
template <class E, std::size_t N>
E enum_value(const EnumWord<E> (&words)[N], std::string_view text) {
  std::vector<std::string> known;
  for (const auto& row : words) {
    if (row.word == text) return row.value;
    known.emplace_back(row.word);
  }
  fail("unknown value {}{}", text, suggest_name(text, known));
}

template <class T>
class AttributesOf final : public AttributesBase {
 public:
  explicit AttributesOf(T v) : value(std::move(v)) {}
  const T value;

  [[nodiscard]] std::vector<TextAttribute> texts() const override {
    std::vector<std::string> standard;  // the text of each field of a default struct
    const T fresh{};
    T::fields(fresh, [&](std::string_view, const auto& field, Presence) { standard.push_back(field_text(field)); });
    std::vector<TextAttribute> out;
    std::size_t next = 0;
    T::fields(value, [&](std::string_view name, const auto& field, Presence presence) {
      std::string text = field_text(field);
      const bool is_default = text == standard[next++];
      if (presence != Presence::kIfNotDefault || !is_default) out.push_back({std::string(name), std::move(text)});
    });
    return out;
  }
  [[nodiscard]] bool equals(const AttributesBase& other) const override {
    const auto* same = dynamic_cast<const AttributesOf*>(&other);
    return same != nullptr && same->value == value;
  }
  [[nodiscard]] std::size_t hash() const override {
    std::size_t seed = 17;
    T::fields(value,
              [&](std::string_view, const auto& field, Presence) { seed = detail::hash_mix(seed, field_hash(field)); });
    return seed;
  }
};

/// Wraps a struct of attributes.
template <class T>
Attributes make_attributes(T value) {
  return std::make_shared<const AttributesOf<T>>(std::move(value));
}
/// Returns the struct of type T. InternalError if the attributes have another type.
template <class T>
const T& attributes_as(const Attributes& attributes) {
  const auto* typed = dynamic_cast<const AttributesOf<T>*>(attributes.get());
  ensure(typed != nullptr, "attributes of another type than requested");
  return typed->value;
}
/// Returns the struct of type T; null if the attributes have another type.
template <class T>
const T* attributes_if(const Attributes& attributes) {
  const auto* typed = dynamic_cast<const AttributesOf<T>*>(attributes.get());
  return typed != nullptr ? &typed->value : nullptr;
}
/// Reads the fields of T. Errors, with the name of the field: a required field is missing; a text is not valid.
template <class T>
Attributes parse_attributes(AttributeReader& reader) {
  T value{};
  T::fields(value, [&](std::string_view name, auto& field, Presence presence) {
    const std::string* text = reader.take(name);
    require(text != nullptr || presence != Presence::kRequired, "attribute {} is missing", name);
    if (text == nullptr) return;
    try {
      parse_field(*text, field);
    } catch (Error& error) {
      throw error.prefix(fmt::format("attribute {}: ", name));
    }
  });
  return make_attributes(std::move(value));
}
/// True if both are null, or have equal values of one struct.
bool equal(const Attributes& a, const Attributes& b);

}  // namespace tessera
