// SPDX-License-Identifier: Apache-2.0
#include "manifest.h"

#include <fmt/format.h>

#include <boost/json/serialize.hpp>
#include <filesystem>
#include <span>
#include <utility>
#include <vector>

#include "disjoint_parts.h"
#include "tessera/base/checked.h"
#include "tessera/base/checksum.h"
#include "tessera/base/error.h"
#include "tessera/base/files.h"
#include "tessera/base/json.h"
#include "tessera/base/random_access.h"
#include "tessera/base/text.h"
#include "tessera/checkpoint/checkpoint.h"
#include "tessera/checkpoint/regions.h"

namespace tessera {
namespace {

namespace json = boost::json;

constexpr const char* kFormat = "tessera-checkpoint";
constexpr std::int64_t kVersion = 2;
constexpr const char* kChecksum = "xxh3";
constexpr const char* kListChecksum = "xxh3_of_blocks";
constexpr const char* kClasses = "classes";  // older manifests do not have it

json::array numbers(const Region& region, bool starts) {
  json::array out;
  for (const Interval& dim : region.dims) out.push_back(starts ? dim.start : dim.size());
  return out;
}

const json::value& member(const json::value& object, const char* key) {
  const json::value* found = find_member(object, key);
  require(found != nullptr, "{} is missing", key);
  return *found;
}

std::string text_of(const json::value& object, const char* key) {
  const json::value& value = member(object, key);
  require(value.is_string(), "{} must be a string, got {}", key, [&] { return excerpt(value); });
  return std::string(value.get_string());
}

std::int64_t natural(const json::value& value, const char* what) {
  require(value.is_int64() && value.get_int64() >= 0, "{} must be a number that is not negative, got {}", what,
          [&] { return excerpt(value); });
  return value.get_int64();
}

Dims sizes_of(const json::value& object, const char* key, std::size_t count) {
  const json::value& list = member(object, key);
  require(list.is_array() && (count == SIZE_MAX || list.get_array().size() == count), "{} must be a list of {} numbers",
          key, [&] { return count == SIZE_MAX ? std::string("any number of") : std::to_string(count); });
  Dims out;
  for (const json::value& size : list.get_array()) out.push_back(natural(size, key));
  return out;
}

void check_file_name(const std::string& name) {
  require(!name.empty() && name != "." && name != ".." && name.find('/') == std::string::npos &&
              name.find('\0') == std::string::npos,
          "\"{}\" must be the name of a file in the folder", [&] { return escape_controls(name); });
}

TensorPart part_of(const json::value& value, const Type& type) {
  TensorPart out{text_of(value, "file"), {}};
  check_file_name(out.file);
  const Dims start = sizes_of(value, "start", type.dims().size());
  const Dims shape = sizes_of(value, "shape", type.dims().size());
  for (int d = 0; d < type.ndim(); ++d) {
    require(at(start, d) <= type.dim(d) && at(shape, d) <= type.dim(d) - at(start, d),
            "a part with start {} and size {} exceeds dim {} of {}", at(start, d), at(shape, d), d, type);
    out.region.dims.push_back({at(start, d), at(start, d) + at(shape, d)});
  }
  return out;
}

// Parts that overlap have the elements of others missing, although the number of elements is correct.
void check_disjoint(const StoredTensor& tensor) {
  const auto found = parts_in_common(tensor.parts);
  if (!found) return;
  fail("two parts, in {} and {}, have the same elements", escape_controls(found->first->file),
       escape_controls(found->second->file));
}

// Tensors that do not exist, or files that are larger than any disk. Their sums are printed and compared.
void check_sums(const CheckpointManifest& manifest) {
  Checked of_tensors = 0;
  for (const auto& [name, tensor] : manifest.tensors) of_tensors += tensor.type.byte_size();
  require(of_tensors.fits(), "tensors: all together have more than 2^63 - 1 bytes");
  Checked of_files = 0;
  for (const auto& [name, file] : manifest.files) of_files += static_cast<std::int64_t>(file.bytes);
  require(of_files.fits(), "files: all together have more than 2^63 - 1 bytes");
}

StoredTensor tensor_of(const json::value& value) {
  StoredTensor out;
  out.type = Type::array(dtype_from_name(text_of(value, "dtype")), sizes_of(value, "shape", SIZE_MAX));
  (void)out.type.byte_size();  // checked
  out.exported_dims = out.type.dims();
  if (find_member(value, "exported_shape") != nullptr) {
    out.exported_dims = sizes_of(value, "exported_shape", SIZE_MAX);
    const Type exported = Type::array(out.type.dtype(), out.exported_dims);
    require(exported.element_count() == out.type.element_count(), "exported_shape has {} elements, shape has {}",
            exported.element_count(), out.type.element_count());
  }
  const json::value& parts = member(value, "parts");
  require(parts.is_array(), "parts must be a list");
  std::int64_t missing = out.type.element_count();
  for (const json::value& part : parts.get_array()) {
    out.parts.push_back(part_of(part, out.type));
    const std::int64_t elements = out.parts.back().region.element_count();
    require(elements <= missing, "the parts have more elements than {}", out.type);
    missing -= elements;
  }
  require(missing == 0, "the parts have {} elements less than {}", missing, out.type);
  check_disjoint(out);
  return out;
}

StoredFile file_of(const json::value& value) {
  const bool has_list = find_member(value, kListChecksum) != nullptr;
  return {static_cast<std::uint64_t>(natural(member(value, "bytes"), "bytes")),
          text_of(value, has_list ? kListChecksum : kChecksum), has_list};
}

std::string class_of(const json::value& value) {
  require(value.is_string(), "the name of a class must be a string, got {}", [&] { return excerpt(value); });
  return std::string(value.get_string());
}

bool is_manifest(const json::value& all) { return all.is_object() && text_of(all, "format") == kFormat; }

// The error about a manifest in another version of the format; "" if it is in this one.
std::string other_version_text(const json::value& all) {
  const std::int64_t version = natural(member(all, "version"), "version");
  if (version == kVersion) return "";
  return fmt::format(
      "the checkpoint was written by {} version of Tessera: its format has version {}, and this program reads version "
      "{}; use the program that wrote it, or give another checkpoint",
      version > kVersion ? "a newer" : "an older", version, kVersion);
}

// Of all other members.
std::string manifest_checksum(json::object all) {
  all.erase(kChecksum);
  const std::string text = json::serialize(all);
  Checksum sum;
  sum.add(std::as_bytes(std::span(text)));
  return sum.text();
}

// Compact, with a line end, so that each byte that is missing or was added is found.
std::string text_of_manifest(const json::value& all) { return json::serialize(all) + "\n"; }

template <class Map, class Read>
void read_members(const json::value& all, const char* key, Map& into, const Read& read_one) {
  const json::value& object = member(all, key);
  require(object.is_object(), "{} must be an object", key);
  for (const auto& entry : object.get_object()) try {
      into.emplace(std::string(entry.key()), read_one(entry.value()));
    } catch (Error& error) {
      throw error.prefix(fmt::format("{}: {}: ", key, escape_controls(entry.key())));
    }
}

}  // namespace

std::string state_file(int rank, int ranks) { return fmt::format("state-{:05}-of-{:05}.safetensors", rank + 1, ranks); }

std::string CheckpointManifest::str() const {
  json::object out{{"format", kFormat}, {"version", kVersion}};
  json::object& file_list = out["files"].emplace_object();
  for (const auto& [name, file] : files)
    file_list[name] = {{"bytes", file.bytes}, {file.has_list ? kListChecksum : kChecksum, file.checksum}};
  json::object& tensor_list = out["tensors"].emplace_object();
  for (const auto& [name, tensor] : tensors) {
    json::array parts;
    for (const TensorPart& part : tensor.parts)
      parts.push_back(
          {{"file", part.file}, {"start", numbers(part.region, true)}, {"shape", numbers(part.region, false)}});
    json::object& one = tensor_list[name].emplace_object();
    one["dtype"] = dtype_name(tensor.type.dtype());
    one["shape"] = json::array(tensor.type.dims().begin(), tensor.type.dims().end());
    if (tensor.exported_dims != tensor.type.dims())
      one["exported_shape"] = json::array(tensor.exported_dims.begin(), tensor.exported_dims.end());
    one["parts"] = std::move(parts);
  }
  if (!classes.empty()) {
    json::object& class_list = out[kClasses].emplace_object();
    for (const auto& [group, name] : classes) class_list[group] = name;
  }
  out[kChecksum] = manifest_checksum(out);
  return text_of_manifest(std::move(out));
}

bool may_have_manifest(const std::string& folder) {
  const std::string path = folder + "/" + kManifestFile;
  std::error_code error;
  return is_there(path) || std::filesystem::exists(path, error) || error;
}

void require_manifest(const std::string& folder) {
  namespace fs = std::filesystem;
  if (may_have_manifest(folder)) return;
  std::error_code error;
  const bool is_folder = fs::is_directory(folder, error);
  const fs::path path = fs::path(folder + "/").parent_path();  // without slashes at the end
  const std::string place = is_folder ? path.string() : path.parent_path().string();
  auto others = checkpoints_in(place.empty() ? "." : place);
  std::erase_if(others, [](const auto& one) { return !may_have_manifest(one.second); });
  const std::string hint =
      others.empty() ? "" : fmt::format("; the newest checkpoint there is {}", others.rbegin()->second);
  const std::string link = dangling_link_text(path.string());
  require(link.empty(), "{}{}", link, hint);
  require(is_folder || !fs::exists(path, error), "{} is not a folder{}", path.string(), hint);
  require(is_folder, "there is no folder {}{}", folder, hint);
  fail("{} is not a complete checkpoint: it contains no {}{}", folder, kManifestFile, hint);
}

std::string other_format_of(const std::string& folder) {
  const std::string path = folder + "/" + kManifestFile;
  try {
    (void)InputFile(std::string(path));  // refuses pipes
    const json::value all = parse_json_with_unique_keys(read_file(path), path);
    const std::string text = is_manifest(all) ? other_version_text(all) : "";
    return text.empty() ? "" : path + ": " + text;
  } catch (const Error&) {  // damaged or missing
    return "";
  }
}

CheckpointManifest CheckpointManifest::from_folder(const std::string& folder) {
  require_manifest(folder);
  const std::string path = folder + "/" + kManifestFile;
  (void)InputFile(std::string(path));  // refuses pipes, which would wait for a writer
  const std::string text = read_file(path);
  const json::value all = parse_json_with_unique_keys(text, path);
  CheckpointManifest out;
  out.folder = folder;
  try {
    require(is_manifest(all), "this is not the manifest of a checkpoint");
    const std::string other_version = other_version_text(all);
    require(other_version.empty(), "{}", other_version);
    require(text_of(all, kChecksum) == manifest_checksum(all.get_object()),
            "damaged: its content does not match its checksum");
    const std::string saved = text_of_manifest(all);
    require(text == saved, "damaged: its {} bytes are not the {} bytes that were saved", text.size(), saved.size());
    read_members(all, "files", out.files, file_of);
    for (const auto& [name, file] : out.files) check_file_name(name);
    read_members(all, "tensors", out.tensors, tensor_of);
    if (find_member(all, kClasses) != nullptr) read_members(all, kClasses, out.classes, class_of);
    for (const auto& [name, tensor] : out.tensors)
      for (const TensorPart& part : tensor.parts)
        require(
            out.files.contains(part.file), "{} is in the file {}, which \"files\" does not list",
            [&, one = name] { return escape_controls(one); }, [&] { return escape_controls(part.file); });
    check_sums(out);
  } catch (Error& error) {
    throw error.prefix(path + ": ");
  }
  return out;
}

}  // namespace tessera
