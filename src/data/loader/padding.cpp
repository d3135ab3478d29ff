// SPDX-License-Identifier: Apache-2.0
#include "tessera/data/padding.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <functional>
#include <span>

#include "random_stream.h"
#include "tessera/base/error.h"
#include "tessera/base/text.h"

namespace tessera::data {
namespace {

constexpr std::array<std::string_view, 6> kPadded = {"input_ids",      "labels",       "attention_mask",
                                                     "token_type_ids", "position_ids", "segment_ids"};

bool is_padded(std::string_view name) { return std::find(kPadded.begin(), kPadded.end(), name) != kPadded.end(); }

std::int64_t length_of(const Arrays& sample) {
  const Literal& ids = sample.at("input_ids");
  require(ids.type().ndim() == 1 && is_integer(ids.type().dtype()), "input_ids must be one row of integers, got {}",
          ids.type());
  return ids.type().dim(0);
}

// Returns `row` with dim 0 shortened or extended to `length`.
Literal padded_row(const Literal& row, std::int64_t length, std::int64_t fill) {
  const Type& type = row.type();
  Dims dims = type.dims();
  dims.at(0) = length;
  const Dims origin(dims.size());
  Literal out = take_box({row, origin}, origin, dims);
  const Literal value = scalar_of(type.dtype(), static_cast<double>(fill));
  const auto one = value.bytes();
  const auto bytes = out.mutable_bytes();
  for (std::size_t at = std::min(row.bytes().size(), bytes.size()); at < bytes.size(); at += one.size())
    std::memcpy(bytes.data() + at, one.data(), one.size());
  return out;
}

// Returns the arrays of a sample with all rows of `length`.
Arrays padded_sample(const Arrays& sample, std::int64_t length, const PaddingOptions& options) {
  const std::int64_t own = std::min(length_of(sample), length);
  Arrays all = sample;
  if (all.find("labels") == nullptr) all.set("labels", all.at("input_ids"));
  if (all.find("attention_mask") == nullptr)
    all.set("attention_mask",
            Literal::from<std::int32_t>({own}, std::vector<std::int32_t>(static_cast<std::size_t>(own), 1)));
  Arrays out;
  for (const auto& [name, value] : all.entries()) {
    const std::int64_t fill = name == "input_ids" ? options.pad_token_id : name == "labels" ? kIgnoredLabel : 0;
    const bool is_label_of_sample = name == "labels" && value.type().ndim() == 0;
    if (is_padded(name) && !is_label_of_sample)
      require(value.type().ndim() >= 1, "{} must have the dims of input_ids, got {}", name, value.type());
    out.set(name, is_padded(name) && !is_label_of_sample ? padded_row(value, length, fill) : value);
  }
  return out;
}

void check_buckets(const PaddingOptions& options) {
  const std::vector<std::int64_t>& buckets = options.length_buckets;
  if (buckets.empty()) return;
  const bool increases = std::adjacent_find(buckets.begin(), buckets.end(), std::greater_equal<>()) == buckets.end();
  require(buckets.front() >= 1 && increases, "length_buckets must be at least 1 and increase, got {}",
          fmt::join(buckets, ","));
  require(options.padding == "longest" && options.pad_to_multiple_of == 1,
          "length_buckets need padding=\"longest\" without pad_to_multiple_of");
  require(options.max_length == 0 || buckets.back() <= options.max_length,
          "length_buckets has {}, more than max_length {}", buckets.back(), options.max_length);
}

}  // namespace

PaddingCollator::PaddingCollator(PaddingOptions options) : options_(std::move(options)) {
  const bool is_known = options_.padding == "longest" || options_.padding == "max_length";
  require(is_known, "padding must be \"longest\" or \"max_length\", got \"{}\"", options_.padding);
  require(options_.max_length >= 0, "max_length must not be negative, got {}", options_.max_length);
  require(options_.max_length > 0 || (options_.padding == "longest" && !options_.truncation),
          "padding=\"max_length\" and truncation need max_length");
  require(options_.pad_to_multiple_of >= 1, "pad_to_multiple_of must be at least 1, got {}",
          options_.pad_to_multiple_of);
  check_buckets(options_);
  std::vector<std::int64_t>& buckets = options_.length_buckets;
  if (!buckets.empty() && buckets.back() < options_.max_length) buckets.push_back(options_.max_length);
}

std::int64_t PaddingCollator::length_of_batch(std::int64_t longest) const {
  std::int64_t length = options_.padding == "max_length" ? options_.max_length : longest;
  if (options_.max_length > 0) length = std::min(length, options_.max_length);
  const std::vector<std::int64_t>& buckets = options_.length_buckets;
  if (buckets.empty()) return ceil_div(length, options_.pad_to_multiple_of) * options_.pad_to_multiple_of;
  const auto bucket = std::lower_bound(buckets.begin(), buckets.end(), length);
  require(bucket != buckets.end(), "a sample has {} tokens, more than the last of length_buckets, {}", length,
          buckets.back());
  return *bucket;
}

Arrays PaddingCollator::collate(const std::vector<Arrays>& samples, const RowsToMake& request) const {
  const std::int64_t length = length_of_batch(request.longest);
  std::vector<Arrays> rows;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const std::int64_t own = length_of(samples[i]);
    require(options_.max_length == 0 || own <= options_.max_length || options_.truncation,
            "sample {} has {} tokens, more than max_length {}; allow truncation to shorten it",
            request.samples.empty() ? -1 : request.samples[i], own, options_.max_length);
    rows.push_back(padded_sample(samples[i], length, options_));
  }
  return StackCollator().collate(rows, request);
}

std::vector<std::int64_t> read_length_buckets(std::string_view text) {
  std::vector<std::int64_t> out;
  for (const std::string& word : split(text, ',')) {
    std::int64_t length = 0;
    const auto [end, code] = std::from_chars(word.data(), word.data() + word.size(), length);
    require(code == std::errc() && end == word.data() + word.size(),
            "\"{}\" must be a list of lengths such as 64,128,256, got \"{}\"", text, word);
    require(length > (out.empty() ? 0 : out.back()), "the lengths must be at least 1 and increase, got \"{}\"", text);
    out.push_back(length);
  }
  return out;
}

MlmCollator::MlmCollator(PaddingOptions padding, MlmOptions options)
    : PaddingCollator(std::move(padding)), mlm_(std::move(options)) {
  require(mlm_.mlm_probability >= 0 && mlm_.mlm_probability <= 1, "mlm_probability must be in [0, 1], got {}",
          mlm_.mlm_probability);
  require(mlm_.mask_token_id >= 0 && mlm_.mask_token_id < mlm_.vocab_size,
          "mask_token_id {} is outside the vocabulary of {} ids", mlm_.mask_token_id, mlm_.vocab_size);
}

namespace {

// Chooses and replaces tokens of one row. `mask` is 0 for padding.
void mask_row(std::span<std::int32_t> ids, std::span<std::int32_t> labels, std::span<const std::int32_t> mask,
              const MlmOptions& options, RandomStream random) {
  constexpr double kMask = 0.8;
  constexpr double kRandom = 0.9;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    // Every token draws the same number of times, so a choice does not depend on the tokens before.
    const bool is_drawn = random.fraction() < options.mlm_probability;
    const double kind = random.fraction();
    const auto other = static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(options.vocab_size)));
    const bool is_special =
        std::find(options.special_ids.begin(), options.special_ids.end(), ids[i]) != options.special_ids.end();
    labels[i] = kIgnoredLabel;
    if (!is_drawn || is_special || mask[i] == 0) continue;
    labels[i] = ids[i];
    if (kind < kRandom) ids[i] = kind < kMask ? options.mask_token_id : other;
  }
}

}  // namespace

Arrays MlmCollator::collate(const std::vector<Arrays>& samples, const RowsToMake& request) const {
  Arrays out = PaddingCollator::collate(samples, request);
  Literal ids = out.at("input_ids");
  Literal labels(ids.type());
  const Literal mask = out.at("attention_mask");
  require(ids.type().dtype() == DType::kS32 && mask.type() == ids.type(),
          "masking needs s32 input_ids and attention_mask, got {} and {}", ids.type(), mask.type());
  const auto length = static_cast<std::size_t>(ids.type().dim(1));
  const auto all_ids = ids.mutable_data<std::int32_t>();
  const auto all_labels = labels.mutable_data<std::int32_t>();
  std::fill(all_labels.begin(), all_labels.end(), kIgnoredLabel);
  const std::uint64_t seed = hash_mix(request.seed, static_cast<std::size_t>(request.epoch));
  for (std::size_t row = 0; row < request.samples.size(); ++row)
    mask_row(all_ids.subspan(row * length, length), all_labels.subspan(row * length, length),
             mask.data<std::int32_t>().subspan(row * length, length), mlm_, RandomStream(seed, request.samples[row]));
  out.set("input_ids", std::move(ids));
  out.set("labels", std::move(labels));
  return out;
}

}  // namespace tessera::data
