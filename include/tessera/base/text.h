// SPDX-License-Identifier: Apache-2.0
// The helpers of text_detail.h without `detail::`, for the sources of Tessera. The headers that users of tensors and
// modules include do not include this one, because the names are short.
#pragma once

#include "tessera/base/text_detail.h"

namespace tessera {

using detail::at;
using detail::bytes_text;
using detail::ceil_div;
using detail::class_name_of;
using detail::escape_controls;
using detail::format_bytes;
using detail::hash_bytes;
using detail::hash_mix;
using detail::hash_text;
using detail::HashText;
using detail::is_utf8;
using detail::isize;
using detail::printable;
using detail::product;
using detail::quote;
using detail::split;
using detail::trim;
using detail::unquote;

}  // namespace tessera
