// SPDX-License-Identifier: Apache-2.0
#include "tessera/tensor/safetensors.h"

#include <algorithm>
#include <array>
#include <boost/interprocess/file_mapping.hpp>
#include <boost/interprocess/mapped_region.hpp>
#include <boost/json/serialize.hpp>
#include <cstring>
#include <filesystem>
#include <set>

#include "tessera/base/error.h"
#include "tessera/base/files.h"
#include "tessera/base/json.h"
#include "tessera/base/text.h"

namespace tessera {
namespace {

namespace json = boost::json;

constexpr std::pair<std::string_view, DType> kTypes[] = {
    {"BOOL", DType::kPred},        {"I8", DType::kS8},   {"I16", DType::kS16},          {"I32", DType::kS32},
    {"I64", DType::kS64},          {"U8", DType::kU8},   {"U16", DType::kU16},          {"U32", DType::kU32},
    {"U64", DType::kU64},          {"F16", DType::kF16}, {"BF16", DType::kBF16},        {"F32", DType::kF32},
    {"F64", DType::kF64},          {"C64", DType::kC64}, {"F8_E4M3", DType::kF8E4M3FN}, {"F8_E5M2", DType::kF8E5M2},
    {"F8_E8M0", DType::kF8E8M0FNU}};

DType type_of(const std::string& word) {
  std::vector<std::string> known;
  for (const auto& [name, type] : kTypes) {
    if (name == word) return type;
    known.emplace_back(name);
  }
  fail("unknown dtype {}{}", escape_controls(word), suggest_name(word, known));
}
std::string_view word_of(DType dtype) {
  for (const auto& [name, type] : kTypes)
    if (type == dtype) return name;
  fail("safetensors files have no {} elements", dtype_name(dtype));
}

using Entry = SafetensorsEntry;

std::uint64_t natural(const json::value& value, std::string_view what) {
  const bool is_natural = value.is_uint64() || (value.is_int64() && value.get_int64() >= 0);
  require(is_natural, "{} must be a number that is not negative", what);
  return value.to_number<std::uint64_t>();
}

Entry read_entry(std::string_view name, const json::value& value, std::uint64_t data_bytes) {
  const json::value* word = find_member(value, "dtype");
  const json::value* shape = find_member(value, "shape");
  const json::value* offsets = find_member(value, "data_offsets");
  require(word != nullptr && shape != nullptr && offsets != nullptr, "needs dtype, shape and data_offsets");
  require(word->is_string() && shape->is_array(), "dtype must be a string, shape a list");
  require(offsets->is_array() && offsets->get_array().size() == 2, "data_offsets must be a pair");
  Entry entry{std::string(name), {}, natural(offsets->at(0), "data_offsets"), natural(offsets->at(1), "data_offsets")};
  const DType dtype = type_of(std::string(word->get_string()));
  require(entry.begin <= entry.end, "data_offsets [{}, {}] are in the wrong order", entry.begin, entry.end);
  require(entry.end <= data_bytes,
          "data_offsets [{}, {}] are outside of the {} bytes of data; the file may be incomplete", entry.begin,
          entry.end, data_bytes);
  Dims dims;
  auto bytes = static_cast<std::uint64_t>(dtype_size(dtype));
  std::uint64_t extent = bytes;  // counts a size of 0 as 1, because strides must not overflow either
  for (const json::value& size : shape->get_array()) {
    const std::uint64_t n = natural(size, "shape");
    require(n <= std::uint64_t{1} << 62, "shape: {} is too large", n);
    require(!__builtin_mul_overflow(extent, std::max<std::uint64_t>(n, 1), &extent) && extent <= std::uint64_t{1} << 62,
            "shape: too many elements");
    bytes *= n;
    dims.push_back(static_cast<std::int64_t>(n));
  }
  require(bytes == entry.end - entry.begin, "the shape needs {} bytes, but data_offsets give {}", bytes,
          entry.end - entry.begin);
  entry.type = Type::array(dtype, std::move(dims));
  return entry;
}

constexpr std::uint64_t kLengthBytes = 8;

// Returns the length of the JSON text from the first bytes of a file of `file_bytes` bytes.
std::uint64_t header_length(std::span<const std::byte> bytes, std::uint64_t file_bytes) {
  require(file_bytes >= kLengthBytes, "{} bytes are too few for a header", file_bytes);
  constexpr std::string_view kStartOfPointer = "version ";
  static_assert(kStartOfPointer.size() == kLengthBytes);
  require(std::memcmp(bytes.data(), kStartOfPointer.data(), kLengthBytes) != 0,
          "this is a pointer of Git LFS to a file that is not downloaded yet; `git lfs pull` downloads it");
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), kLengthBytes);
  require(length <= file_bytes - kLengthBytes,
          "this is not a safetensors file: its header would have {} bytes, but {} follow", length,
          file_bytes - kLengthBytes);
  constexpr std::uint64_t kLargestHeader = 100'000'000;
  require(length <= kLargestHeader, "a header of {} bytes is too large", length);
  return length;
}

void read_metadata(const json::value& value, std::map<std::string, std::string>& metadata) {
  require(value.is_object(), "__metadata__ must be an object of strings");
  for (const auto& text : value.get_object()) {
    require(text.value().is_string(), "__metadata__: {} must be a string", [&] { return escape_controls(text.key()); });
    metadata[text.key()] = text.value().get_string();
  }
}

void sort_and_check(std::vector<Entry>& entries, std::uint64_t data_bytes) {
  std::stable_sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
  });
  std::uint64_t end = 0;
  for (const Entry& entry : entries) {
    require(
        entry.begin == end, "tensor {} starts at {}, but the previous one ends at {}",
        [&] { return escape_controls(entry.name); }, entry.begin, end);
    end = entry.end;
  }
  require(end == data_bytes, "{} bytes of data belong to no tensor", data_bytes - end);
}

SafetensorsHeader parse_header(std::string_view text, std::uint64_t file_bytes) {
  const json::value parsed = parse_json_with_unique_keys(text, "header");
  require(parsed.is_object(), "the header is not a JSON object");
  SafetensorsHeader header;
  header.data_begin = kLengthBytes + text.size();
  const std::uint64_t data_bytes = file_bytes - header.data_begin;
  for (const auto& member : parsed.get_object()) {
    const std::string_view name = member.key();
    if (name == "__metadata__") {
      read_metadata(member.value(), header.metadata);
      continue;
    }
    try {
      header.tensors.push_back(read_entry(name, member.value(), data_bytes));
    } catch (Error& error) {
      throw error.prefix(fmt::format("tensor {}: ", escape_controls(name)));
    }
  }
  sort_and_check(header.tensors, data_bytes);
  return header;
}

SafetensorsFile parse(std::span<const std::byte> bytes) {
  const std::uint64_t length = header_length(bytes, bytes.size());
  const SafetensorsHeader header =
      parse_header({reinterpret_cast<const char*>(bytes.data()) + kLengthBytes, length}, bytes.size());
  const std::span<const std::byte> data = bytes.subspan(header.data_begin);
  SafetensorsFile file;
  file.metadata = header.metadata;
  for (const Entry& entry : header.tensors) {
    Literal value(entry.type);
    if (entry.end > entry.begin)
      std::memcpy(value.mutable_bytes().data(), data.data() + entry.begin, entry.end - entry.begin);
    if (entry.type.dtype() == DType::kPred)  // bytes other than 0 and 1 are not valid bools
      for (std::byte& byte : value.mutable_bytes()) byte = byte != std::byte{0} ? std::byte{1} : std::byte{0};
    file.tensors.emplace_back(entry.name, std::move(value));
  }
  return file;
}

json::object header_json(const SafetensorsHeader& header) {
  json::object out;
  if (!header.metadata.empty()) {
    json::object& metadata = out["__metadata__"].emplace_object();
    for (const auto& [key, text] : header.metadata) metadata[key] = text;
  }
  for (const Entry& entry : header.tensors) {
    const Dims& dims = entry.type.dims();
    out[entry.name] = {{"dtype", word_of(entry.type.dtype())},
                       {"shape", json::array(dims.begin(), dims.end())},
                       {"data_offsets", json::array{entry.begin, entry.end}}};
  }
  return out;
}

// Padded with blanks, so that the data is aligned.
std::string header_text(const SafetensorsHeader& header) {
  std::string text = json::serialize(header_json(header));
  while (text.size() % kLengthBytes != 0) text += ' ';
  return text;
}

}  // namespace

// ---- headers ------------------------------------------------------------------------------------------------------------

SafetensorsHeader SafetensorsHeader::of(const std::vector<std::pair<std::string, Type>>& tensors,
                                        std::map<std::string, std::string> metadata) {
  SafetensorsHeader out;
  out.metadata = std::move(metadata);
  std::set<std::string_view> names;
  std::uint64_t offset = 0;
  for (const auto& [name, type] : tensors) {
    require(type.is_array(), "safetensors: {} is {}, but only arrays can be written", escape_controls(name), type);
    require(name != "__metadata__",
            "safetensors: a tensor cannot be named __metadata__, which has a meaning in the format");
    require(is_utf8(name), "safetensors: the name of a tensor must be UTF-8, got \"{}\"", escape_controls(name));
    require(names.insert(name).second, "safetensors: two tensors are named {}",
            [&, one = name] { return escape_controls(one); });
    const auto bytes = static_cast<std::uint64_t>(type.byte_size());
    out.tensors.push_back({name, type, offset, offset + bytes});
    offset += bytes;
  }
  out.data_begin = kLengthBytes + header_text(out).size();
  return out;
}

SafetensorsHeader SafetensorsHeader::from_file(const ByteSource& file) {
  try {
    std::array<std::byte, kLengthBytes> first{};
    if (file.size() >= kLengthBytes) file.read(0, first);
    std::string text(header_length(first, file.size()), '\0');
    file.read(kLengthBytes, std::as_writable_bytes(std::span(text)));
    return parse_header(text, file.size());
  } catch (Error& error) {
    if (std::string_view(error.what()).find(file.path()) != std::string_view::npos) throw;
    throw error.prefix(file.path() + ": ");
  }
}

std::string SafetensorsHeader::str() const {
  const std::string text = header_text(*this);
  const std::uint64_t length = text.size();
  std::string out(kLengthBytes, '\0');
  std::memcpy(out.data(), &length, kLengthBytes);
  return out + text;
}

std::uint64_t SafetensorsHeader::file_bytes() const { return data_begin + (tensors.empty() ? 0 : tensors.back().end); }

// ---- files --------------------------------------------------------------------------------------------------------------

const Literal* SafetensorsFile::find(const std::string& name) const {
  for (const auto& [key, value] : tensors)
    if (key == name) return &value;
  return nullptr;
}

SafetensorsFile parse_safetensors(std::span<const std::byte> bytes, const std::string& name) {
  try {
    return parse(bytes);
  } catch (Error& error) {
    throw error.prefix(name + ": ");
  }
}

SafetensorsFile read_safetensors(const std::string& path) {
  if (!std::filesystem::is_regular_file(path) || std::filesystem::file_size(path) == 0) {  // cannot be mapped
    const std::string bytes = read_file(path);
    return parse_safetensors(std::as_bytes(std::span(bytes)), path);
  }
  namespace ipc = boost::interprocess;
  try {
    const ipc::file_mapping file(path.c_str(), ipc::read_only);
    const ipc::mapped_region region(file, ipc::read_only);
    return parse_safetensors({static_cast<const std::byte*>(region.get_address()), region.get_size()}, path);
  } catch (const ipc::interprocess_exception& error) {
    fail("cannot read {}: {}", path, error.what());
  }
}

std::vector<std::byte> print_safetensors(const SafetensorsFile& file) {
  std::vector<std::pair<std::string, Type>> types;
  for (const auto& [name, value] : file.tensors) types.emplace_back(name, value.type());
  const SafetensorsHeader header = SafetensorsHeader::of(types, file.metadata);
  const std::string text = header.str();
  std::vector<std::byte> out(header.file_bytes());
  std::memcpy(out.data(), text.data(), text.size());
  for (std::size_t i = 0; i < file.tensors.size(); ++i) {
    const auto bytes = file.tensors[i].second.bytes();
    if (!bytes.empty())
      std::memcpy(out.data() + header.data_begin + header.tensors[i].begin, bytes.data(), bytes.size());
  }
  return out;
}

void write_safetensors(const std::string& path, const SafetensorsFile& file) {
  const std::vector<std::byte> bytes = print_safetensors(file);
  write_file(path, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

}  // namespace tessera
