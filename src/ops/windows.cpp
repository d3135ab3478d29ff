// SPDX-License-Identifier: Apache-2.0
// Reads and writes the texts of windows and of a convolution's dims.
#include "tessera/ops/windows.h"

#include <fmt/format.h>

#include <algorithm>

#include "tessera/base/checked.h"
#include "window_support.h"

namespace tessera {

std::int64_t WindowDim::count(std::int64_t n) const {
  const std::int64_t positions = (n == 0 ? 0 : (n - 1) * base_dilation + 1) + low + high;
  return positions < extent() ? 0 : (positions - extent()) / stride + 1;
}

WindowDim::Taps WindowDim::taps(std::int64_t o, std::int64_t n) const {
  const std::int64_t start = o * stride - low;
  const std::int64_t last = (n - 1) * base_dilation;
  if (n == 0 || last < start) return {};
  return {start >= 0 ? 0 : ceil_div(-start, dilation), std::min(size, (last - start) / dilation + 1)};
}

std::int64_t WindowDim::element_at(std::int64_t position, std::int64_t n) const {
  if (position < 0 || position % base_dilation != 0) return -1;
  const std::int64_t element = position / base_dilation;
  return element < n ? element : -1;
}

// ---- window={size=3x3 stride=2x2 pad=0_1x0_1} -----------------------------------------------------------------------

namespace {

struct WindowField {
  std::string_view name;
  std::int64_t WindowDim::*value;
  std::int64_t otherwise;
};
constexpr WindowField kNumbers[] = {{"size", &WindowDim::size, 0},
                                    {"stride", &WindowDim::stride, 1},
                                    {"lhs_dilate", &WindowDim::base_dilation, 1},
                                    {"rhs_dilate", &WindowDim::dilation, 1}};

// One part per dim; the first field that is read determines their number.
std::vector<std::string> parts_of(std::string_view text, std::vector<WindowDim>& dims, std::string_view name) {
  auto parts = split(text, 'x');
  if (dims.empty()) dims.resize(parts.size());
  require(parts.size() == dims.size(), "{}={} has {} entries, the window has {} dims", name, text, parts.size(),
          dims.size());
  return parts;
}

void read_padding(std::string_view text, std::vector<WindowDim>& dims) {
  const auto parts = parts_of(text, dims, "pad");
  for (std::size_t d = 0; d < parts.size(); ++d) {
    const auto ends = split(parts[d], '_');
    require(ends.size() == 2, "expected pad=low_high, got {}", parts[d]);
    parse_field(ends[0], dims[d].low);
    parse_field(ends[1], dims[d].high);
  }
}

void read_field(std::string_view name, std::string_view text, std::vector<WindowDim>& dims) {
  if (name == "pad") return read_padding(text, dims);
  const auto parts = parts_of(text, dims, name);
  if (name == "rhs_reversal") {
    for (std::size_t d = 0; d < parts.size(); ++d) parse_field(parts[d], dims[d].reversed);
    return;
  }
  for (const WindowField& field : kNumbers) {
    if (field.name != name) continue;
    for (std::size_t d = 0; d < parts.size(); ++d) parse_field(parts[d], dims[d].*field.value);
    return;
  }
  fail("a window has no \"{}\"; it has size, stride, pad, lhs_dilate, rhs_dilate, rhs_reversal", name);
}

}  // namespace

std::string field_text(const WindowDims& value) {
  std::vector<std::string> words;
  const auto add = [&](std::string_view name, bool shown, const auto& text_of) {
    if (!shown) return;
    std::vector<std::string> parts;
    for (const WindowDim& dim : value.dims) parts.push_back(text_of(dim));
    words.push_back(fmt::format("{}={}", name, fmt::join(parts, "x")));
  };
  const auto any = [&](const auto& is) { return std::any_of(value.dims.begin(), value.dims.end(), is); };
  const auto number = [&](const WindowField& field) {
    add(field.name, any([&](const WindowDim& d) { return d.*field.value != field.otherwise; }) || field.name == "size",
        [&](const WindowDim& d) { return std::to_string(d.*field.value); });
  };
  if (value.dims.empty()) return "{}";
  number(kNumbers[0]);
  number(kNumbers[1]);
  add("pad", any([](const WindowDim& d) { return d.low != 0 || d.high != 0; }),
      [](const WindowDim& d) { return fmt::format("{}_{}", d.low, d.high); });
  number(kNumbers[2]);
  number(kNumbers[3]);
  add("rhs_reversal", any([](const WindowDim& d) { return d.reversed; }),
      [](const WindowDim& d) { return std::string(d.reversed ? "1" : "0"); });
  return fmt::format("{{{}}}", fmt::join(words, " "));
}

void parse_field(std::string_view text, WindowDims& value) {
  text = trim(text);
  require(text.size() >= 2 && text.front() == '{' && text.back() == '}', "expected {{size=.. stride=.. ..}}, got {}",
          text);
  value.dims.clear();
  for (const auto& word : split(trim(text.substr(1, text.size() - 2)), ' ')) {
    if (trim(word).empty()) continue;
    const auto sides = split(trim(word), '=');
    require(sides.size() == 2, "expected name=value within window, got {}", word);
    read_field(trim(sides[0]), trim(sides[1]), value.dims);
  }
}

// ---- dim_labels=b01f_01io->b01f -------------------------------------------------------------------------------------

namespace {

std::string side_text(std::int64_t first, char first_label, std::int64_t second, char second_label,
                      const Dims& spatial) {
  std::string out(spatial.size() + 2, '?');
  const auto put = [&](std::int64_t dim, char label) {
    if (dim >= 0 && dim < isize(out)) at(out, dim) = label;
  };
  put(first, first_label);
  put(second, second_label);
  for (int i = 0; i < isize(spatial); ++i) put(at(spatial, i), static_cast<char>('0' + i));
  return out;
}

void read_side(std::string_view text, std::int64_t& first, char first_label, std::int64_t& second, char second_label,
               Dims& spatial) {
  require(text.size() >= 2, "\"{}\" must name at least {} and {}", text, first_label, second_label);
  const auto find = [&](char label) {
    const auto found = text.find(label);
    require(found != std::string_view::npos && text.find(label, found + 1) == std::string_view::npos,
            "\"{}\" must name {} once", text, label);
    return static_cast<std::int64_t>(found);
  };
  first = find(first_label);
  second = find(second_label);
  spatial.clear();
  for (std::size_t i = 0; i + 2 < text.size(); ++i) spatial.push_back(find(static_cast<char>('0' + i)));
}

}  // namespace

std::string field_text(const ConvolutionLabels& value) {
  return side_text(value.lhs_batch, 'b', value.lhs_feature, 'f', value.lhs_spatial) + "_" +
         side_text(value.rhs_input, 'i', value.rhs_output, 'o', value.rhs_spatial) + "->" +
         side_text(value.result_batch, 'b', value.result_feature, 'f', value.result_spatial);
}

void parse_field(std::string_view text, ConvolutionLabels& value) {
  text = trim(text);
  const auto arrow = text.find("->");
  const auto middle = text.find('_');
  require(arrow != std::string_view::npos && middle != std::string_view::npos && middle < arrow,
          "expected dim_labels such as b01f_01io->b01f, got {}", text);
  read_side(text.substr(0, middle), value.lhs_batch, 'b', value.lhs_feature, 'f', value.lhs_spatial);
  read_side(text.substr(middle + 1, arrow - middle - 1), value.rhs_input, 'i', value.rhs_output, 'o',
            value.rhs_spatial);
  read_side(text.substr(arrow + 2), value.result_batch, 'b', value.result_feature, 'f', value.result_spatial);
  require(
      value.lhs_spatial.size() == value.rhs_spatial.size() && value.lhs_spatial.size() == value.result_spatial.size(),
      "{} names different numbers of dims for lhs, rhs and result", text);
}

// ---- shared by the rows ---------------------------------------------------------------------------------------------

namespace rows {

bool is_trivial(const WindowDim& w) { return w == WindowDim{.reversed = w.reversed}; }

void check_window(const WindowDims& window, std::int64_t ndim) {
  constexpr std::int64_t kLargest = std::int64_t{1} << 31;  // the product of two is still exact
  require(
      isize(window.dims) == ndim, "window={} has {} dims, {} are needed", [&] { return field_text(window); },
      window.dims.size(), ndim);
  for (int d = 0; d < isize(window.dims); ++d) {
    const WindowDim& w = at(window.dims, d);
    require(w.size >= 0, "window dim {}: size {} is negative", d, w.size);
    for (const auto number : {w.size, w.stride, w.low, w.high, w.base_dilation, w.dilation})
      require(number <= kLargest && number >= -kLargest, "window dim {}: {} is out of range", d, number);
    require(w.stride >= 1, "window dim {}: stride {} must be at least 1", d, w.stride);
    require(w.base_dilation >= 1 && w.dilation >= 1, "window dim {}: dilations {} and {} must be at least 1", d,
            w.base_dilation, w.dilation);
  }
}

std::int64_t window_count(const WindowDim& w, std::int64_t n, int d) {
  const Checked positions = (n == 0 ? Checked(0) : (Checked(n) - 1) * w.base_dilation + 1) + w.low + w.high;
  require(positions.fits(),
          "dim {}: {} elements, dilated by {} and padded by {}_{}, are more positions than 64 bits can count", d, n,
          w.base_dilation, w.low, w.high);
  return w.count(n);
}

std::vector<WindowDim> window_dims(const OpView& view) {
  const auto& given = view.as<WindowAttributes>().window.dims;
  return given.empty() ? std::vector<WindowDim>(view.operands[0].dims().size()) : given;
}

}  // namespace rows
}  // namespace tessera
