// SPDX-License-Identifier: Apache-2.0
// Reads HLO's literals: `1.5`, `{{1,2},{3,4}}`, `true`, `-inf`, `nan`, `-nan(0x1)`, `(lit, lit)`, `{...}`.
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "tessera/base/text.h"
#include "tessera/ir/text.h"
#include "text/text_reader.h"

namespace tessera {
namespace {

bool is_number_char(char c) {
  return (c >= '0' && c <= '9') || c == '.' || c == '+' || c == '-' || c == 'e' || c == 'E';
}

// Reads the characters of a number.
std::string_view number_text(TextCursor& in) {
  in.skip_blanks();
  const auto start = in.position();
  auto end = start;
  while (end < in.text().size() && is_number_char(in.text()[end])) ++end;
  if (end == start) in.fail_expected("a number");
  in.seek(end);
  return in.text().substr(start, end - start);
}

template <class T>
struct BitsOf;
template <>
struct BitsOf<Float16> {
  using Type = std::uint16_t;
  static constexpr std::uint64_t kExponent = 0x7c00, kQuiet = 0x0200, kSign = 0x8000, kPayload = 0x03ff;
};
template <>
struct BitsOf<BFloat16> {
  using Type = std::uint16_t;
  static constexpr std::uint64_t kExponent = 0x7f80, kQuiet = 0x0040, kSign = 0x8000, kPayload = 0x007f;
};
template <>
struct BitsOf<float> {
  using Type = std::uint32_t;
  static constexpr std::uint64_t kExponent = 0x7f800000, kQuiet = 0x00400000, kSign = 0x80000000, kPayload = 0x007fffff;
};
template <>
struct BitsOf<double> {
  using Type = std::uint64_t;
  static constexpr std::uint64_t kExponent = 0x7ff0000000000000, kQuiet = 0x0008000000000000,
                                 kSign = 0x8000000000000000, kPayload = 0x000fffffffffffff;
};

// Reads the rest after `nan`: an optional payload `(0x1)`.
template <class T>
T read_nan(TextCursor& in, bool negative) {
  using Bits = BitsOf<T>;
  std::uint64_t payload = Bits::kQuiet;
  if (in.take("(")) {
    if (!in.take("0x")) in.fail_expected("0x and the payload of a nan");
    const auto digits = in.identifier("the payload of a nan");
    const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), payload, 16);
    if (code != std::errc() || end != digits.data() + digits.size() || payload == 0 || payload > Bits::kPayload)
      in.fail_at(in.position() - digits.size(),
                 fmt::format("payload {} does not fit a nan of {}", digits, dtype_name(kDTypeOf<T>)));
    in.expect(")", "after the payload of a nan");
  }
  const auto bits = static_cast<typename Bits::Type>(Bits::kExponent | payload | (negative ? Bits::kSign : 0));
  return std::bit_cast<T>(bits);
}

template <class T>
T read_float(TextCursor& in) {
  in.skip_blanks();
  const auto place = in.position();
  const bool negative = in.take("-");
  if (in.take_word("inf"))
    return T(negative ? -std::numeric_limits<float>::infinity() : std::numeric_limits<float>::infinity());
  if (in.take_word("nan")) return read_nan<T>(in, negative);
  in.seek(place);
  auto text = number_text(in);
  if (text.starts_with('+')) text.remove_prefix(1);
  // f32 is rounded once, from the decimal digits; 16-bit types from the nearest double.
  using Wide = std::conditional_t<std::is_same_v<T, float>, float, double>;
  Wide value{};
  auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code == std::errc::result_out_of_range) {
    // strtod distinguishes numbers that are too small (a subnormal or zero) from those that are too large.
    const std::string copy(text);
    value = static_cast<Wide>(std::is_same_v<Wide, float> ? std::strtof(copy.c_str(), nullptr)
                                                          : std::strtod(copy.c_str(), nullptr));
  }
  if (code == std::errc::invalid_argument || end != text.data() + text.size())
    in.fail_at(place, fmt::format("\"{}\" is not a number", text));
  const T out = T(value);
  if (!std::isfinite(static_cast<double>(out)))
    in.fail_at(place, fmt::format("{} does not fit {}", text, dtype_name(kDTypeOf<T>)));
  return out;
}

template <class T>
T read_integer(TextCursor& in) {
  in.skip_blanks();
  const auto place = in.position();
  if (in.take_word("true")) return 1;
  if (in.take_word("false")) return 0;
  const auto text = number_text(in);
  T value{};
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool negative_unsigned = std::is_unsigned_v<T> && text.starts_with('-');
  if (code == std::errc::result_out_of_range || negative_unsigned)
    in.fail_at(place, fmt::format("{} does not fit {}", text, dtype_name(kDTypeOf<T>)));
  if (code != std::errc() || end != text.data() + text.size())
    in.fail_at(place, fmt::format("\"{}\" is not a number of {}", text, dtype_name(kDTypeOf<T>)));
  return value;
}

bool read_bool(TextCursor& in) {
  in.skip_blanks();
  const auto place = in.position();
  const auto word = in.identifier("true or false");
  if (word == "true" || word == "1") return true;
  if (word == "false" || word == "0") return false;
  std::int64_t number = 0;  // any number except 0 is true
  const auto [end, code] = std::from_chars(word.data(), word.data() + word.size(), number);
  if (code != std::errc() || end != word.data() + word.size())
    in.fail_at(place, fmt::format("expected true or false, got \"{}\"", word));
  return number != 0;
}

// Reads `(re, im)` or a single real number.
template <class T>
T read_complex(TextCursor& in) {
  using Part = typename T::value_type;
  if (!in.take("(")) return T(read_float<Part>(in));
  const auto real = read_float<Part>(in);
  in.expect(",", "between the parts of a complex number");
  const auto imaginary = read_float<Part>(in);
  in.expect(")", "after the parts of a complex number");
  return T(real, imaginary);
}

template <class T>
T read_element(TextCursor& in) {
  if constexpr (is_complex(kDTypeOf<T>))
    return read_complex<T>(in);
  else if constexpr (kDTypeOf<T> == DType::kPred)
    return read_bool(in);
  else if constexpr (is_float(kDTypeOf<T>))
    return read_float<T>(in);
  else
    return read_integer<T>(in);
}

// Calls read() for each element, inside the braces of all dims.
template <class Read>
void read_dim(TextCursor& in, const Dims& dims, std::size_t dim, const Read& read) {
  if (dim == dims.size()) return read();
  const auto place = (in.skip_blanks(), in.position());
  if (!in.take("{")) in.fail_expected(fmt::format("\"{{\" before the elements of dim {}", dim));
  std::int64_t count = 0;
  while (!in.next_is("}")) {
    if (count > 0) in.expect(",", "between elements");
    const auto after_comma = in.position();
    if (in.next_is("}")) break;  // `{1,2,}`
    in.seek(after_comma);
    if (count == dims[dim])
      in.fail_at(in.position(), fmt::format("dim {} has more than its {} elements", dim, dims[dim]));
    ++count;
    read_dim(in, dims, dim + 1, read);
  }
  if (count != dims[dim])
    in.fail_at(place, fmt::format("dim {} has {} elements, its size is {}", dim, count, dims[dim]));
  in.expect("}", "after the elements");
}

Literal read_array(TextCursor& in, const Type& type) {
  const auto place = (in.skip_blanks(), in.position());
  // Every element takes at least one character, which limits the number of elements of a text.
  const auto room = static_cast<std::int64_t>(in.text().size() - place);
  if (type.element_count() > room)
    in.fail_at(place, fmt::format("the literal does not have the elements of {}", type.str()));
  Literal out(type);
  if (type.element_count() == 0 && in.take("{}")) return out;
  std::size_t next = 0;
  if (is_narrow(type.dtype())) {
    const auto data = out.mutable_bytes();
    read_dim(in, type.dims(), 0,
             [&] { data[next++] = static_cast<std::byte>(narrow_bits(type.dtype(), read_float<double>(in))); });
    return out;
  }
  visit_any_dtype(type.dtype(), [&]<class T>() {
    const auto data = out.mutable_data<T>();
    read_dim(in, type.dims(), 0, [&] { data[next++] = read_element<T>(in); });
  });
  return out;
}

}  // namespace

Literal read_literal(TextCursor& in, const Type& type) {
  if (type.is_token()) in.fail_expected("no literal: token[] has none");
  if (in.take("{...}")) return Literal::elided(type, "?");  // gets its origin after the complete module has been read
  if (type.is_array()) return read_array(in, type);
  std::vector<Literal> elements;
  in.expect("(", "before the literals of a tuple");
  for (const auto& element : type.elements()) {
    if (!elements.empty()) in.expect(",", "between the literals of a tuple");
    elements.push_back(read_literal(in, element));
  }
  in.expect(")", "after the literals of a tuple");
  return Literal::tuple(std::move(elements));
}

Literal parse_literal(std::string_view text, const Type& type) {
  TextCursor in(text);
  try {
    Literal out = read_literal(in, type);
    if (!in.at_end()) in.fail_expected("the end of the literal");
    return out;
  } catch (Error& error) {
    throw error.prefix("literal: ");
  }
}

}  // namespace tessera
