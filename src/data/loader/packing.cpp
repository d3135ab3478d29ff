// SPDX-License-Identifier: Apache-2.0
#include "tessera/data/packing.h"

#include <algorithm>

#include "tessera/base/error.h"
#include "tessera/base/text.h"
#include "tessera/data/batches.h"

namespace tessera::data {

Arrays DocumentSource::get(std::int64_t i) const {
  const Interval range = file_->document(i);
  Literal tokens(Type::array(DType::kS32, {range.size()}));
  file_->read(range.start, tokens.mutable_data<std::int32_t>());
  return {{"input_ids", std::move(tokens)}};
}

PackedSource::PackedSource(std::shared_ptr<const Source> documents, PackingOptions options)
    : documents_(std::move(documents)), options_(options) {
  require(options.length >= 2, "a packed row must have at least 2 tokens, got {}", options.length);
  std::int64_t used = options.length;  // of the last row
  for (std::int64_t document = 0; document < documents_->size(); ++document) {
    const std::int64_t size = documents_->length(document);
    require(size >= 1, "document {} has no tokens", document);
    for (std::int64_t token = 0; token < size; token += options.length) {
      const std::int64_t part = std::min(options.length, size - token);
      if (used + part > options.length) {
        rows_.push_back({document, token});
        used = 0;
      }
      used += part;
    }
  }
  rows_.push_back({documents_->size(), 0});
}

Arrays PackedSource::get(std::int64_t i) const {
  const auto row = [&](std::int32_t value) {
    return std::vector<std::int32_t>(static_cast<std::size_t>(options_.length), value);
  };
  auto ids = row(options_.pad_token_id);
  auto labels = row(kIgnoredLabel);
  auto segments = row(0);
  auto positions = row(0);
  const Place end = at(rows_, i + 1);
  std::size_t next = 0;
  std::int32_t segment = 0;
  for (Place place = at(rows_, i); place.document < end.document || place.token < end.token;) {
    const Literal document = documents_->get(place.document).at("input_ids");
    const auto tokens = document.data<std::int32_t>();
    const std::int64_t size = documents_->length(place.document);
    require(static_cast<std::int64_t>(tokens.size()) == size,
            "document {} has {} tokens, but length() of its source returns {}", place.document, tokens.size(), size);
    const std::int64_t limit = std::min(place.token + options_.length, size);
    ++segment;
    for (std::int64_t token = place.token; token < limit; ++token, ++next) {
      ids[next] = at(tokens, token);
      if (token > 0) labels[next] = ids[next];
      segments[next] = segment;
      positions[next] = static_cast<std::int32_t>(token - place.token);
    }
    place = limit == size ? Place{place.document + 1, 0} : Place{place.document, limit};
  }
  const Dims dims = {options_.length};
  return {{"input_ids", Literal::from(dims, ids)},
          {"labels", Literal::from(dims, labels)},
          {"segment_ids", Literal::from(dims, segments)},
          {"position_ids", Literal::from(dims, positions)}};
}

}  // namespace tessera::data
